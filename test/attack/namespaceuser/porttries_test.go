//go:build attack

package namespaceuser

import (
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// pins is a control plane at a block of host ports.
func pins(first int32) edit {
	return func(c *controlplanev1.KOKControlPlane) { c.Spec.Hosting.Ports.First = first }
}

// onPodNetwork is a control plane at a port of all nodes.
func onPodNetwork(nodePort int32) edit {
	return func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Hosting.NetworkMode = controlplanev1.NetworkModePod
		c.Spec.Hosting.Exposure = controlplanev1.ExposureSpec{Type: controlplanev1.ExposureNodePort, NodePort: nodePort}
	}
}

func TestNobodyGetsAHostPortOfAnother(t *testing.T) {
	a := newAttacker(t)
	free := victims.ports + 20*controlplanev1.PortBlockSize
	if free > 29000 {
		free = 20000
	}
	held := fmt.Sprintf("belong to Cluster %s/%s", victim, hostNetworkName)
	plain := addsContainer("", "")
	hostPort := fmt.Sprintf(`,"ports":[{"containerPort":%d,"hostPort":%d}]`, victims.ports, victims.ports)
	argument := func(name, value string) []controlplanev1.Arg {
		return []controlplanev1.Arg{{Name: name, Value: &value}}
	}
	port := strconv.Itoa(int(victims.ports))
	tries := map[string]try{
		"the block of another":          refused(pins(free), pins(victims.ports), held),
		"a block with kubelet's port":   refused(pins(free), pins(10240), "are not in 20000-29999"),
		"a block of node ports":         refused(pins(free), pins(30000), "are not in 20000-29999"),
		"a block that overlaps another": refused(pins(free), pins(victims.ports+10), "multiple of 20"),
		"the node port of another":      refused(onPodNetwork(0), onPodNetwork(victims.nodePort), "already allocated"),
		"a container with a host port":  refused(plain, addsContainer(hostPort, ""), "cannot declare ports"),
		"the component's host port": refused(plain, patched(names.KubeAPIServer, "DaemonSet",
			fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"kube-apiserver","ports":[{"containerPort":%s,"hostPort":%s}]}]}}}}`, port, port)), "ports cannot be patched"),
		"an argument of kube-apiserver": refused(func(c *controlplanev1.KOKControlPlane) { c.Spec.KubeAPIServer.ExtraArgs = argument("v", "2") },
			func(c *controlplanev1.KOKControlPlane) {
				c.Spec.KubeAPIServer.ExtraArgs = argument("secure-port", port)
			}, "the controller gives every tenant its own port"),
		"an argument of kube-controller-manager": refused(func(c *controlplanev1.KOKControlPlane) { c.Spec.KubeControllerManager.ExtraArgs = argument("v", "2") },
			func(c *controlplanev1.KOKControlPlane) {
				c.Spec.KubeControllerManager.ExtraArgs = argument("secure-port", port)
			}, "the controller gives every tenant its own port"),
		"an argument of kube-scheduler": refused(func(c *controlplanev1.KOKControlPlane) { c.Spec.KubeScheduler.ExtraArgs = argument("v", "2") },
			func(c *controlplanev1.KOKControlPlane) {
				c.Spec.KubeScheduler.ExtraArgs = argument("secure-port", port)
			}, "the controller gives every tenant its own port"),
		"the block of another, with a forged claim": {
			control: func(a *attacker) error { return a.mayHave(pins(free)) },
			attack: func(a *attacker) (client.Object, error) {
				next := "blue-" + strconv.Itoa(a.made+1)
				a.must(&corev1.ConfigMap{
					ObjectMeta: withLabels(a.meta("kok-ports-"+port), names.ComponentLabels(client.ObjectKey{Namespace: a.namespace, Name: next}, "ports")),
					Immutable:  ptr.To(true), Data: map[string]string{"clusterNamespace": a.namespace, "clusterName": next},
				})
				return a.tenant(pins(victims.ports))
			},
			stoppedBy: held,
		},
		"the block of another, after a change": {
			control: func(a *attacker) error { return a.mayHave(pins(free)) },
			attack: func(a *attacker) (client.Object, error) {
				made := a.running(nothing)
				return made, a.client.Patch(a.t.Context(), made, merge(`{"spec":{"hosting":{"ports":{"first":%d}}}}`, victims.ports))
			},
			stoppedBy: "immutable",
		},
		"the claim of another, by the end of a control plane that passes for theirs": {
			control: func(a *attacker) error { return a.mayHave(nothing) },
			attack: func(a *attacker) (client.Object, error) {
				plane := single(a.namespace, a.fresh("blue"))
				plane.Labels = names.Labels(client.ObjectKey{Namespace: victim, Name: hostNetworkName})
				plane.Finalizers = []string{controlplanev1.KOKControlPlaneFinalizer}
				a.must(plane)
				if err := a.client.Delete(a.t.Context(), plane); err != nil {
					return nil, err
				}
				eventually(a.t, "it is gone", a.gone(plane))
				return nil, errGone
			},
			stoppedBy: errGone.Error(),
		},
	}
	a.attempt(t, tries)
}
