//go:build envtest

package mirror

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/envtest"
)

func TestAnAPIServerTakesTheSoftwareOfTwoMirrors(t *testing.T) {
	g := NewWithT(t)
	environment, err := envtest.Start(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(environment.Stop()).To(Succeed()) })
	content := small(t)
	content.Repository, err = WriteRepository(t.Context(), t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	first, second := local(t, content), local(t, content)
	software, err := first.Software(t.Context(), metav1.NamespaceDefault, "workers", kubernetes, second)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first.AsArtifact(t.Context(), software, Runc)).To(Succeed())
	g.Expect(environment.Client.Create(t.Context(), software)).To(Succeed())

	changed := software.DeepCopy()
	changed.Spec.Mirrors = changed.Spec.Mirrors[:1]
	g.Expect(environment.Client.Update(t.Context(), changed)).To(Succeed(), "mirrors may change")
	changed.Spec.Components = changed.Spec.Components[1:]
	g.Expect(environment.Client.Update(t.Context(), changed)).To(MatchError(ContainSubstring("components cannot change")))
}
