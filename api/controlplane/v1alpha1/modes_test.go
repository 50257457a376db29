package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// What may run a control plane is decided by both: the labels of its host nodes, and the taints that its pods tolerate.
func TestHostNodesOfAControlPlane(t *testing.T) {
	selector := map[string]string{HostNodeLabel: "true"}
	dedicated := corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists}
	north := corev1.Toleration{Key: PortPoolLabel, Operator: corev1.TolerationOpEqual, Value: "north"}
	for name, test := range map[string]struct {
		hosting     HostingSpec
		labels      map[string]string
		tolerations []corev1.Toleration
	}{
		"nothing is set": {},
		"without a pool": {HostingSpec{NodeSelector: selector, Tolerations: []corev1.Toleration{dedicated}}, selector, []corev1.Toleration{dedicated}},
		"in a pool": {HostingSpec{NodeSelector: selector, Tolerations: []corev1.Toleration{dedicated}, PortPool: "north"},
			map[string]string{HostNodeLabel: "true", PortPoolLabel: "north"}, []corev1.Toleration{dedicated, north}},
		"in a pool, with no selector": {HostingSpec{PortPool: "north"}, map[string]string{PortPoolLabel: "north"}, []corev1.Toleration{north}},
		// The webhook refuses it; the ports are those of the pool.
		"a selector that names another pool": {HostingSpec{NodeSelector: map[string]string{PortPoolLabel: "south"}, PortPool: "north"},
			map[string]string{PortPoolLabel: "north"}, []corev1.Toleration{north}},
	} {
		t.Run(name, func(t *testing.T) {
			before := test.hosting.DeepCopy()
			if diff := cmp.Diff(test.labels, test.hosting.HostNodeLabels()); diff != "" {
				t.Errorf("labels of host nodes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.tolerations, test.hosting.PodTolerations()); diff != "" {
				t.Errorf("tolerations (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, &test.hosting); diff != "" {
				t.Errorf("it changed (-before +after):\n%s", diff)
			}
		})
	}
}
