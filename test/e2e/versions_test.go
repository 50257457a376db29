//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	supported "github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/running"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

// A ConfigMap is the whole table of versions: one that ends a minor earlier makes the newest that the lab has
// images of a version that the provider does not know. With that minor comes another image of etcd, the same program
// under another tag, so that etcd has its part in the upgrade.
var _ = Describe("A version that is added as data", Ordered, Label(full, features), func() {
	const before, after = "v1.35.4", "v1.36.3"
	t := newTenant("versions", before, map[string]string{"CONTROLLER_MANAGER_REPLICAS": "1", "SCHEDULER_REPLICAS": "1"})
	removeAfter(t)
	var table, shorter []supported.Release
	var etcd string
	var managers map[string]running.Pod

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		for _, image := range builtVersion(ctx, before).ControlPlane {
			Expect(env.lab.LoadBuilt(ctx, image)).To(Succeed())
		}
		table = publishedReleases(settings.repository, settings.providerVersion)
		last := len(table) - 1
		Expect(table[last].Minor).To(Equal("v1.36"), "the newest minor of the published table")
		shorter = slices.Clip(table[:last])
		etcd = table[last].Etcd + "-e2e"
		loadEtcd(ctx, table[last].Etcd, etcd)
		table[last].Etcd = etcd
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(env.client.Delete(ctx, versionsConfigMap()))).To(Succeed())
		})
		support(ctx, shorter)
		t.create(ctx)
		managers = running.Of(managerPods(ctx))
	}, NodeTimeout(building+2*creation))

	It("is refused while the table has it not, with the way out", func(ctx SpecContext) {
		Eventually(ctx, func() error { return t.setVersion(ctx, after, client.DryRunAll) }).
			Should(MatchError(And(ContainSubstring("v1.36 is not supported; supported are v1.34 and v1.35;"), ContainSubstring(supported.ConfigMapName))))
	})

	It("changes nothing when it is not written well", func(ctx SpecContext) {
		Expect(writeReleases(ctx, append(shorter, supported.Release{Minor: "v1.36"}))).
			To(MatchError(ContainSubstring(`releases[2].etcd: "" is not an image tag`)))
		Expect(t.setVersion(ctx, before, client.DryRunAll)).To(Succeed())
	})

	It("is upgraded to when the table has it, etcd first, by the manager that runs, and no write is lost", func(ctx SpecContext) {
		support(ctx, table)
		journals := t.startJournals(ctx, "versions")
		Eventually(ctx, func() error { return t.setVersion(ctx, after) }).Should(Succeed())
		began := time.Now()
		t.expectVersion(ctx, after, etcd)
		figure("upgrade_with_etcd_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s to "+after)
		t.expectHealthy(ctx)
		t.expectAllWell(ctx, env.client)
		t.expectNothingLost(ctx, "upgrade_with_etcd", journals)
		Expect(running.Of(managerPods(ctx))).To(Equal(managers), "pods of the manager")
	}, SpecTimeout(upgrade+2*creation+join))

	It("goes on where it runs when the table loses it", func(ctx SpecContext) {
		pods := t.snapshot(ctx)
		support(ctx, shorter)
		Eventually(ctx, func() string {
			return conditions.GetMessage(t.controlPlane(ctx), conditionsv1.ReconciledCondition)
		}).WithTimeout(2 * time.Minute).Should(ContainSubstring("v1.36 is not supported"))
		Expect(t.snapshot(ctx)).To(Equal(pods))
		Expect(env.client.Delete(ctx, versionsConfigMap())).To(Succeed())
		t.expectAllWell(ctx, env.client)
		Expect(t.snapshot(ctx)).To(Equal(pods))
	}, SpecTimeout(2*creation+join))
})

// publishedReleases are those in the table that a version of the providers has in a clusterctl repository, for people to
// change.
func publishedReleases(folder, version string) []supported.Release {
	GinkgoHelper()
	return releasesIn(filepath.Join(folder, "repository", "control-plane-kok", version, supported.ConfigMapKey))
}

// releasesIn are those in the table that a file has.
func releasesIn(file string) []supported.Release {
	GinkgoHelper()
	data, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	var table struct{ Releases []supported.Release }
	Expect(yaml.Unmarshal(data, &table)).To(Succeed())
	return table.Releases
}

// loadEtcd gives the lab's nodes their image of etcd under another tag.
func loadEtcd(ctx context.Context, tag, another string) {
	GinkgoHelper()
	const repository = "registry.k8s.io/etcd:"
	i := slices.IndexFunc(env.images, func(image artifacts.Image) bool { return image.Name == repository+tag })
	Expect(i).To(BeNumerically(">=", 0), "the lab has no image %s%s", repository, tag)
	image := env.images[i]
	image.Name = repository + another
	Expect(env.lab.LoadBuilt(ctx, image)).To(Succeed())
}

func versionsConfigMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: manager.Namespace, Name: supported.ConfigMapName}}
}

// support puts a table in force.
func support(ctx context.Context, table []supported.Release) {
	GinkgoHelper()
	Eventually(ctx, func() error { return writeReleases(ctx, table) }).Should(Succeed())
}

func writeReleases(ctx context.Context, table []supported.Release) error {
	data, err := yaml.Marshal(map[string][]supported.Release{"releases": table})
	if err != nil {
		return err
	}
	configMap := versionsConfigMap()
	configMap.Data = map[string]string{supported.ConfigMapKey: string(data)}
	err = env.client.Create(ctx, configMap)
	if client.IgnoreAlreadyExists(err) != nil || err == nil {
		return err
	}
	return env.client.Update(ctx, configMap)
}

func (t *tenant) setVersion(ctx context.Context, version string, options ...client.PatchOption) error {
	fields := fmt.Sprintf(`{"spec":{"version":%q}}`, version)
	return env.client.Patch(ctx, t.controlPlane(ctx), client.RawPatch(types.MergePatchType, []byte(fields)), options...)
}
