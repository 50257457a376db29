//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
	previousrelease "github.com/kube-on-kube/cluster-api-provider-kok/hack/previous-release"
	supported "github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/running"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	quickstart "github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

// changedAnnotation is on the pods of a rendering that was changed on purpose.
const changedAnnotation = "example.com/rendering"

// The providers come and go under a tenant that the release before this one made.
var _ = Describe("A tenant of the previous release", Ordered, Label(releases), func() {
	t := newTenant("releases", "v1.36.3", map[string]string{"KUBE_PROXY_CONNTRACK": "None"}) // the lab's hosts share the machine's kernel
	t.workers = 1
	var previous, today, changed *release
	var worker *host.Host
	// templates are those of pods before the changed rendering.
	var templates map[string]string

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		expectNobodyElse(ctx)
		previous, today = buildReleases(ctx)
		// The lab has the image of etcd that today's release names. The release before may have published no table.
		before, now := newestEtcd(previousTree()), newestEtcd(todaysTree())
		if before != now {
			loadEtcd(ctx, now, before)
		}
		DeferCleanup(func(ctx SpecContext) {
			if !settings.keep {
				uninstallAll(ctx)
				Expect(env.installer(settings.repository, today.version, today.providers).Install(ctx)).To(Succeed())
			}
		}, NodeTimeout(4*creation))
		removeWithHosts(t)
		DeferCleanup(func(ctx SpecContext) {
			// Somebody has to remove the tenant, whatever a spec left behind.
			if !settings.keep {
				Expect(env.installer(settings.repository, today.version, today.providers).Install(ctx)).To(Succeed())
			}
		}, NodeTimeout(2*creation))

		uninstallAll(ctx)
		previous.install(ctx)
		worker = t.createByPrevious(ctx)
	}, NodeTimeout(building+6*creation+2*join))

	It("is there for clusterctl get kubeconfig and clusterctl describe", func(ctx SpecContext) {
		version, err := t.kubeconfigOfClusterctl(ctx).ServerVersion()
		Expect(err).NotTo(HaveOccurred())
		Expect(version.GitVersion).To(Equal(t.version))
		Expect(env.run(ctx, env.clusterctl, "describe", "cluster", t.Name, "--namespace", t.Namespace, "--show-conditions", "all", "--config", releasesConfig())).To(Succeed())
	}, NodeTimeout(creation)) // the time of a first spec would have that of BeforeAll in it

	It("does not notice the upgrade to this release, which then costs no write", func(ctx SpecContext) {
		t.undisturbed(ctx, "provider_upgrade", worker, func() {
			today.upgradeTo(ctx)
			// What is said of the tenant may be the former manager's: the new one has looked at it when it is quiet again.
			expectQuiet(ctx, openAudit(), writes(ctx, t))
			t.expectAllWell(ctx, env.client)
			t.expectWorkers(ctx, t.workers)
		})
		counted := writes(ctx, t)
		ours := func(event *auditv1.Event) bool { return counted(event) && !appliesMetadataAgain(event) }
		written := countWrites(ctx, openAudit(), ours)
		figure("provider_upgrade_settled_writes", len(written), "writes")
		Expect(written).To(BeEmpty())
		// The release before made it without konnectivity, and it is told of.
		Expect(conditions.GetReason(t.controlPlane(ctx), conditionsv1.EgressConfinedCondition)).To(Equal(conditionsv1.KonnectivityOffReason))
	}, SpecTimeout(5*creation+2*join+windows*settledTime))

	It("gets a worker that this release makes", func(ctx SpecContext) {
		t.workers++
		t.haveHosts(ctx, t.workers)
		t.scale(ctx, t.workers)
		t.expectWorkers(ctx, t.workers)
		Expect(t.quickstart().Hello(ctx)).To(Succeed())
	}, SpecTimeout(2*join))

	It("keeps its pods in an upgrade to a release that renders every component otherwise", func(ctx SpecContext) {
		changed = buildChanged(ctx)
		t.undisturbed(ctx, "changed_rendering", worker, func() {
			changed.upgradeTo(ctx)
			expectQuiet(ctx, openAudit(), writes(ctx, t))
			t.expectAllWell(ctx, env.client)
		})
	}, SpecTimeout(building+4*creation))

	It("takes that rendering when spec.rollout.after has passed", func(ctx SpecContext) {
		before := t.snapshot(ctx)
		templates = t.podTemplates(ctx)
		journals := t.startJournals(ctx, "rendering-rollout", worker)
		patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"rollout":{"after":%q}}}`, time.Now().UTC().Format(time.RFC3339)))
		Eventually(ctx, func(g Gomega) {
			pods, err := t.pods(ctx, "")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pods).To(HaveLen(len(before)))
			for _, pod := range pods {
				g.Expect(pod.Annotations).To(HaveKeyWithValue(changedAnnotation, "changed"), pod.Name)
				g.Expect(pod.UID).NotTo(Equal(before[pod.Name].UID), pod.Name)
			}
		}).WithTimeout(upgrade).Should(Succeed(), "pods of the changed rendering")
		t.expectHealthy(ctx)
		t.expectAllWell(ctx, env.client)
		t.expectWorkers(ctx, t.workers)
		came := &ended{}
		t.end(ctx, "rendering_rollout", journals, came)
		came.tell("rendering_rollout")
		came.expectEtcdAloneFailed("rendering_rollout")
		for name, template := range t.podTemplates(ctx) {
			Expect(template).NotTo(Equal(templates[name]), "the pod template of %s", name)
		}
	}, SpecTimeout(upgrade+4*creation+join))

	It("takes the former rendering of API servers again where spec names it, and stays at it when spec does not any more", func(ctx SpecContext) {
		stored, err := revision.List(ctx, env.client, t.ObjectKey)
		Expect(err).NotTo(HaveOccurred())
		renderings := stored[names.KubeAPIServer]
		Expect(len(renderings)).To(BeNumerically(">", 1))
		former := &renderings[len(renderings)-2]
		before, wanted := t.snapshot(ctx), t.podTemplates(ctx)
		for name, template := range templates {
			if strings.HasSuffix(name, "/"+names.Object(t.Name, names.KubeAPIServer)) {
				Expect(template).NotTo(Equal(wanted[name]), "the pod template of %s", name)
				wanted[name] = template
			}
		}
		journals := t.startJournals(ctx, "rendering-back", worker)
		patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"rollout":{"renderings":[{"component":%q,"revision":%d}]}}}`, names.KubeAPIServer, former.Revision))
		Eventually(ctx, func(g Gomega) {
			pods, err := t.pods(ctx, "")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pods).To(HaveLen(len(before)))
			for _, pod := range pods {
				if pod.Labels[names.ComponentLabel] == names.KubeAPIServer {
					g.Expect(pod.Annotations).NotTo(HaveKey(changedAnnotation), pod.Name)
					continue
				}
				g.Expect(pod.UID).To(Equal(before[pod.Name].UID), pod.Name)
			}
		}).WithTimeout(upgrade).Should(Succeed(), "API servers of the former rendering, and all else as it was")
		t.expectHealthy(ctx)
		t.expectAllWell(ctx, env.client)
		t.expectNothingLost(ctx, "rendering_taken_back", journals)
		stored, err = revision.List(ctx, env.client, t.ObjectKey)
		Expect(err).NotTo(HaveOccurred())
		newest, err := revision.Read(&stored[names.KubeAPIServer][len(stored[names.KubeAPIServer])-1])
		Expect(err).NotTo(HaveOccurred())
		taken, err := revision.Read(former)
		Expect(err).NotTo(HaveOccurred())
		Expect(newest.Again).To(Equal(former.Revision))
		live, equal := t.podTemplates(ctx), 0
		if reflect.DeepEqual(newest.Objects, taken.Objects) && maps.Equal(live, wanted) {
			equal = 1
		}
		figure("renderings_taken_back_equal", strconv.Itoa(equal), "of 1")
		Expect(live).To(Equal(wanted), "pod templates, byte for byte: those of API servers as before the changed rendering, and all others as they were")
		Expect(equal).To(Equal(1), "the objects of revision %d are those of revision %d", len(renderings), former.Revision)
		t.undisturbed(ctx, "renderings_removed", worker, func() {
			patch(ctx, t.controlPlane(ctx), `{"spec":{"rollout":{"renderings":null}}}`)
			expectQuiet(ctx, openAudit(), writes(ctx, t))
			t.expectAllWell(ctx, env.client)
		})
	}, SpecTimeout(upgrade+6*creation))

	It("runs on while the providers are uninstalled, and is taken over when they are installed again", func(ctx SpecContext) {
		t.undisturbed(ctx, "uninstalled", worker, func() {
			uninstall(ctx)
			Expect(t.controlPlane(ctx).DeletionTimestamp).To(BeNil())
			Expect(t.quickstart().Hello(ctx)).To(Succeed())
			changed.install(ctx)
			expectQuiet(ctx, openAudit(), writes(ctx, t))
			t.expectAllWell(ctx, env.client)
			t.expectWorkers(ctx, t.workers)
		})
	}, SpecTimeout(5*creation+2*join))

	It("gets a lost pod back while the providers are uninstalled", func(ctx SpecContext) {
		uninstall(ctx)
		pods, err := t.pods(ctx, names.KubeScheduler)
		Expect(err).NotTo(HaveOccurred())
		Expect(env.client.Delete(ctx, &pods[0])).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			now, err := t.pods(ctx, names.KubeScheduler)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now).To(HaveLen(len(pods)))
			for i := range now {
				g.Expect(now[i].UID).NotTo(Equal(pods[0].UID))
				g.Expect(isReady(&now[i])).To(BeTrue(), "pod %s is not ready", now[i].Name)
			}
		}).WithTimeout(creation).Should(Succeed(), "the host cluster's own controllers replace a pod")
		changed.install(ctx)
		t.expectAllWell(ctx, env.client)
	}, SpecTimeout(4*creation))

	It("goes with all that was made for it", func(ctx SpecContext) {
		t.delete(ctx)
		hosts := t.hosts(ctx)
		Expect(hosts).NotTo(BeEmpty())
		for i := range hosts {
			expectClean(ctx, &hosts[i])
		}
	}, SpecTimeout(2*join))
})

// appliesMetadataAgain is true for what Cluster API does once after somebody wrote to a machine's bootstrap configuration, as this
// release does when it comes: some minutes later it applies labels and annotations that are there already.
func appliesMetadataAgain(event *auditv1.Event) bool {
	return strings.HasSuffix(event.User.Username, ":capi-manager") && strings.Contains(event.RequestURI, "fieldManager=capi-machineset-metadata")
}

// newestEtcd is the tag of etcd's image for the newest minor of Kubernetes in a tree's own table.
func newestEtcd(tree previousrelease.Tree) string {
	GinkgoHelper()
	table := releasesIn(filepath.Join(tree.Folder, "internal", "versions", supported.ConfigMapKey))
	return table[len(table)-1].Etcd
}

// createByPrevious makes the tenant from the previous release's template, with a worker that has its programs.
func (t *tenant) createByPrevious(ctx context.Context) *host.Host {
	GinkgoHelper()
	tree := previousTree()
	template := filepath.Join(tree.Folder, "templates", "cluster-template.yaml")
	t.template = &template
	t.create(ctx)
	pool := &workers.Pool{
		Lab: env.lab, Client: env.client, Namespace: t.Namespace, Log: env.log,
		Programs: []string{filepath.Join(tree.Programs(), "kok-apiserver-lb")},
		Load: func(ctx context.Context, names ...string) error {
			return env.lab.LoadProgram(ctx, quickstart.HelloImage, filepath.Join(settings.programs, "hello"), names...)
		},
	}
	_, err := pool.Ensure(ctx, t.workers)
	Expect(err).NotTo(HaveOccurred())
	q := t.quickstart()
	Expect(q.InstallNetwork(ctx, env.network)).To(Succeed())
	Expect(q.WaitWorkers(ctx)).To(Succeed())
	Expect(q.Hello(ctx)).To(Succeed())
	return t.worker(ctx)
}

// buildChanged makes the release after today's, whose components have an annotation more on their pods.
func buildChanged(ctx context.Context) *release {
	GinkgoHelper()
	tree := changedTree()
	replaced := map[string][]byte{}
	for asset, template := range map[string][]string{
		"etcd/statefulset.yaml":                 {"spec", "template"},
		"kubeapiserver/pod.yaml":                nil,
		"kubecontrollermanager/deployment.yaml": {"spec", "template"},
		"kubescheduler/deployment.yaml":         {"spec", "template"},
	} {
		path := filepath.Join("controlplane", "components", asset)
		content, err := os.ReadFile(filepath.Join(tree.Folder, path))
		Expect(err).NotTo(HaveOccurred())
		object := map[string]any{}
		Expect(yaml.Unmarshal(content, &object)).To(Succeed(), path)
		Expect(unstructured.SetNestedField(object, "changed", append(template, "metadata", "annotations", changedAnnotation)...)).To(Succeed(), path)
		replaced[path], err = yaml.Marshal(object)
		Expect(err).NotTo(HaveOccurred(), path)
	}
	programs := filepath.Join(settings.releases, "changed")
	Expect(os.MkdirAll(programs, 0o755)).To(Succeed())
	Expect(tree.BuildChanged(ctx, filepath.Join(programs, "manager"), replaced)).To(Succeed())
	// The others are today's.
	for _, name := range []string{"bootstrap-manager", "infrastructure-manager", "kok-etcd-agent"} {
		program, err := os.ReadFile(filepath.Join(settings.programs, name))
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(programs, name), program, 0o755)).To(Succeed())
	}
	Expect(tree.WriteManifests(ctx, settings.releases)).To(Succeed())
	return newRelease(tree, programs)
}

// undisturbed does something to the providers while clients write and read through the endpoint and through a worker's
// load balancer. No pod of the tenant is replaced or restarted by it, and no request fails.
func (t *tenant) undisturbed(ctx context.Context, what string, worker *host.Host, do func()) {
	GinkgoHelper()
	before, system := t.snapshot(ctx), t.systemPods(ctx)
	journals := t.startJournals(ctx, strings.ReplaceAll(what, "_", "-"), worker)
	do()
	t.expectNothingLost(ctx, what, journals)
	after := t.snapshot(ctx)
	restarts := 0
	for name, was := range before {
		if now, ok := after[name]; !ok || now.UID != was.UID {
			restarts++
		} else {
			restarts += int(now.Restarts - was.Restarts)
		}
	}
	figure(what+"_pod_restarts", restarts, "pods")
	Expect(after).To(Equal(before), "pods of the control plane")
	Expect(t.systemPods(ctx)).To(Equal(system), "pods of addons on workers")
}

// systemPods are the pods that the tenant itself runs for the control plane's addons, with their restarts.
func (t *tenant) systemPods(ctx context.Context) map[string]running.Pod {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Eventually(ctx, func() (err error) {
		pods, err = t.api.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
		return err
	}).Should(Succeed())
	return running.Of(pods.Items)
}

// podTemplates are the pod templates of components as the host cluster has them, in JSON, by the kind and name of what makes their pods.
func (t *tenant) podTemplates(ctx context.Context) map[string]string {
	GinkgoHelper()
	all := map[string]string{}
	of := []client.ListOption{client.InNamespace(t.Namespace), client.MatchingLabels(names.Labels(t.ObjectKey))}
	add := func(kind, name string, template corev1.PodTemplateSpec) {
		raw, err := json.Marshal(template)
		Expect(err).NotTo(HaveOccurred())
		all[kind+"/"+name] = string(raw)
	}
	sets, deployments, members := &appsv1.DaemonSetList{}, &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}
	listAll(ctx, sets, of...)
	listAll(ctx, deployments, of...)
	listAll(ctx, members, of...)
	for _, set := range sets.Items {
		add("DaemonSet", set.Name, set.Spec.Template)
	}
	for _, deployment := range deployments.Items {
		add("Deployment", deployment.Name, deployment.Spec.Template)
	}
	for _, set := range members.Items {
		add("StatefulSet", set.Name, set.Spec.Template)
	}
	Expect(len(all)).To(BeNumerically(">=", len(componentNames)), "what makes pods")
	return all
}

// kubeconfigOfClusterctl is a client with what clusterctl get kubeconfig prints.
func (t *tenant) kubeconfigOfClusterctl(ctx context.Context) discovery.ServerVersionInterface {
	GinkgoHelper()
	kubeconfig, err := env.output(ctx, env.clusterctl, "get", "kubeconfig", t.Name, "--namespace", t.Namespace, "--config", releasesConfig())
	Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	api, err := discovery.NewDiscoveryClientForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return api
}
