package observation

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

func TestReplicasThatHaveNoHostNodeAreNamed(t *testing.T) {
	pending := func(component string, desired int32) func(*components.Input, map[string]*workloads.State) {
		return func(in *components.Input, seen map[string]*workloads.State) {
			seen[component].Desired, seen[component].Current = desired, desired
			switch component {
			case names.KubeAPIServer:
				in.Spec.KubeAPIServer.Workload, in.APIServerReplicas = controlplanev1.APIServerDeployment, desired
			case names.KubeControllerManager:
				in.Spec.KubeControllerManager.Replicas = &desired
			case names.KubeScheduler:
				in.Spec.KubeScheduler.Replicas = &desired
			}
		}
	}
	for name, test := range map[string]struct {
		// south is the number of host nodes of that port pool beside the other ones.
		hosts, south int
		is           []func(*components.Input, map[string]*workloads.State)
		// says are what the messages begin with, one for each.
		says  []string
		reads int
	}{
		"every replica runs": {hosts: 3},
		"an autoscaler wants more API servers": {hosts: 3, is: []func(*components.Input, map[string]*workloads.State){pending(names.KubeAPIServer, 5)},
			says: []string{"spec.replicas is 5, on the host network each replica needs a host node of its own, and there are 3: lower it, or label host nodes; a rollout of kube-apiserver cannot end before"}, reads: 1},
		"the defaults on one host node": {hosts: 1, is: []func(*components.Input, map[string]*workloads.State){pending(names.KubeControllerManager, 2), pending(names.KubeScheduler, 2), func(_ *components.Input, seen map[string]*workloads.State) {
			seen[names.KubeControllerManager].Available, seen[names.KubeScheduler].Available = 1, 1
		}}, says: []string{"spec.kubeControllerManager.replicas is 2, ", "spec.kubeScheduler.replicas is 2, "}, reads: 1},
		"there are host nodes, and a pod starts": {hosts: 5, is: []func(*components.Input, map[string]*workloads.State){pending(names.KubeAPIServer, 5)}, reads: 1},
		"no host node is labelled":               {is: []func(*components.Input, map[string]*workloads.State){pending(names.KubeAPIServer, 5)}, reads: 1},
		"pods are on the pod network": {hosts: 3, is: []func(*components.Input, map[string]*workloads.State){pending(names.KubeAPIServer, 5), func(in *components.Input, _ map[string]*workloads.State) {
			in.Spec.Hosting.NetworkMode = controlplanev1.NetworkModePod
		}}},
		"kube-apiserver is a DaemonSet": {hosts: 2, is: []func(*components.Input, map[string]*workloads.State){pending(names.KubeAPIServer, 5), func(in *components.Input, _ map[string]*workloads.State) {
			in.Spec.KubeAPIServer.Workload = ""
		}}},
		"the host nodes are of another port pool": {hosts: 5, south: 1, is: []func(*components.Input, map[string]*workloads.State){pending(names.KubeScheduler, 2), func(in *components.Input, seen map[string]*workloads.State) {
			in.Spec.Hosting.PortPool = "south"
			seen[names.KubeScheduler].Available = 1
		}}, says: []string{"spec.kubeScheduler.replicas is 2, on the host network each replica needs a host node of its own, and there are 1: "}, reads: 1},
		"nothing is made yet": {hosts: 1, is: []func(*components.Input, map[string]*workloads.State){func(_ *components.Input, seen map[string]*workloads.State) { clear(seen) }}},
	} {
		t.Run(name, func(t *testing.T) {
			in, seen := &components.Input{}, statustest.Workloads()
			in.Spec.Hosting.NodeSelector = map[string]string{controlplanev1.HostNodeLabel: "true"}
			in.Spec.KubeControllerManager.Replicas, in.Spec.KubeScheduler.Replicas = ptr.To[int32](2), ptr.To[int32](2)
			ofPool := map[string]string{controlplanev1.PortPoolLabel: "south"}
			maps.Copy(ofPool, in.Spec.Hosting.NodeSelector)
			nodes := []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}}}
			for i := range test.south {
				nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("south%d", i), Labels: ofPool}})
			}
			for i := range test.hosts {
				nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: in.Spec.Hosting.NodeSelector}})
			}
			reads := 0
			live := interceptor.NewClient(fake.NewClientBuilder().WithObjects(nodes...).Build(), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					reads++
					return c.List(ctx, list, options...)
				},
			})
			for _, do := range test.is {
				do(in, seen)
			}
			var got []error
			for range 2 {
				var err error
				if got, err = WithoutRoom(t.Context(), live, in, seen); err != nil {
					t.Fatal(err)
				}
			}
			if len(got) != len(test.says) || reads != 2*test.reads {
				t.Fatalf("after %d reads it says %q", reads, got)
			}
			for i, says := range test.says {
				if !strings.HasPrefix(got[i].Error(), says) {
					t.Errorf("it says %q, want %q", got[i], says)
				}
			}
		})
	}
}
