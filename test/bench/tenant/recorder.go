// Package tenant creates tenants in a host cluster and records, from what the host cluster tells its watchers, when
// each stage of their creation was reached.
package tenant

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/timeline"
)

// observe reads what an object of the tenant tells.
func (t *Tenant) observe(object client.Object) {
	component := object.GetLabels()[names.ComponentLabel]
	switch o := object.(type) {
	case *controlplanev1.KOKControlPlane:
		t.observeControlPlane(o)
	case *corev1.Secret:
		t.observeSecret(o, component)
	case *corev1.Service:
		t.timeline.Mark(timeline.Service, "", o.Name)
	case *corev1.PersistentVolumeClaim:
		if o.Status.Phase == corev1.ClaimBound {
			t.timeline.Mark(timeline.VolumeBound, component, o.Name)
		}
	case *appsv1.StatefulSet:
		t.observeWorkload(o, component, *o.Spec.Replicas, o.Status.ReadyReplicas, o.Status.ObservedGeneration)
	case *appsv1.DaemonSet:
		t.observeWorkload(o, component, o.Status.DesiredNumberScheduled, o.Status.NumberReady, o.Status.ObservedGeneration)
	case *appsv1.Deployment:
		t.observeWorkload(o, component, *o.Spec.Replicas, o.Status.ReadyReplicas, o.Status.ObservedGeneration)
	case *corev1.Pod:
		t.observePod(o, component)
	case *corev1.Event:
		t.observeEvent(o)
	}
}

func (t *Tenant) observeControlPlane(o *controlplanev1.KOKControlPlane) {
	for _, owner := range o.OwnerReferences {
		if owner.Kind == clusterv1.ClusterKind {
			t.timeline.Mark(timeline.OwnerSet, "", "")
		}
	}
	if o.Spec.Hosting.Ports.First != 0 {
		t.timeline.Mark(timeline.PortsClaimed, "", "")
	}
	healthy := true
	for _, name := range []string{
		conditionsv1.AvailableCondition, conditionsv1.EtcdClusterHealthyCondition, conditionsv1.ControlPlaneComponentsHealthyCondition,
	} {
		healthy = healthy && meta.IsStatusConditionTrue(o.Status.Conditions, name)
	}
	if healthy {
		t.timeline.Mark(healthyStage, "", "")
	}
	if meta.IsStatusConditionTrue(o.Status.Conditions, conditionsv1.InitializedCondition) {
		t.timeline.Mark(timeline.Initialized, "", "")
	}
	available := meta.FindStatusCondition(o.Status.Conditions, conditionsv1.AvailableCondition)
	switch {
	case available == nil:
		t.waits("no condition yet")
	case available.Status == "True":
		t.timeline.Mark(timeline.Available, "", "")
		t.waits("")
	default:
		t.waits(strings.ReplaceAll(available.Message, t.Key.Name, "<cluster>"))
	}
}

func (t *Tenant) observeSecret(o *corev1.Secret, component string) {
	switch o.Name {
	case names.KeyMaterial(t.Key.Name):
		t.timeline.Mark(timeline.KeyMaterial, "", "")
	case names.Certs(t.Key.Name, component):
		t.timeline.Mark(timeline.Certificates, "", component)
	case secret.Name(t.Key.Name, secret.Kubeconfig):
		t.timeline.Mark(timeline.Kubeconfig, "", "")
		t.askAPI(o.Data[secret.KubeconfigDataName])
	}
}

func (t *Tenant) observeWorkload(o client.Object, component string, desired, ready int32, observed int64) {
	t.timeline.Mark(timeline.Applied, component, "")
	if want := t.Shape.Replicas(component); observed == o.GetGeneration() && desired == want && ready == want {
		t.timeline.Mark(timeline.Complete, component, "")
	}
}

func (t *Tenant) observePod(o *corev1.Pod, component string) {
	t.timeline.Mark(timeline.Created, component, o.Name)
	if o.Spec.NodeName != "" {
		t.timeline.Mark(timeline.Scheduled, component, o.Name)
		t.askPod(o, component)
	}
	for i := range o.Status.ContainerStatuses {
		if o.Status.ContainerStatuses[i].State.Running != nil {
			t.timeline.Mark(timeline.Started, component, o.Name)
		}
		t.noteRestarts(o, &o.Status.ContainerStatuses[i])
	}
	for i := range o.Status.Conditions {
		if c := &o.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			t.timeline.Mark(timeline.PodReady, component, o.Name)
		}
	}
}

// observeEvent hears of a container's start before kubelet writes the pod's status.
func (t *Tenant) observeEvent(o *corev1.Event) {
	switch o.InvolvedObject.Kind {
	case "KOKControlPlane":
		if o.Reason == "PortsClaimed" {
			t.timeline.Mark(timeline.PortsClaimed, "", "")
		}
	case "Pod":
		component := t.componentOf(o.InvolvedObject.Name)
		switch o.Reason {
		case "Started":
			if component != "" {
				t.timeline.Mark(timeline.Started, component, o.InvolvedObject.Name)
			}
		case "Killing", "BackOff", "FailedScheduling", "FailedMount", "FailedCreatePodSandBox", "Evicted":
			t.noteTrouble(o)
		}
	}
}

func (t *Tenant) componentOf(pod string) string {
	rest, ok := strings.CutPrefix(pod, t.Key.Name+"-")
	if !ok {
		return ""
	}
	for _, component := range []string{names.EtcdData, names.EtcdEvents, names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler} {
		if strings.HasPrefix(rest, component+"-") {
			return component
		}
	}
	return ""
}

// waits adds up how long the tenant said what it waits for.
func (t *Tenant) waits(message string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	now := time.Now()
	if t.waitsFor != "" {
		t.waited[t.waitsFor] += now.Sub(t.waitsSince)
	}
	t.waitsFor, t.waitsSince = message, now
}
