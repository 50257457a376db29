//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/readiness"
)

// rotating bounds a phase of a rotation: two rollouts of etcd and of API servers.
const rotating = 2 * upgrade

var _ = Describe("The keys of a tenant", Ordered, Label(full, ofKeys), func() {
	t := newTenant("keys", "v1.36.3", map[string]string{"KUBE_PROXY_CONNTRACK": "None"}) // the lab's hosts share the machine's kernel
	t.workers = 1

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		removeWithHosts(t)
		t.createWithWorkers(ctx, 0)
	}, NodeTimeout(3*creation+2*join))

	It("rotate together, of all kinds: what the former ones signed and encrypted is good until a person drops them, and then nowhere", func(ctx SpecContext) {
		worker := t.worker(ctx)
		former := t.formerKeys(ctx)
		expectTaken(ctx, former.tries(ctx, t, worker))
		t.writeSecrets(ctx)
		etcds := t.etcds(ctx)
		Expect(encryptedBy(ctx, etcds)).To(HaveKey("key1"), "names of keys in etcd")
		Expect(t.publishedCAs(ctx)).To(Equal(1), "front proxy CAs that are published")
		before, members, pods := t.snapshot(ctx), t.members(ctx), t.watchReadiness(ctx)
		journals := t.startJournals(ctx, "keys", worker)
		nodes, err := readiness.Watch(ctx, t.api, clock.RealClock{})
		Expect(err).NotTo(HaveOccurred())
		began := time.Now()

		t.steadily(ctx, func() {
			By("both keys of each kind are good")
			patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"keyRotation":{"kinds":[%q,%q,%q,%q,%q],"prepareAfter":%q}}}`,
				controlplanev1.ServiceAccountKeyKind, controlplanev1.EncryptionKeyKind, controlplanev1.FrontProxyCAKind, controlplanev1.EtcdCAKind,
				controlplanev1.EtcdEventsCAKind, time.Now().UTC().Format(time.RFC3339)))
			says := t.expectKeys(ctx, conditionsv1.KeysPreparedReason)
			Expect(says).To(And(ContainSubstring("pod-tokens/"), MatchRegexp("secret/[0-9a-f]+/kube-system/"+lastingToken)), "tokens are named")
			expectTaken(ctx, former.tries(ctx, t, worker))
			Expect(t.publishedCAs(ctx)).To(Equal(2), "front proxy CAs that are published")
			proxy := certificate("the new front proxy", t.proxy(ctx))
			expectTaken(ctx, at(t.servers(ctx), proxy, probe.Bearer("a token of the new key", t.mightyToken(ctx))))
			etcds = t.etcds(ctx)

			By("pods that start anew have tokens of the new key")
			t.restartPods(ctx)

			By("objects are written again by the new encryption key")
			Eventually(ctx, func() map[string]int { return encryptedBy(ctx, etcds) }).WithTimeout(rotating).
				Should(And(HaveLen(1), HaveKey(HavePrefix("key-"))), "names of keys in etcd")
			t.expectSecrets(ctx)

			By("the former keys are dropped")
			t.dropFormerKeys(ctx)
			t.expectKeys(ctx, conditionsv1.KeysNotRotatingReason)
			over, tries := time.Now(), former.tries(ctx, t, worker)
			taken := takenAfter(ctx, over, tries)
			figure("old_credentials_tried", len(tries), "tokens at API servers, controller managers, schedulers, servers of konnectivity and a kubelet, certificates of front proxies at API servers, controller managers and schedulers and of etcd at ports of members, and of members at API servers")
			figure("old_credentials_accepted_after", taken, "of these")
			Expect(taken).To(BeZero(), "credentials of former keys that are taken")
			expectTaken(ctx, at(t.servers(ctx), proxy, probe.Bearer("a token of the new key", t.mightyToken(ctx))))
			Expect(t.publishedCAs(ctx)).To(Equal(1), "front proxy CAs that are published")
			etcds = t.etcds(ctx)
			Expect(encryptedBy(ctx, etcds)).To(And(HaveLen(1), HaveKey(HavePrefix("key-"))), "names of keys in etcd")
			t.expectSecrets(ctx)
			figure("rotation_not_ready_seconds", fmt.Sprintf("%.1f", nodes.NotReady().Seconds()), "s in which a worker's Node was not ready")
		})
		Expect(nodes.NotReady()).To(BeZero(), "a Node was not ready for a while")
		figure("rotation_of_five_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s, of the service account key, the encryption key, the front proxy CA and both CAs of etcd")
		t.expectHealthy(ctx)
		came := &ended{}
		t.end(ctx, "rotation", journals, came)
		came.tell("rotation")
		came.expectEtcdAloneFailed("rotation")
		t.expectStayed(ctx, before, members, names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler, names.EtcdData, names.EtcdEvents)
		expectOneAtATime("rotation", pods)
	}, SpecTimeout(2*creation+2*join+2*rotating))
})

var _ = Describe("A kubeconfig for a group", Label(full, ofKeys, "group_kubeconfig"), func() {
	It("ends by itself: it does what RBAC lets the group do, and nothing once the binding is gone", func(ctx SpecContext) {
		t := newTenant("groups", "v1.36.3", single())
		DeferCleanup(func(ctx SpecContext) {
			if !settings.keep {
				t.remove(ctx)
			}
		}, NodeTimeout(2*creation))
		t.create(ctx)
		const group = "e2e-operators"
		user := t.shortLived(ctx, group, 8*time.Hour)
		t.expectSees(ctx, user, false)
		bindings := t.api.RbacV1().ClusterRoleBindings()
		_, err := bindings.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: group},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		t.expectSees(ctx, user, true)
		Expect(bindings.Delete(ctx, group, metav1.DeleteOptions{})).To(Succeed())
		t.expectSees(ctx, user, false)
	}, SpecTimeout(3*creation))
})

// etcds are clients of both etcds, as API servers are now.
func (t *tenant) etcds(ctx context.Context) []*clientv3.Client {
	GinkgoHelper()
	return []*clientv3.Client{t.etcd(ctx, names.EtcdData), t.etcd(ctx, names.EtcdEvents)}
}

// shortLived has kok write a kubeconfig for a group, and returns the way to the tenant that it has. Its certificate ends when kok says.
func (t *tenant) shortLived(ctx context.Context, group string, lives time.Duration) *rest.Config {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	began := time.Now()
	says, err := env.output(ctx, "bin/kok", "kubeconfig", t.Name, "--namespace", t.Namespace, "--for", lives.String(), "--group", group,
		"--output", file, "--kubeconfig", env.proxy.GetKubeconfigPath())
	Expect(err).NotTo(HaveOccurred())
	user, err := clientcmd.BuildConfigFromFlags("", file)
	Expect(err).NotTo(HaveOccurred())
	found, err := cert.ParseCertsPEM(user.CertData)
	Expect(err).NotTo(HaveOccurred())
	// A controller manager signs for a moment before the request, lest clocks differ, and takes that off the end.
	Expect(found[0].NotAfter).To(And(BeTemporally("<=", time.Now().Add(lives)), BeTemporally(">", began.Add(lives-10*time.Minute))))
	Expect(string(says)).To(ContainSubstring("It is good until " + found[0].NotAfter.Local().Format(time.RFC1123) + ", for group " + group))
	Expect(found[0].Subject.Organization).To(Equal([]string{group}))
	return user
}

// heardOf bounds how long API servers take to hear of a binding.
const heardOf = 10 * time.Second

// expectSees sees to it that a person signs in at the endpoint and at each API server, and may look at ConfigMaps, or not even that. Secrets
// and writes are refused in any case.
func (t *tenant) expectSees(ctx context.Context, user *rest.Config, looks bool) {
	GinkgoHelper()
	pods, err := t.pods(ctx, names.KubeAPIServer)
	Expect(err).NotTo(HaveOccurred())
	Expect(pods).NotTo(BeEmpty())
	ways := map[string]*rest.Config{"the endpoint": user}
	for i := range pods {
		way := rest.AnonymousClientConfig(t.apiAt(ctx, &pods[i]))
		way.CertData, way.KeyData = user.CertData, user.KeyData
		ways[pods[i].Name] = way
	}
	forbidden, wanted := MatchError(apierrors.IsForbidden, "IsForbidden"), Succeed()
	if !looks {
		wanted = forbidden
	}
	for name, way := range ways {
		api, err := kubernetes.NewForConfig(way)
		Expect(err).NotTo(HaveOccurred())
		_, err = api.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred(), "it signs in at %s", name)
		configMaps := api.CoreV1().ConfigMaps(metav1.NamespaceDefault)
		Eventually(ctx, func() error {
			_, err := configMaps.List(ctx, metav1.ListOptions{Limit: 1})
			return err
		}).WithTimeout(heardOf).Should(wanted, "list ConfigMaps at %s", name)
		_, err = configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "e2e-refused"}}, metav1.CreateOptions{})
		Expect(err).To(forbidden, "create a ConfigMap at %s", name)
		_, err = api.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{Limit: 1})
		Expect(err).To(forbidden, "list Secrets at %s", name)
	}
}

// publishedCAs counts the front proxy CAs of which the tenant tells extension API servers.
func (t *tenant) publishedCAs(ctx context.Context) int {
	GinkgoHelper()
	published, err := t.api.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return strings.Count(published.Data["requestheader-client-ca-file"], "BEGIN CERTIFICATE")
}

// writtenSecrets is how many Secrets a tenant gets that are written again.
const writtenSecrets = 250

func (t *tenant) writeSecrets(ctx context.Context) {
	GinkgoHelper()
	for i := range writtenSecrets {
		_, err := t.api.CoreV1().Secrets(metav1.NamespaceDefault).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("rotated-%03d", i), Labels: map[string]string{"rotated": "true"}},
			StringData: map[string]string{"value": secretValue}, Immutable: ptr.To(i%2 == 0),
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
}

// expectSecrets sees to it that each API server reads all of them.
func (t *tenant) expectSecrets(ctx context.Context) {
	GinkgoHelper()
	pods, err := t.pods(ctx, names.KubeAPIServer)
	Expect(err).NotTo(HaveOccurred())
	for i := range pods {
		api, err := kubernetes.NewForConfig(t.apiAt(ctx, &pods[i]))
		Expect(err).NotTo(HaveOccurred())
		list, err := api.CoreV1().Secrets(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "rotated=true"})
		Expect(err).NotTo(HaveOccurred(), "pod %s", pods[i].Name)
		Expect(list.Items).To(HaveLen(writtenSecrets), "pod %s", pods[i].Name)
		for _, secret := range list.Items {
			Expect(string(secret.Data["value"])).To(Equal(secretValue), "Secret %s at pod %s", secret.Name, pods[i].Name)
		}
	}
}

// encryptedBy counts what is encrypted in etcds, by the name of the key.
func encryptedBy(ctx context.Context, etcds []*clientv3.Client) map[string]int {
	GinkgoHelper()
	found := map[string]int{}
	for _, etcd := range etcds {
		all, err := etcd.Get(ctx, "/registry/", clientv3.WithPrefix())
		Expect(err).NotTo(HaveOccurred())
		for _, kv := range all.Kvs {
			if rest, encrypted := strings.CutPrefix(string(kv.Value), "k8s:enc:secretbox:v1:"); encrypted {
				name, _, _ := strings.Cut(rest, ":")
				found[name]++
			}
		}
	}
	return found
}

// expectKeys waits until the condition KeysRotating has a reason, and returns its message.
func (t *tenant) expectKeys(ctx context.Context, reason string) (says string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		controlPlane := &controlplanev1.KOKControlPlane{}
		g.Expect(t.management().Get(ctx, t.ObjectKey, controlPlane)).To(Succeed())
		condition := conditions.Get(controlPlane, conditionsv1.KeysRotatingCondition)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.Reason).To(Equal(reason), condition.Message)
		says = condition.Message
	}).WithTimeout(rotating).Should(Succeed(), "KeysRotating of %s", t.ObjectKey)
	return says
}

// saysOfKeys is the message of the condition KeysRotating.
func (t *tenant) saysOfKeys(ctx context.Context) string {
	GinkgoHelper()
	return conditions.Get(t.controlPlane(ctx), conditionsv1.KeysRotatingCondition).Message
}

// expectNoFormerPods waits until the condition KeysRotating names no pod that needs the former cluster CA, and nothing that the manager could
// not look at. It returns the message of the condition.
func (t *tenant) expectNoFormerPods(ctx context.Context) (says string) {
	GinkgoHelper()
	Eventually(ctx, func() string {
		says = t.saysOfKeys(ctx)
		return says
	}).WithTimeout(rotating).ShouldNot(MatchRegexp(`\b(pods|unseen)/`), "owners of pods that need the former CA, and what could not be looked at")
	return says
}

// dropFormerKeys waits until no pod needs the former cluster CA, and begins the second phase. It gives up the tokens that the condition names:
// nobody makes these anew.
func (t *tenant) dropFormerKeys(ctx context.Context) {
	GinkgoHelper()
	given, err := json.Marshal(regexp.MustCompile(`(?:pod-tokens|secret)/[-./a-z0-9]+`).FindAllString(t.expectNoFormerPods(ctx), -1))
	Expect(err).NotTo(HaveOccurred())
	patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"keyRotation":{"completeAfter":%q,"completeAnyway":%s}}}`, time.Now().UTC().Format(time.RFC3339), given))
}

// restartPods has all DaemonSets and Deployments of the tenant make their pods anew, as docs/keys.md tells people to.
func (t *tenant) restartPods(ctx context.Context) {
	GinkgoHelper()
	now := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"e2e-restarted-at":%q}}}}}`, time.Now().UTC().Format(time.RFC3339)))
	api, err := client.New(t.access, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	for _, list := range []client.ObjectList{&appsv1.DaemonSetList{}, &appsv1.DeploymentList{}} {
		Expect(api.List(ctx, list)).To(Succeed())
		Expect(meta.EachListItem(list, func(object runtime.Object) error { return api.Patch(ctx, object.(client.Object), now) })).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(api.List(ctx, list)).To(Succeed())
			g.Expect(meta.EachListItem(list, func(object runtime.Object) error {
				if state := workloads.StateOf(object.(client.Object)); !state.Observed || state.Updated < state.Desired || state.Available < state.Desired {
					return fmt.Errorf("%T %s: %+v", object, object.(client.Object).GetName(), state)
				}
				return nil
			})).To(Succeed())
		}).WithTimeout(join).Should(Succeed())
	}
}

// lastingToken is a Secret with a token that never ends by itself.
const lastingToken = "e2e-lasting"

func (t *tenant) lastingToken(ctx context.Context) (token string) {
	GinkgoHelper()
	secrets := t.api.CoreV1().Secrets(metav1.NamespaceSystem)
	_, err := secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: lastingToken, Annotations: map[string]string{corev1.ServiceAccountNameKey: mightyAccount}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func(g Gomega) {
		secret, err := secrets.Get(ctx, lastingToken, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		token = string(secret.Data[corev1.ServiceAccountTokenKey])
		g.Expect(token).NotTo(BeEmpty())
	}).WithTimeout(creation).Should(Succeed())
	return token
}
