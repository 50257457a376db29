//go:build envtest

package envtest

import (
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func TestDefaultsOfAMinimalControlPlane(t *testing.T) {
	g := NewWithT(t)
	c := minimal(newNamespace(t))
	c.Spec.Version = "1.36.3"
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())

	etcd := controlplanev1.EtcdClusterSpec{
		Replicas:         ptr.To[int32](3),
		QuotaBackendSize: ptr.To(resource.MustParse("2Gi")),
		Storage: controlplanev1.EtcdStorageSpec{
			Type: controlplanev1.EtcdStoragePersistentVolumeClaim,
			Size: ptr.To(resource.MustParse("8Gi")),
		},
	}
	want := controlplanev1.KOKControlPlaneSpec{
		Version: "v1.36.3",
		Hosting: controlplanev1.HostingSpec{
			NetworkMode: controlplanev1.NetworkModeHost, NodeSelector: map[string]string{controlplanev1.HostNodeLabel: "true"},
		},
		ImageRepository:       "registry.k8s.io",
		KubeControllerManager: controlplanev1.ReplicatedComponentSpec{Replicas: ptr.To[int32](2)},
		KubeScheduler:         controlplanev1.ReplicatedComponentSpec{Replicas: ptr.To[int32](2)},
		Etcd:                  controlplanev1.EtcdSpec{Data: etcd, Events: controlplanev1.EtcdEventsSpec{EtcdClusterSpec: etcd}},
		EncryptionAtRest:      controlplanev1.EncryptionAtRestSpec{Mode: controlplanev1.EncryptionSecretBox, Resources: []string{"secrets"}},
		Addons: controlplanev1.AddonsSpec{
			KubeProxy:    controlplanev1.KubeProxySpec{Mode: controlplanev1.AddonManaged, Conntrack: controlplanev1.AddonManaged},
			CoreDNS:      controlplanev1.CoreDNSSpec{Mode: controlplanev1.AddonManaged, Replicas: ptr.To[int32](2)},
			Konnectivity: controlplanev1.KonnectivitySpec{Mode: controlplanev1.AddonManaged},
		},
	}
	stored := &controlplanev1.KOKControlPlane{}
	g.Expect(environment.Client.Get(t.Context(), client.ObjectKeyFromObject(c), stored)).To(Succeed())
	g.Expect(stored.Spec).To(BeComparableTo(want))
}

func TestDefaultsOfAuditAndReplicas(t *testing.T) {
	g := NewWithT(t)
	c := minimal(newNamespace(t))
	c.Spec.KubeAPIServer.Audit = &controlplanev1.AuditSpec{}
	c.Spec.Etcd.Data.Storage.Type = controlplanev1.EtcdStorageEmptyDir
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	g.Expect(*c.Spec.KubeAPIServer.Audit).To(Equal(controlplanev1.AuditSpec{MaxSizeMB: 100, MaxBackups: 5}))
	g.Expect(c.Spec.Etcd.Data.Storage.Type).To(Equal(controlplanev1.EtcdStorageEmptyDir))
	g.Expect(c.Spec.Etcd.Data.Replicas).To(HaveValue(Equal(int32(3))))
}

// asWritten is an object as a file or a topology controller has it, without defaults.
func asWritten(namespace, version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": controlplanev1.GroupVersion.String(),
		"kind":       "KOKControlPlane",
		"metadata":   map[string]any{"namespace": namespace, "name": "tenant"},
		"spec":       map[string]any{"version": version},
	}}
}

func TestApplyingTheSameAgainWritesNothing(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	apply := func(opts ...client.ApplyOption) *unstructured.Unstructured {
		object := asWritten(namespace, "1.36.3")
		opts = append(opts, client.FieldOwner("topology"), client.ForceOwnership)
		g.Expect(environment.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), opts...)).To(Succeed())
		return object
	}
	first := apply()
	version, _, err := unstructured.NestedString(first.Object, "spec", "version")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(version).To(Equal("v1.36.3"))
	g.Expect(apply(client.DryRunAll).GetResourceVersion()).To(Equal(first.GetResourceVersion()))
	g.Expect(apply().GetResourceVersion()).To(Equal(first.GetResourceVersion()))
}

func TestDryRunHasNoEffect(t *testing.T) {
	g := NewWithT(t)
	c := minimal(newNamespace(t))
	g.Expect(environment.Client.Create(t.Context(), c, client.DryRunAll)).To(Succeed())
	err := environment.Client.Get(t.Context(), client.ObjectKeyFromObject(c), &controlplanev1.KOKControlPlane{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)

	c = minimal(c.Namespace)
	c.Spec.Version = "v1.30.0"
	expectRefusal(t, environment.Client.Create(t.Context(), c, client.DryRunAll),
		`spec.version: Invalid value: "v1.30.0": v1.30 is not supported; supported are v1.34, v1.35 and v1.36`+otherwise)
}

func konnectivityMode(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	mode, _, err := unstructured.NestedString(object.Object, "spec", "addons", "konnectivity", "mode")
	if err != nil {
		t.Fatal(err)
	}
	return mode
}

// A topology controller, or kubectl, applies what it manages. Older releases had None where nobody said anything.
func TestFinding2KonnectivityIsDecidedWhenAControlPlaneIsMade(t *testing.T) {
	for name, test := range map[string]struct {
		first, then map[string]any
		made, kept  string
	}{
		"nobody ever says":             {nil, nil, "Managed", "Managed"},
		"somebody says so later":       {nil, map[string]any{"mode": "None"}, "Managed", "None"},
		"nobody says None any more":    {map[string]any{"mode": "None"}, nil, "None", "None"},
		"nobody says Managed any more": {map[string]any{"mode": "Managed"}, nil, "Managed", "Managed"},
		"an empty mode says nothing":   {map[string]any{}, map[string]any{}, "Managed", "Managed"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			namespace := newNamespace(t)
			apply := func(konnectivity map[string]any) *unstructured.Unstructured {
				object := asWritten(namespace, "v1.36.3")
				if konnectivity != nil {
					g.Expect(unstructured.SetNestedMap(object.Object, konnectivity, "spec", "addons", "konnectivity")).To(Succeed())
				}
				g.Expect(environment.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("topology"))).To(Succeed())
				return object
			}
			made := apply(test.first)
			g.Expect(konnectivityMode(t, made)).To(Equal(test.made))
			kept := apply(test.then)
			g.Expect(konnectivityMode(t, kept)).To(Equal(test.kept))
			if test.made == test.kept {
				g.Expect(kept.GetGeneration()).To(Equal(made.GetGeneration()), "the spec was changed")
			}
		})
	}
}

func TestFinding2ANodePortHasNoRoomForKonnectivity(t *testing.T) {
	g := NewWithT(t)
	c := minimal(newNamespace(t))
	onPodNetwork(controlplanev1.ExposureNodePort)(&c.Spec)
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	g.Expect(c.Spec.Addons.Konnectivity.Mode).To(Equal(controlplanev1.AddonNone))
}

// One that is made anew from a file must not switch anything on in Clusters that run.
func TestFinding2ATemplateLeavesKonnectivityOpen(t *testing.T) {
	g := NewWithT(t)
	made := template(newNamespace(t))
	g.Expect(environment.Client.Create(t.Context(), made)).To(Succeed())
	g.Expect(made.Spec.Template.Spec.Addons.Konnectivity.Mode).To(BeEmpty())
}
