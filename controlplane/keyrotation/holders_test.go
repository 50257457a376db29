package keyrotation

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
)

func TestAWorkloadIsRolledOutWhenNoFormerPodCanCome(t *testing.T) {
	for name, test := range map[string]struct {
		status appsv1.DeploymentStatus
		want   bool
	}{
		"all are up to date and available": {appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2}, true},
		"a former pod is left":             {appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 3}, false},
		"a pod is not available":           {appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 1, AvailableReplicas: 1}, false},
		"a pod is of a former template":    {appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 1, ReadyReplicas: 2, AvailableReplicas: 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)}, Status: test.status}
			if got := rolledOut(d); got != test.want {
				t.Errorf("it is %t", got)
			}
		})
	}
}
