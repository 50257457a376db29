//go:build envtest

package controllers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/docs/objects"
)

// Renderings are compared with the reference by the tests of documents; here is what the controller makes besides.
func TestTheReferenceHasEveryObjectOfAControlPlane(t *testing.T) {
	t.Parallel()
	rows, _, err := objects.Documented()
	if err != nil {
		t.Fatal(err)
	}
	documented := map[objects.Object]bool{}
	for _, row := range rows {
		documented[row.Object] = true
	}
	made := map[objects.Object]bool{}
	for _, edit := range []func(*controlplanev1.KOKControlPlane){
		func(c *controlplanev1.KOKControlPlane) {
			whole(c)
			keepSnapshotsOnMembers(c)
		},
		func(c *controlplanev1.KOKControlPlane) {
			onPodNetwork(controlplanev1.ExposureNodePort, controlplanev1.APIServerDeployment)(c)
			small(c)
			c.Spec.Metrics.Mode = controlplanev1.MetricsManaged
			c.Spec.KeyRotation = controlplanev1.KeyRotationSpec{Kinds: []controlplanev1.KeyKind{controlplanev1.ServiceAccountKeyKind}, PrepareAfter: metav1.NewTime(time.Now().Add(-time.Hour))}
			c.Spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{
				Recipients: []string{personKey}, Store: controlplanev1.EtcdSnapshotStore{ClaimName: "snapshots"},
			}
		},
	} {
		tt := newTenantTest(t, edit)
		tt.program.EtcdAgentImage = "registry.k8s.io/kok-etcd-agent:1"
		tt.settle()
		for _, o := range tt.objects() {
			if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "Pod" {
				made[objects.InHostCluster("blue", kind, o.GetName(), o.GetLabels()[names.ComponentLabel])] = true
			}
		}
	}
	for object := range made {
		if !documented[object] {
			t.Errorf("%s has no row for %+v", objects.Path, object)
		}
	}
	for object := range documented {
		if !made[object] {
			t.Errorf("%s has a row for %+v, which no control plane has", objects.Path, object)
		}
	}
}
