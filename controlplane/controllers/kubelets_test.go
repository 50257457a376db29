package controllers

import (
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
)

func TestWhatAnUpgradeToAnotherMinorLeavesUntilItHasBegun(t *testing.T) {
	for name, test := range map[string]struct {
		runs     []string
		rendered map[string]string
		is       func(*scope)
		want     string
	}{
		"nothing has begun":                               {runs: []string{"v1.35.4"}, want: "v1.35.4"},
		"nothing has begun, by what is rendered too":      {runs: []string{"v1.35.4"}, rendered: map[string]string{names.EtcdData: "v1.35.4", names.KubeAPIServer: "v1.35.4"}, want: "v1.35.4"},
		"the patch version before is not over":            {runs: []string{"v1.35.3"}, rendered: map[string]string{names.EtcdData: "v1.35.4"}, want: "v1.35.4"},
		"etcd that keeps its pods is older":               {runs: []string{"v1.35.4"}, rendered: map[string]string{names.EtcdData: "v1.34.1"}, want: "v1.35.4"},
		"etcd has begun":                                  {runs: []string{"v1.35.4"}, rendered: map[string]string{names.EtcdData: "v1.36.3"}},
		"the events' etcd has begun":                      {runs: []string{"v1.35.4"}, rendered: map[string]string{names.EtcdData: "v1.34.1", names.EtcdEvents: "v1.36.2"}},
		"API servers have begun, and etcd keeps its pods": {runs: []string{"v1.35.4"}, rendered: map[string]string{names.EtcdData: "v1.34.1", names.KubeAPIServer: "v1.36.3"}},
		"a pod runs the minor":                            {runs: []string{"v1.35.4", "v1.36.2"}},
		"it is over":                                      {runs: []string{"v1.36.3"}},
		"another patch version is wanted":                 {runs: []string{"v1.36.2"}},
		"a newer minor runs":                              {runs: []string{"v1.37.0"}},
		"it never ran":                                    {runs: []string{"v1.35.4"}, is: func(s *scope) { s.uninitialized() }},
	} {
		t.Run(name, func(t *testing.T) {
			s := initializedScope()
			if s.input.Version = "v1.36.3"; test.is != nil {
				test.is(s)
			} else {
				status.Set(s.statusInput(), settled())
				s.controlPlane.Status.Versions = nil
			}
			for _, version := range test.runs {
				s.controlPlane.Status.Versions = append(s.controlPlane.Status.Versions, clusterv1.StatusVersion{Version: version})
			}
			host := fake.NewClientBuilder().Build()
			s.revisions = &revision.Store{Client: host, Live: host}
			for component, version := range test.rendered {
				s.revisions.Version = version
				if _, err := s.revisions.Rendering(t.Context(), s.key, component, "inputs", time.Time{}, func() ([]client.Object, error) { return nil, nil }); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := s.leaves(t.Context()); got != test.want || err != nil {
				t.Errorf("it leaves %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
