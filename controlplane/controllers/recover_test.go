package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
)

func TestAStatusThatWasLostLearnsFromPodsThatAnUpgradeIsUnderWay(t *testing.T) {
	pod := func(component, version string) *corev1.Pod {
		pod := statustest.ReadyPod(component, 0)
		pod.Namespace, pod.Labels = "team", names.ComponentLabels(initializedScope().key, component)
		if version != "" {
			pod.Labels[names.VersionLabel] = version
		}
		return &pod
	}
	for name, test := range map[string]struct {
		apiServer string
		known     []clusterv1.StatusVersion
		want      bool
	}{
		"an API server runs the version before": {"v1.35.4", nil, true},
		"an API server runs the version":        {"v1.36.3", nil, false},
		"there is no API server yet":            {"", nil, false},
		"the status knows already":              {"v1.35.4", []clusterv1.StatusVersion{{Version: "v1.36.3"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, host := initializedScope(), fake.NewClientBuilder().WithObjects(pod(names.EtcdData, ""))
			if test.apiServer != "" {
				host.WithObjects(pod(names.KubeAPIServer, test.apiServer))
			}
			s.host.Client, s.input.Version, s.controlPlane.Status.Versions = host.Build(), "v1.36.3", test.known
			s.revisions = &revision.Store{}
			if err := s.gather(t.Context()); err != nil {
				t.Fatal(err)
			}
			recoverVersions(s)
			if got := s.upgrading(); got != test.want {
				t.Errorf("upgrading is %t: %v", got, s.controlPlane.Status.Versions)
			}
		})
	}
}
