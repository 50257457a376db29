package controllers

import (
	"testing"
	"time"

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

func TestTheFirstCertificateThatEndsIsNoted(t *testing.T) {
	early, late := time.Date(2026, 7, 1, 2, 0, 0, 0, time.UTC), time.Date(2027, 7, 1, 2, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		ends []time.Time
		want time.Time
	}{
		"there is no certificate":           {nil, time.Time{}},
		"there is one":                      {[]time.Time{late}, late},
		"the earlier end is noted last":     {[]time.Time{late, early}, early},
		"the earlier end is noted first":    {[]time.Time{early, late}, early},
		"two end at once":                   {[]time.Time{early, early}, early},
		"what has no end takes nothing off": {[]time.Time{early, {}}, early},
		"what has no end is not the first":  {[]time.Time{{}, late}, late},
		"nothing has an end":                {[]time.Time{{}, {}}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{}
			for _, end := range test.ends {
				s.endsAt(end)
			}
			if !s.firstEnd.Equal(test.want) {
				t.Errorf("the first end is %s, want %s", s.firstEnd, test.want)
			}
			if !s.nextRenewal.IsZero() {
				t.Errorf("an end is a renewal, at %s", s.nextRenewal)
			}
		})
	}
}
