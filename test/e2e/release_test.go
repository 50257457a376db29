//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/coreos/go-semver/semver"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlclient "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	previousrelease "github.com/kube-on-kube/cluster-api-provider-kok/hack/previous-release"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/providers"
)

// release is a release of the providers. All of them lie in one clusterctl repository, that of settings.releases.
type release struct {
	version string
	// providers are its images, and the programs in them.
	providers []providers.Provider
}

// releasesConfig is clusterctl's configuration of the repository of all releases.
func releasesConfig() string { return filepath.Join(settings.releases, "clusterctl.yaml") }

func treeOf(folder, version, tag string) previousrelease.Tree {
	return previousrelease.Tree{Folder: folder, Version: version, Registry: settings.registry, Tag: tag}
}

// todaysTree is this checkout; programs of it are those that the suite was given.
func todaysTree() previousrelease.Tree { return treeOf(".", settings.providerVersion, settings.tag) }

// previousTree is the worktree of the pinned commit. Its version is a pre-release of today's: of the same series, and older.
func previousTree() previousrelease.Tree {
	version := todaysVersion()
	version.PreRelease = "0.previous"
	return treeOf(filepath.Join(settings.releases, "previous"), "v"+version.String(), "previous")
}

// changedTree is this checkout as the next patch release.
func changedTree() previousrelease.Tree {
	version := todaysVersion()
	version.BumpPatch()
	return treeOf(".", "v"+version.String(), "changed")
}

func todaysVersion() *semver.Version {
	GinkgoHelper()
	version, err := semver.NewVersion(settings.providerVersion[1:])
	Expect(err).NotTo(HaveOccurred(), "-e2e.provider-version")
	return version
}

// newRelease is the release of a tree with the programs in a folder.
func newRelease(tree previousrelease.Tree, programs string) *release {
	return &release{version: tree.Version, providers: providers.Own(programs, tree.Registry, tree.Tag)}
}

// buildReleases makes a repository of the previous release and today's, and fails if they are the same program.
func buildReleases(ctx context.Context) (previous, today *release) {
	GinkgoHelper()
	before, now := previousTree(), todaysTree()
	env.log.Print("building the release before this one, %s, from commit %s", before.Version, previousrelease.Commit())
	Expect(previousrelease.Checkout(ctx, now.Folder, before.Folder, previousrelease.Commit())).To(Succeed())
	Expect(before.Build(ctx)).To(Succeed())
	old, err := before.Fingerprint(ctx)
	Expect(err).NotTo(HaveOccurred())
	current, err := now.Fingerprint(ctx)
	Expect(err).NotTo(HaveOccurred())
	env.log.Print("SHA-256 of the manager without its version: %s of the release before, %s of this one", old, current)
	Expect(old).NotTo(Equal(current), "the manager of commit %s is today's: an upgrade from it shows nothing; pin another commit in hack/previous-release/commit", previousrelease.Commit())

	// Releases of a former run would be offered as upgrades.
	Expect(os.RemoveAll(filepath.Join(settings.releases, "repository"))).To(Succeed())
	Expect(before.WriteManifests(ctx, settings.releases)).To(Succeed())
	Expect(now.WriteManifests(ctx, settings.releases)).To(Succeed())
	return newRelease(before, before.Programs()), newRelease(now, settings.programs)
}

// load brings the images of a release to nodes of the host cluster, to all when none is named.
func (r *release) load(ctx context.Context, nodes ...string) {
	GinkgoHelper()
	for _, p := range r.providers {
		for image, program := range p.Images() {
			Expect(env.lab.LoadProgram(ctx, image, program, nodes...)).To(Succeed())
		}
	}
}

// install runs clusterctl init.
func (r *release) install(ctx context.Context) {
	GinkgoHelper()
	Expect(env.installer(settings.releases, r.version, r.providers).Install(ctx)).To(Succeed())
	r.expectInstalled(ctx)
}

// upgradeTo runs clusterctl upgrade plan, which has to offer the release, and clusterctl upgrade apply.
func (r *release) upgradeTo(ctx context.Context) {
	GinkgoHelper()
	r.load(ctx)
	Expect(env.run(ctx, env.clusterctl, "upgrade", "plan", "--config", releasesConfig())).To(Succeed())
	r.expectPlanned(ctx)
	Expect(env.run(ctx, env.clusterctl, "upgrade", "apply", "--wait-providers", "--config", releasesConfig(),
		"--control-plane", "kok:"+r.version, "--bootstrap", "kok:"+r.version, "--infrastructure", "idc:"+r.version)).To(Succeed())
	r.expectInstalled(ctx)
}

// expectPlanned reads the plan from the library that clusterctl prints it with.
func (r *release) expectPlanned(ctx context.Context) {
	GinkgoHelper()
	clusterctl, err := clusterctlclient.New(ctx, releasesConfig())
	Expect(err).NotTo(HaveOccurred())
	plans, err := clusterctl.PlanUpgrade(ctx, clusterctlclient.PlanUpgradeOptions{Kubeconfig: clusterctlclient.Kubeconfig{Path: env.proxy.GetKubeconfigPath()}})
	Expect(err).NotTo(HaveOccurred())
	next := map[string]string{}
	for _, plan := range plans {
		for _, item := range plan.Providers {
			if plan.Contract == clusterv1.GroupVersion.Version {
				next[item.Name] = item.NextVersion
			}
		}
	}
	for _, p := range r.providers {
		Expect(next).To(HaveKeyWithValue(p.Label, r.version), "the plan's next version of %s", p.Label)
	}
}

// expectInstalled waits until clusterctl's inventory and all managers are of the release, and no other manager runs.
func (r *release) expectInstalled(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		installed, err := installedVersions(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		for _, p := range r.providers {
			g.Expect(installed).To(HaveKeyWithValue(p.Label, r.version))
			deployment := &appsv1.Deployment{}
			g.Expect(env.client.Get(ctx, p.Manager, deployment)).To(Succeed())
			pods := &corev1.PodList{}
			g.Expect(env.client.List(ctx, pods, client.InNamespace(p.Manager.Namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels))).To(Succeed())
			g.Expect(pods.Items).To(HaveLen(int(*deployment.Spec.Replicas)), "pods of %s", p.Manager)
			for i := range pods.Items {
				g.Expect(isReady(&pods.Items[i])).To(BeTrue(), "pod %s of %s is not ready", pods.Items[i].Name, p.Manager)
				g.Expect(slices.ContainsFunc(pods.Items[i].Spec.Containers, func(c corev1.Container) bool { return c.Image == p.Image })).
					To(BeTrue(), "pod %s of %s does not run %s", pods.Items[i].Name, p.Manager, p.Image)
			}
		}
	}).WithTimeout(creation).Should(Succeed(), "release %s", r.version)
}

// installedVersions is clusterctl's inventory: the version of each provider by its name there.
func installedVersions(ctx context.Context) (map[string]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "clusterctl.cluster.x-k8s.io", Version: "v1alpha3", Kind: "ProviderList"})
	if err := env.client.List(ctx, list); err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, provider := range list.Items {
		version, _, err := unstructured.NestedString(provider.Object, "version")
		if err != nil {
			return nil, err
		}
		versions[provider.GetName()] = version
	}
	return versions, nil
}

// uninstall runs clusterctl delete for the providers of this repository that are installed, and waits until no manager
// runs. Flags say what goes besides managers, roles and webhooks.
func uninstall(ctx context.Context, flags ...string) {
	GinkgoHelper()
	requireLab() // Releases on other people's clusters are theirs.
	own := map[string][]string{
		"bootstrap-kok": {"--bootstrap", "kok"}, "control-plane-kok": {"--control-plane", "kok"}, "infrastructure-idc": {"--infrastructure", "idc"},
	}
	// clusterctl fails when the CRDs of the provider before are not quite gone while it looks for objects of all kinds.
	Eventually(ctx, func() error {
		installed, err := installedVersions(ctx)
		if err != nil {
			return err
		}
		args := append([]string{"delete", "--config", clusterctlConfig()}, flags...)
		none := len(args)
		for label, flag := range own {
			if _, ok := installed[label]; ok {
				args = append(args, flag...)
			}
		}
		if len(args) == none {
			return nil
		}
		return env.run(ctx, env.clusterctl, args...)
	}).WithTimeout(creation).Should(Succeed(), "clusterctl delete")
	Eventually(ctx, func(g Gomega) {
		for label := range own {
			pods := &corev1.PodList{}
			g.Expect(env.client.List(ctx, pods, client.MatchingLabels{clusterv1.ProviderNameLabel: label})).To(Succeed())
			g.Expect(pods.Items).To(BeEmpty(), "pods of %s", label)
		}
	}).WithTimeout(creation).Should(Succeed(), "the managers are there still")
}

// uninstallAll leaves nothing of the providers. clusterctl refuses it while there is an object of theirs. What a newer
// release adds to a CRD would stay there else when an older one is installed.
func uninstallAll(ctx context.Context) {
	GinkgoHelper()
	uninstall(ctx, "--include-crd", "--include-namespace")
	Eventually(ctx, func(g Gomega) {
		for _, p := range providers.Own("", "", "") {
			g.Expect(env.client.Get(ctx, client.ObjectKey{Name: p.Manager.Namespace}, &corev1.Namespace{})).
				To(MatchError(apierrors.IsNotFound, "IsNotFound"), "namespace %s", p.Manager.Namespace)
			g.Expect(definitionsOf(ctx, g, p.Label)).To(BeEmpty(), "CRDs of %s", p.Label)
		}
	}).WithTimeout(creation).Should(Succeed(), "what clusterctl delete leaves")
}

// definitionsOf are the CRDs of a provider by its name in clusterctl's inventory.
func definitionsOf(ctx context.Context, g Gomega, label string) []metav1.PartialObjectMetadata {
	definitions := &metav1.PartialObjectMetadataList{}
	definitions.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	g.Expect(env.client.List(ctx, definitions, client.MatchingLabels{clusterv1.ProviderNameLabel: label})).To(Succeed())
	return definitions.Items
}

// expectNobodyElse fails when somebody's Cluster or host is in the lab: the providers are about to be removed.
func expectNobodyElse(ctx context.Context) {
	GinkgoHelper()
	clusters, hosts, software := &clusterv1.ClusterList{}, &infrav1.IDCHostList{}, &bootstrapv1.KOKSoftwareList{}
	listAll(ctx, clusters)
	listAll(ctx, hosts)
	listAll(ctx, software)
	var found []string
	for i := range clusters.Items {
		found = append(found, "Cluster "+client.ObjectKeyFromObject(&clusters.Items[i]).String())
	}
	for i := range hosts.Items {
		found = append(found, "IDCHost "+client.ObjectKeyFromObject(&hosts.Items[i]).String())
	}
	for i := range software.Items {
		found = append(found, "KOKSoftware "+client.ObjectKeyFromObject(&software.Items[i]).String())
	}
	Expect(found).To(BeEmpty(), "these specs remove the providers and want the lab for themselves: delete these first, clusters before hosts")
}
