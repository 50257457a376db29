package controllers

import (
	"testing"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func TestWhetherAnUpgradeIsUnderWay(t *testing.T) {
	for name, test := range map[string]struct {
		status controlplanev1.KOKControlPlaneStatus
		want   bool
	}{
		"nothing runs yet":            {controlplanev1.KOKControlPlaneStatus{}, false},
		"every pod is at the version": {controlplanev1.KOKControlPlaneStatus{Versions: []clusterv1.StatusVersion{{Version: "v1.36.3"}}}, false},
		"a pod is at another one":     {controlplanev1.KOKControlPlaneStatus{Versions: []clusterv1.StatusVersion{{Version: "v1.35.4"}, {Version: "v1.36.3"}}}, true},
		"a tenant is created, and its etcd was founded": {controlplanev1.KOKControlPlaneStatus{
			Etcd: []controlplanev1.EtcdClusterStatus{{Name: "data", Bootstrapped: ptr.To(true)}},
		}, false},
	} {
		s := initializedScope()
		s.input.Version, s.controlPlane.Status = "v1.36.3", test.status
		if got := s.upgrading(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
