//go:build envtest

package envtest

import (
	"testing"

	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// autoscaler is who the host cluster's controller for HorizontalPodAutoscalers is. Kubernetes gives it its rights.
const autoscaler = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"

// scales is a client as that controller has it, in a namespace.
func scales(t *testing.T, namespace string) scale.ScaleInterface {
	t.Helper()
	g := NewWithT(t)
	config := rest.CopyConfig(environment.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: autoscaler, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))
	scales, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(kinds))
	g.Expect(err).NotTo(HaveOccurred())
	return scales.Scales(namespace)
}

var scaled = schema.GroupResource{Group: controlplanev1.GroupVersion.Group, Resource: "kokcontrolplanes"}

// deployed is a control plane with a number of API servers, as its controller leaves it.
func deployed(t *testing.T) *controlplanev1.KOKControlPlane {
	t.Helper()
	g := NewWithT(t)
	c := minimal(newNamespace(t))
	c.Spec.KubeAPIServer.Workload = controlplanev1.APIServerDeployment
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	g.Expect(c.Spec.Replicas).To(HaveValue(Equal(controlplanev1.DefaultAPIServerReplicas)))
	c.Status.Replicas, c.Status.Selector = ptr.To[int32](2), "app=a"
	g.Expect(environment.Client.Status().Update(t.Context(), c)).To(Succeed())
	return c
}

func TestAnAutoscalerReadsAndSetsTheNumberOfAPIServers(t *testing.T) {
	g := NewWithT(t)
	c := deployed(t)
	scales := scales(t, c.Namespace)
	now, err := scales.Get(t.Context(), scaled, c.Name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(now.Spec.Replicas).To(Equal(int32(2)))
	g.Expect(now.Status).To(Equal(autoscalingv1.ScaleStatus{Replicas: 2, Selector: "app=a"}))

	for _, replicas := range []int32{5, 1} {
		now.Spec.Replicas = replicas
		now, err = scales.Update(t.Context(), scaled, now, metav1.UpdateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(environment.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c)).To(Succeed())
		g.Expect(c.Spec.Replicas).To(HaveValue(Equal(replicas)))
	}
}

func TestAnAutoscalerKeepsToTheBounds(t *testing.T) {
	g := NewWithT(t)
	c := deployed(t)
	scales := scales(t, c.Namespace)
	now, err := scales.Get(t.Context(), scaled, c.Name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for replicas, refusal := range map[int32]string{0: "spec.replicas in body should be greater than or equal to 1", 101: "spec.replicas in body should be less than or equal to 100"} {
		now.Spec.Replicas = replicas
		_, err := scales.Update(t.Context(), scaled, now, metav1.UpdateOptions{})
		g.Expect(err).To(MatchError(ContainSubstring(refusal)), "%d replicas", replicas)
	}
}

// Two that set the number must not undo each other.
func TestAnAutoscalerDoesNotOverwriteANumberThatItHasNotSeen(t *testing.T) {
	g := NewWithT(t)
	c := deployed(t)
	scales := scales(t, c.Namespace)
	seen, err := scales.Get(t.Context(), scaled, c.Name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(environment.Client.SubResource("scale").Patch(t.Context(), c,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":4}}`)))).To(Succeed())
	seen.Spec.Replicas = 3
	_, err = scales.Update(t.Context(), scaled, seen, metav1.UpdateOptions{})
	g.Expect(err).To(MatchError(apierrors.IsConflict, "IsConflict"))
}

// One API server on every host node is no number that anybody sets: an autoscaler shows the first of these messages,
// kubectl scale the second.
func TestADaemonSetIsNotScaled(t *testing.T) {
	g := NewWithT(t)
	c := minimal(newNamespace(t))
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	_, err := scales(t, c.Namespace).Get(t.Context(), scaled, c.Name, metav1.GetOptions{})
	g.Expect(err).To(MatchError(ContainSubstring(`the spec replicas field ".spec.replicas" does not exist`)))
	err = environment.Client.SubResource("scale").Patch(t.Context(), c,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`)))
	g.Expect(err).To(MatchError(ContainSubstring("replicas must not be set: kube-apiserver runs as a DaemonSet")))
	g.Expect(err).To(MatchError(ContainSubstring("create a control plane whose kubeAPIServer.workload is Deployment")))
}
