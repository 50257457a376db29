//go:build envtest

package controllers

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addresses"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/contract"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/contract/rules"
)

// contractRules has one test for each rule of Cluster API's contract for control planes, by the name
// that the contract gives it. The tenant is a settled one; a rule that changes it makes its own.
var contractRules = map[string]func(*testing.T, *tenantTest){
	"All resources: scope":                                               allNamespaced,
	"All resources: `TypeMeta` and `ObjectMeta`field":                    allHaveMetadata,
	"All resources: `APIVersion` field value":                            allSayTheirContract,
	"ControlPlane, ControlPlaneList resource definition":                 kindAndList("KOKControlPlane"),
	"ControlPlaneTemplate, ControlPlaneTemplateList resource definition": kindAndList("KOKControlPlaneTemplate"),
	"ControlPlane: endpoint":                                             endpointSurfaces,
	"ControlPlane: replicas":                                             replicasAreCounted,
	"ControlPlane: version":                                              versionsAreReported,
	"ControlPlane: rolloutAfter":                                         rolloutAfterRollsOut,
	"ControlPlane: initialization completed":                             initializationIsReported,
	"ControlPlane: conditions":                                           conditionsAreThere,
	"ControlPlane: terminal failures":                                    failuresAreConditions,
	"Cluster kubeconfig management":                                      kubeconfigIsManaged,
	"Cluster certificate management":                                     certificatesAreManaged,
	"Support for running multiple instances":                             watchFilterIsObeyed,
	"Clusterctl support":                                                 clusterctlIsSupported,
	"ControlPlane: pausing":                                              pauseIsSurfaced,
}

func TestControlPlaneContract(t *testing.T) {
	contract.EveryRuleIsTested(t, rules.ControlPlane(), maps.Keys(contractRules))
	tt := newTenantTest(t, whole)
	tt.settle()
	for rule, test := range contractRules {
		t.Run(rule, func(t *testing.T) { test(t, tt) })
	}
}

// definitions are the CustomResourceDefinitions as they are released.
func definitions(t *testing.T) contract.Definitions {
	t.Helper()
	return contract.Read(t, "../../config/controlplane/crd")
}

func allNamespaced(t *testing.T, _ *tenantTest) { definitions(t).Namespaced(t) }

func allHaveMetadata(t *testing.T, _ *tenantTest) { definitions(t).HaveMetadata(t) }

func allSayTheirContract(t *testing.T, _ *tenantTest) {
	definitions(t).SayTheirContract(t, controlplanev1.GroupVersion.Group)
}

func clusterctlIsSupported(t *testing.T, _ *tenantTest) {
	contract.SupportsClusterctl(t, "../..", "config/controlplane/default", "kok", clusterctlv1.ControlPlaneProviderType)
}

func kindAndList(kind string) func(*testing.T, *tenantTest) {
	return func(t *testing.T, _ *tenantTest) {
		definitions(t).Define(t, controlplanev1.GroupVersion.WithKind(kind), environment.Scheme)
	}
}

func endpointSurfaces(t *testing.T, tt *tenantTest) {
	service := &corev1.Service{}
	if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-kube-apiserver"), service); err != nil {
		t.Fatal(err)
	}
	want := controlplanev1.APIEndpoint{Host: service.Spec.ClusterIP, Port: 6443}
	if got := tt.controlPlane().Spec.ControlPlaneEndpoint; got != want {
		t.Errorf("the endpoint is %v, not %v", got, want)
	}

	given := clusterv1.APIEndpoint{Host: "tenant.example", Port: 443}
	other := newTenantTest(t, single)
	edit(t, other.cluster, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.ControlPlaneEndpoint = given })
	other.settle()
	if got := other.controlPlane().Spec.ControlPlaneEndpoint; got.Host != given.Host || got.Port != given.Port {
		t.Errorf("the Cluster's endpoint is not taken: %v", got)
	}
	serving := &corev1.Secret{}
	if err := environment.Client.Get(t.Context(), other.inNamespace("blue-kube-apiserver-certs"), serving); err != nil {
		t.Fatal(err)
	}
	certificates, err := cert.ParseCertsPEM(serving.Data["server.crt"])
	if err != nil {
		t.Fatal(err)
	}
	if err := certificates[0].VerifyHostname(given.Host); err != nil {
		t.Error(err)
	}

	ported := newTenantTest(t, single)
	edit(t, ported.cluster, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.ClusterNetwork.APIServerPort = 7443 })
	ported.settle()
	if got := ported.controlPlane(); got.Spec.ControlPlaneEndpoint.Port != 7443 || !conditions.IsTrue(got, conditionsv1.AvailableCondition) {
		t.Errorf("with the Cluster's port the endpoint is %v, available is %v", got.Spec.ControlPlaneEndpoint, conditions.Get(got, conditionsv1.AvailableCondition))
	}

	two := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		single(c)
		c.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "other.example", Port: 443}
	})
	edit(t, two.cluster, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.ControlPlaneEndpoint = given })
	two.settle()
	const says = "spec.controlPlaneEndpoint is other.example:443, but the Cluster's is tenant.example:443; make the Cluster's the same, or leave it out"
	if got := conditions.GetMessage(two.controlPlane(), conditionsv1.AvailableCondition); got != says {
		t.Errorf("of two endpoints it says %q", got)
	}
}

func replicasAreCounted(t *testing.T, tt *tenantTest) {
	for _, definition := range definitions(t) {
		scale := definition.Spec.Versions[0].Subresources
		if definition.Spec.Names.Kind != "KOKControlPlane" {
			continue
		}
		if scale == nil || scale.Scale == nil || scale.Scale.SpecReplicasPath != ".spec.replicas" ||
			scale.Scale.StatusReplicasPath != ".status.replicas" || ptr.Deref(scale.Scale.LabelSelectorPath, "") != ".status.selector" {
			t.Errorf("the scale subresource is %+v", scale)
		}
	}
	status := tt.controlPlane().Status
	for name, count := range map[string]*int32{
		"replicas": status.Replicas, "readyReplicas": status.ReadyReplicas,
		"availableReplicas": status.AvailableReplicas, "upToDateReplicas": status.UpToDateReplicas,
	} {
		if ptr.Deref(count, -1) != 3 {
			t.Errorf("%s is %d", name, ptr.Deref(count, -1))
		}
	}
	pods := &corev1.PodList{}
	selector, err := labels.Parse(status.Selector)
	if err != nil {
		t.Fatal(err)
	}
	if err := environment.Client.List(t.Context(), pods, client.InNamespace(tt.key.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 3 {
		t.Errorf("the selector %q finds %d pods", status.Selector, len(pods.Items))
	}
}

func versionsAreReported(t *testing.T, tt *tenantTest) {
	want := []clusterv1.StatusVersion{{Version: "v1.36.3", Replicas: 3}}
	if got := tt.controlPlane().Status.Versions; !slices.Equal(got, want) {
		t.Errorf("status.versions is %v", got)
	}
	prefixless := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		single(c)
		c.Spec.Version = "1.35.4"
	})
	if got := prefixless.controlPlane().Spec.Version; got != "v1.35.4" {
		t.Errorf("1.35.4 became %q", got)
	}
}

func rolloutAfterRollsOut(t *testing.T, _ *tenantTest) {
	tt := newTenantTest(t, lasting)
	tt.tellEtcd(1)
	tt.settle()
	pods := func() map[string]int64 {
		generations := map[string]int64{}
		for _, object := range tt.objects() {
			switch object.GetObjectKind().GroupVersionKind().Kind {
			case "StatefulSet", "DaemonSet", "Deployment":
				generations[object.GetName()] = object.GetGeneration()
			}
		}
		return generations
	}
	before := pods()
	// Kubernetes keeps whole seconds: this one comes after every rendering that there is.
	edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Rollout.After = metav1.Time{Time: time.Now().Add(time.Second)}
	})
	eventually(t, "every component is rolled out", func() bool {
		tt.settle()
		for name, generation := range pods() {
			if generation <= before[name] {
				return false
			}
		}
		return true
	})
}

func initializationIsReported(t *testing.T, tt *tenantTest) {
	if !ptr.Deref(tt.controlPlane().Status.Initialization.ControlPlaneInitialized, false) {
		t.Error("status.initialization.controlPlaneInitialized is not true")
	}
	waiting := newTenantTest(t, single)
	waiting.host.stopped["kube-apiserver"] = true
	waiting.settle()
	if ptr.Deref(waiting.controlPlane().Status.Initialization.ControlPlaneInitialized, false) {
		t.Error("it is initialized before its API answers")
	}
}

func conditionsAreThere(t *testing.T, tt *tenantTest) {
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(controlplanev1.GroupVersion.WithKind("KOKControlPlane"))
	if err := environment.Client.Get(t.Context(), tt.key, raw); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Available", "RollingOut", "ScalingUp", "ScalingDown"} {
		mirrored, err := conditions.UnstructuredGet(raw, name)
		if err != nil || mirrored == nil || mirrored.Reason == "" {
			t.Errorf("Cluster API reads %s as %v, %v", name, mirrored, err)
		}
	}
}

// Terminal failures are conditions with a reason of their own, and end when their cause does.
func failuresAreConditions(t *testing.T, _ *tenantTest) {
	tt := newTenantTest(t, single)
	tt.settle()
	keys := []client.ObjectKey{tt.inNamespace(secret.Name("blue", secret.ClusterCA)), tt.inNamespace("blue-key-material")}
	kept := make([]*corev1.Secret, len(keys))
	for i, key := range keys {
		kept[i] = &corev1.Secret{}
		if err := environment.Client.Get(t.Context(), key, kept[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, lost := range kept {
		if err := environment.Client.Delete(t.Context(), lost.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	tt.settle()
	if got := conditions.GetReason(tt.controlPlane(), conditionsv1.CertificatesAvailableCondition); got != conditionsv1.KeyMaterialLostReason {
		t.Errorf("a lost CA has reason %q", got)
	}
	for _, lost := range kept {
		restored := lost.DeepCopy()
		restored.ResourceVersion, restored.UID = "", ""
		if err := environment.Client.Create(t.Context(), restored); err != nil {
			t.Fatal(err)
		}
	}
	tt.settle()
	if !conditions.IsTrue(tt.controlPlane(), conditionsv1.CertificatesAvailableCondition) {
		t.Error("the failure outlives its cause")
	}
}

func kubeconfigIsManaged(t *testing.T, tt *tenantTest) {
	found := clusterSecret(t, tt, "blue-kubeconfig")
	config, err := clientcmd.RESTConfigFromKubeConfig(found.Data["value"])
	if err != nil {
		t.Fatal(err)
	}
	if want := "https://" + addresses.HostPort(tt.controlPlane().Spec.ControlPlaneEndpoint); config.Host != want {
		t.Errorf("it names %s, not %s", config.Host, want)
	}
	certificates, err := cert.ParseCertsPEM(config.CertData)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(certificates[0].NotAfter); left > 366*24*time.Hour || left < 180*24*time.Hour {
		t.Errorf("its certificate is valid for %s", left)
	}
}

func certificatesAreManaged(t *testing.T, tt *tenantTest) {
	for _, purpose := range []secret.Purpose{secret.ClusterCA, secret.EtcdCA, secret.FrontProxyCA, secret.ServiceAccount} {
		found := clusterSecret(t, tt, secret.Name("blue", purpose))
		for _, name := range []string{secret.TLSCrtDataName, secret.TLSKeyDataName} {
			if len(found.Data[name]) == 0 {
				t.Errorf("%s has no %s", found.Name, name)
			}
		}
	}
}

// clusterSecret is a Secret as Cluster API wants it, beside the Cluster.
func clusterSecret(t *testing.T, tt *tenantTest, name string) *corev1.Secret {
	t.Helper()
	found := &corev1.Secret{}
	if err := environment.Client.Get(t.Context(), tt.inNamespace(name), found); err != nil {
		t.Fatal(err)
	}
	if found.Type != clusterv1.ClusterSecretType || found.Labels[clusterv1.ClusterNameLabel] != "blue" {
		t.Errorf("%s is of type %s and has labels %v", name, found.Type, found.Labels)
	}
	return found
}

// The flag --namespace bounds the cache and is controller-runtime's; --watch-filter is ours.
func watchFilterIsObeyed(t *testing.T, _ *tenantTest) {
	tt := newTenantTest(t, single)
	tt.program.WatchFilterValue = "ours"
	labelled := func(value string) {
		edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Labels[clusterv1.WatchLabel] = value })
	}
	leftAlone := func(why string) {
		for range 3 {
			if err := tt.reconcile(); err != nil {
				t.Fatal(err)
			}
		}
		if writes := tt.program.gate.takeWrites(); len(writes) > 0 {
			t.Errorf("%s there are writes: %v", why, writes)
		}
	}
	leftAlone("without the label")
	labelled("theirs")
	leftAlone("with the label of another manager")
	labelled("ours")
	tt.settle()
	if !conditions.IsTrue(tt.controlPlane(), conditionsv1.AvailableCondition) {
		t.Error("with the label it is not made")
	}
}

func pauseIsSurfaced(t *testing.T, _ *tenantTest) {
	for name, pause := range map[string]func(tt *tenantTest, paused bool){
		"by its Cluster": func(tt *tenantTest, paused bool) {
			edit(tt.t, tt.cluster, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(paused) })
		},
		"by its annotation": func(tt *tenantTest, paused bool) {
			edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
				delete(c.Annotations, clusterv1.PausedAnnotation)
				if paused {
					c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt := newTenantTest(t, single)
			pause(tt, true)
			tt.settle()
			if !conditions.IsTrue(tt.controlPlane(), clusterv1.PausedCondition) || len(tt.workloads()) > 0 {
				t.Errorf("a paused one says %v and has %v", conditions.Get(tt.controlPlane(), clusterv1.PausedCondition), tt.workloads())
			}
			pause(tt, false)
			tt.settle()
			if got := conditions.GetReason(tt.controlPlane(), clusterv1.PausedCondition); got != clusterv1.NotPausedReason || len(tt.workloads()) == 0 {
				t.Errorf("then it says %q and has %v", got, tt.workloads())
			}
		})
	}
}
