//go:build envtest

package envtest

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

const (
	v136 = "- {minor: v1.36, etcd: 3.6.8-0, coreDNS: v1.14.2, konnectivity: v0.34.0}\n"
	v137 = "- {minor: v1.37, etcd: 3.7.0-0, coreDNS: v1.15.0, konnectivity: v0.35.0}\n"
)

func table(namespace, content string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: versions.ConfigMapName},
		Data:       map[string]string{versions.ConfigMapKey: content},
	}
}

// inVersionsNamespace makes the namespace of the table, and takes the table away when the test has ended.
func inVersionsNamespace(t *testing.T) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: VersionsNamespace}}
	NewWithT(t).Expect(client.IgnoreAlreadyExists(environment.Client.Create(t.Context(), namespace))).To(Succeed())
	t.Cleanup(func() {
		ctx := context.Background()
		NewWithT(t).Expect(client.IgnoreNotFound(environment.Client.Delete(ctx, table(VersionsNamespace, "")))).To(Succeed())
		onlyBuiltIn := minimal("default")
		onlyBuiltIn.Spec.Version = "v1.34.0"
		NewWithT(t).Eventually(func() error {
			return environment.Client.Create(ctx, onlyBuiltIn.DeepCopy(), client.DryRunAll)
		}).Should(Succeed(), "the table that is built in is in force for the tests to come")
	})
}

func TestATableThatIsNoneIsRefused(t *testing.T) {
	inVersionsNamespace(t)
	for name, test := range map[string]struct{ content, want string }{
		"nothing":      {"", `data: Invalid value: data[versions.yaml]: the table of versions has no releases`},
		"a gap":        {"releases:\n- {minor: v1.35, etcd: a, coreDNS: b, konnectivity: c}\n" + v137, `data: Invalid value: data[versions.yaml]: releases[1].minor: v1.37 does not follow v1.35`},
		"a false tag":  {"releases:\n- {minor: v1.36, etcd: \"etcd:3\", coreDNS: b, konnectivity: c}\n", `data: Invalid value: data[versions.yaml]: releases[0].etcd: "etcd:3" is not an image tag`},
		"a long minor": {"releases:\n- {minor: v1.36.3, etcd: a, coreDNS: b, konnectivity: c}\n", `data: Invalid value: data[versions.yaml]: releases[0].minor: "v1.36.3" is not of the form v1.36`},
	} {
		t.Run(name, func(t *testing.T) {
			expectRefusal(t, environment.Client.Create(t.Context(), table(VersionsNamespace, test.content)), test.want)
		})
	}
	t.Run("another key", func(t *testing.T) {
		c := table(VersionsNamespace, "")
		c.Data = map[string]string{"versions": "releases:\n" + v136}
		expectRefusal(t, environment.Client.Create(t.Context(), c), `data: Invalid value: data has no key versions.yaml`)
	})
}

func TestOtherConfigMapsAreNotJudged(t *testing.T) {
	inVersionsNamespace(t)
	elsewhere := table(newNamespace(t), "anything")
	unnamed := table(VersionsNamespace, "anything")
	unnamed.Name, unnamed.GenerateName = "", "notes-"
	for _, c := range []*corev1.ConfigMap{elsewhere, unnamed} {
		NewWithT(t).Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
		c.Immutable = ptr.To(true)
		NewWithT(t).Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
	}
}

func TestAVersionIsAddedAsData(t *testing.T) {
	g := NewWithT(t)
	inVersionsNamespace(t)
	namespace := newNamespace(t)
	stored := minimal(namespace)
	g.Expect(environment.Client.Create(t.Context(), stored)).To(Succeed())
	upgraded := func() error {
		c := stored.DeepCopy()
		c.Spec.Version = "v1.37.0"
		return environment.Client.Update(t.Context(), c, client.DryRunAll)
	}
	created := func(version string) error {
		c := minimal(namespace)
		c.Name, c.Spec.Version = "other", version
		return environment.Client.Create(t.Context(), c, client.DryRunAll)
	}
	refusal := `spec.version: Invalid value: "v1.37.0": v1.37 is not supported; supported are v1.34, v1.35 and v1.36` + otherwise
	expectRefusal(t, upgraded(), refusal)
	expectRefusal(t, created("v1.37.0"), refusal)

	g.Expect(environment.Client.Create(t.Context(), table(VersionsNamespace, "releases:\n"+v136+v137))).To(Succeed())
	g.Eventually(upgraded).Should(Succeed())
	g.Expect(created("v1.37.0")).To(Succeed())
	expectRefusal(t, created("v1.35.4"), `spec.version: Invalid value: "v1.35.4": v1.35 is not supported; supported are v1.36 and v1.37`+otherwise)

	t.Run("and stays while the table is broken", func(t *testing.T) {
		expectRefusal(t, environment.Client.Update(t.Context(), table(VersionsNamespace, "releases: []")), `data: Invalid value: data[versions.yaml]: the table of versions has no releases`)
		NewWithT(t).Expect(upgraded()).To(Succeed())
	})
	t.Run("and is gone with the table", func(t *testing.T) {
		NewWithT(t).Expect(environment.Client.Delete(t.Context(), table(VersionsNamespace, ""))).To(Succeed())
		NewWithT(t).Eventually(func() error { return created("v1.35.4") }).Should(Succeed())
		expectRefusal(t, upgraded(), refusal)
	})
	t.Run("and what has it stays and can be changed", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(environment.Client.Create(t.Context(), table(VersionsNamespace, "releases:\n"+v136+v137))).To(Succeed())
		g.Eventually(func() error { return created("v1.37.0") }).Should(Succeed())
		c := &controlplanev1.KOKControlPlane{}
		g.Expect(environment.Client.Get(t.Context(), client.ObjectKeyFromObject(stored), c)).To(Succeed())
		c.Spec.Version = "v1.37.0"
		g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
		g.Expect(environment.Client.Update(t.Context(), table(VersionsNamespace, "releases:\n"+v136))).To(Succeed())
		g.Eventually(func() error { return created("v1.37.0") }).Should(HaveOccurred())
		c.Spec.KubeScheduler.Replicas = ptr.To[int32](3)
		g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
	})
}
