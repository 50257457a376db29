package webhooks

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func TestAQuotaThatLeavesALargeDatabaseNoRoomIsWarnedOf(t *testing.T) {
	const of = "spec.etcd.events.quotaBackendSize, 6Gi, is more than 45 % of spec.etcd.events.storage.size, 8Gi: " +
		"a database that large has no room to be written anew; set spec.etcd.events.storage.size to 14Gi, or the quota to 3686Mi"
	spec := controlplanev1.EtcdSpec{}
	spec.Data.QuotaBackendSize, spec.Data.Storage.Size = ptr.To(resource.MustParse("2Gi")), ptr.To(resource.MustParse("8Gi"))
	spec.Events.QuotaBackendSize, spec.Events.Storage.Size = ptr.To(resource.MustParse("6Gi")), ptr.To(resource.MustParse("8Gi"))
	if got := warnOfEtcd(spec, etcdPath); !slices.Equal(got, []string{of}) {
		t.Errorf("it says %q", got)
	}
	spec.Events.Mode = controlplanev1.EtcdEventsInData
	if got := warnOfEtcd(spec, etcdPath); len(got) > 0 {
		t.Errorf("of an etcd that is not there it says %q", got)
	}
}
