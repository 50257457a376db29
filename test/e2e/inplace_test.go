//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/damage"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/processes"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// restoring bounds a restore in place, until all members are back: ten times what is usual.
const restoring = 15 * time.Minute

var _ = Describe("The etcd of a tenant that exists", Label(full, etcdBackups), func() {
	It("is restored in place, and programs and workers go on without a restart", Label("in_place"), func(ctx SpecContext) {
		b := newBackedUp(ctx, "in-place")
		taken, before := b.createWithWorker(ctx)
		seen := b.watch(ctx)
		early := b.machines(ctx)
		worker, node := b.worker(ctx), early[0].Status.NodeRef.Name
		runs := b.onWorker(ctx, worker, node)

		By("a worker joins after the snapshot")
		check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name + "-workers"}}
		patch(ctx, check, fmt.Sprintf(`{"metadata":{"annotations":{%q:""}}}`, clusterv1.PausedAnnotation)) // It would replace that worker.
		b.haveHosts(ctx, 2)
		b.scale(ctx, 2)
		b.expectWorkers(ctx, 2)
		late := slices.DeleteFunc(b.machines(ctx), func(m clusterv1.Machine) bool { return m.Name == early[0].Name })[0]
		lateWorker := labHost(b.hostOf(ctx, late))
		kubelet := b.kubelet(ctx, lateWorker)

		By("objects are made and deleted after the snapshot, as nobody should have")
		s := b.beginHistory(ctx)
		objects := b.api.CoreV1().ConfigMaps(metav1.NamespaceDefault)
		_, err := objects.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(objects.Delete(ctx, "kept-000", metav1.DeleteOptions{})).To(Succeed())
		Eventually(ctx, seen).WithTimeout(creation).Should(And(ContainElement("late"), Not(ContainElement("kept-000"))))

		s.endHistory()
		b.restoreInPlace(ctx, "recovery_seconds_in_place", "etcd", "restore-in-place", b.Name, taken.Name, "--namespace", b.Namespace)
		b.expectAsIn(ctx, taken, before, "in_place_objects_different")
		Eventually(ctx, seen).WithTimeout(creation).Should(And(ContainElement("kept-000"), Not(ContainElement("late"))), "what the informer has")
		s.expectGivenUp(ctx, "recovery_point_writes_in_place")

		By("the same snapshot is restored again, after more was written than between it and the first restore")
		was := firstRevision(ctx, b.etcd(ctx, names.EtcdData), taken.Status.Revision)
		_, err = objects.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, seen).WithTimeout(creation).Should(ContainElement("later"))
		s.nextHistory(ctx)
		s.endHistory()
		b.restoreInPlace(ctx, "recovery_seconds_in_place_again", "etcd", "restore-in-place", b.Name, taken.Name, "--namespace", b.Namespace)
		b.expectAsIn(ctx, taken, before, "in_place_again_objects_different")
		Expect(firstRevision(ctx, b.etcd(ctx, names.EtcdData), taken.Status.Revision)).To(BeNumerically(">", was))
		Eventually(ctx, seen).WithTimeout(creation).Should(And(ContainElement("kept-000"), Not(ContainElement("later"))), "what the informer has")
		s.expectGivenUp(ctx, "recovery_point_writes_in_place_again")
		s.expectNextHistory(ctx)

		Expect(b.onWorker(ctx, worker, node)).To(Equal(runs), "the worker, its kubelet and its pods")
		b.expectWorkers(ctx, 2)
		Expect(b.machines(ctx)).To(ContainElement(HaveField("UID", late.UID)), "the Machine that joined after the snapshot")
		Expect(b.kubelet(ctx, lateWorker)).To(Equal(kubelet), "the kubelet that joined after the snapshot")
		b.expectBackedUp(ctx, creation+backupEvery)
	}, SpecTimeout(6*creation+4*join+2*restoring+3*backupEvery))

	It("goes on with the data of the one member that has them, by the command that is told", Label("two_wiped"), func(ctx SpecContext) {
		b := newBackedUp(ctx, "two-wiped")
		b.createToLose(ctx)
		s := b.beginHistory(ctx)
		members, newest := b.leaderFirst(ctx), s.newest()
		b.wipe(ctx, members[:2]...)
		command := b.toldCommand(ctx, "--survivor "+members[2])
		s.endHistory()
		b.restoreInPlace(ctx, "recovery_seconds_quorum", strings.Fields(command)...)
		s.expectSurvived(ctx, "recovery_point_writes_survivor", newest)
		s.expectNextHistory(ctx)
	}, SpecTimeout(6*creation+restoring+2*backupEvery))

	It("begins with a snapshot when no member has its data", Label("all_wiped"), func(ctx SpecContext) {
		b := newBackedUp(ctx, "all-wiped")
		b.createToLose(ctx)
		s := b.beginHistory(ctx)
		taken := b.take(ctx)
		before := contents(ctx, b.etcd(ctx, names.EtcdData), taken.Status.Revision)
		b.wipe(ctx, b.members(ctx, names.EtcdData)...)
		command := b.toldCommand(ctx, " SNAPSHOT")
		s.endHistory()
		b.restoreInPlace(ctx, "recovery_seconds_all_wiped", strings.Fields(strings.ReplaceAll(command, "SNAPSHOT", taken.Name))...)
		etcd := b.etcd(ctx, names.EtcdData)
		first := firstRevision(ctx, etcd, taken.Status.Revision)
		// A snapshot has all up to its revision, and what was written while it was opened.
		written := writtenAfter(ctx, etcd, taken.Status.Revision, first)
		different := slices.DeleteFunc(differences(before, contents(ctx, etcd, first)), func(key string) bool { return slices.Contains(written, key) })
		Expect(different).To(BeEmpty(), "keys that are not as they were in the snapshot, of %d", len(before))
		s.expectFirstKept(ctx, "recovery_point_writes")
		s.expectNextHistory(ctx)
	}, SpecTimeout(6*creation+restoring+2*backupEvery))

	It("goes on with the data of the one member that has them, without a person who allowed it", Label("two_wiped_alone"), func(ctx SpecContext) {
		b := newRecovering(ctx, "two-wiped-alone", controlplanev1.EtcdRecoversFromSurvivor)
		s := b.beginHistory(ctx)
		members, newest := b.leaderFirst(ctx), s.newest()
		b.recoverAlone(ctx, s, names.EtcdData, "recovery_seconds_quorum_alone", members[:2])
		s.expectSurvived(ctx, "recovery_point_writes_survivor_alone", newest)
		s.expectNextHistory(ctx)
		b.expectBackedUp(ctx, creation+backupEvery)
	}, SpecTimeout(6*creation+restoring+2*backupEvery))

	It("begins with the newest snapshot when no member has its data, without a person who allowed it", Label("all_wiped_alone"), func(ctx SpecContext) {
		b := newRecovering(ctx, "all-wiped-alone", controlplanev1.EtcdRecoversAutomatically)
		s := b.beginHistory(ctx)
		b.take(ctx)
		b.recoverAlone(ctx, s, names.EtcdData, "recovery_seconds_all_wiped_alone", b.members(ctx, names.EtcdData))
		b.expectFilled(ctx)
		s.expectFirstKept(ctx, "recovery_point_writes_alone")
		s.expectNextHistory(ctx)
	}, SpecTimeout(6*creation+restoring+2*backupEvery))

	It("has its events begin anew when most members with events have no data, by the command that is told", Label("events_wiped"), func(ctx SpecContext) {
		b := newBackedUp(ctx, "events-wiped")
		b.createToLose(ctx)
		members, data := b.members(ctx, names.EtcdEvents), b.clusterID(ctx)
		s := b.beginHistory(ctx)
		b.wipe(ctx, members[:2]...)
		command := b.toldCommand(ctx, " --events")
		began := time.Now()
		Expect(kok(ctx, append(strings.Fields(command), "--yes", "--timeout", restoring.String())...)).To(Succeed())
		figure("recovery_seconds_events", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s")
		b.expectHealthy(ctx)
		Expect(b.clusterID(ctx)).To(Equal(data), "the ID of the data etcd")
		event := b.tellEvent(ctx)

		By("asking for it while all is well")
		Expect(kok(ctx, append(strings.Fields(command), "--yes", "--timeout", restoring.String())...)).To(Succeed())
		b.expectHealthy(ctx)
		Expect(keys(ctx, b.etcd(ctx, names.EtcdEvents), eventKeys)).NotTo(ContainElement(event))
		s.endHistory()
		s.expectNothingMissing(ctx, "events_wiped_lost_writes")
	}, SpecTimeout(6*creation+restoring+2*backupEvery))

	It("has its events begin anew when most members with events have no data, without a person who allowed it", Label("events_wiped_alone"), func(ctx SpecContext) {
		b := newRecovering(ctx, "events-wiped-alone", controlplanev1.EtcdRecoversAutomatically)
		data, former := b.clusterID(ctx), b.tellEvent(ctx)
		s := b.beginHistory(ctx)
		b.recoverAlone(ctx, s, names.EtcdEvents, "recovery_seconds_events_alone", b.members(ctx, names.EtcdEvents)[:2])
		Expect(b.clusterID(ctx)).To(Equal(data), "the ID of the data etcd")
		s.expectNothingMissing(ctx, "events_wiped_alone_lost_writes")
		Expect(keys(ctx, b.etcd(ctx, names.EtcdEvents), eventKeys)).NotTo(ContainElement(former))
		b.expectBackedUp(ctx, creation+backupEvery)
	}, SpecTimeout(5*creation+restoring+2*backupEvery))
})

// newRecovering is a tenant with objects and a first snapshot, whose data etcd may be founded anew without a person.
func newRecovering(ctx context.Context, name string, recovery controlplanev1.EtcdRecovery) *backedUp {
	GinkgoHelper()
	b := newBackedUp(ctx, name)
	backUp := b.edit
	b.edit = func(c *controlplanev1.KOKControlPlane) {
		backUp(c)
		c.Spec.Etcd.Recovery = recovery
	}
	b.createToLose(ctx)
	return b
}

// tellEvent makes an Event, and returns its key in etcd.
func (b *backedUp) tellEvent(ctx context.Context) string {
	GinkgoHelper()
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "anew"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: metav1.NamespaceDefault}, Type: corev1.EventTypeNormal, Reason: "Test",
	}
	_, err := b.api.CoreV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	key := eventKeys + event.Namespace + "/" + event.Name
	Expect(keys(ctx, b.etcd(ctx, names.EtcdEvents), eventKeys)).To(ContainElement(key))
	return key
}

// recoverAlone wipes members of an etcd during a history, and waits until that etcd was founded anew and all members are back. Registers end when
// the data lose their quorum: a later read may be of the new etcd, which lacks writes that clients saw. Journals go on: they write each key once.
func (b *backedUp) recoverAlone(ctx context.Context, s *struck, component, named string, lost []string) {
	GinkgoHelper()
	former := b.etcdStatus(ctx, component).ClusterID
	b.wipe(ctx, lost...)
	began := time.Now()
	if component == names.EtcdData {
		s.recorder.Stop()
	}
	Eventually(ctx, func(g Gomega) {
		g.Expect(b.etcdStatus(ctx, component).RestoredAt.Time).NotTo(BeZero(), conditions.GetMessage(b.controlPlane(ctx), conditionsv1.EtcdRecoveringCondition))
	}).WithTimeout(restoring).Should(Succeed(), "%s is founded anew", component)
	s.endHistory()
	b.expectHealthy(ctx)
	figure(named, fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s")
	Expect(b.etcdStatus(ctx, component).ClusterID).NotTo(Equal(former), "the ID of %s", component)
}

// createWithWorker makes the tenant with a worker and objects, and a verified snapshot. It returns that, and the keys that it has.
func (b *backedUp) createWithWorker(ctx context.Context) (taken *controlplanev1.KOKEtcdSnapshot, has map[string][]byte) {
	GinkgoHelper()
	b.workers = 1
	b.variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
	removeWithHosts(b.tenant)
	b.createWithWorkers(ctx, 0)
	b.fill(ctx)
	b.expectBackedUp(ctx, creation+backupEvery)
	return b.takeAll(ctx)
}

// takeAll has a snapshot taken, and returns it with the keys that it has.
func (b *backedUp) takeAll(ctx context.Context) (taken *controlplanev1.KOKEtcdSnapshot, has map[string][]byte) {
	GinkgoHelper()
	taken = b.take(ctx)
	has = contents(ctx, b.etcd(ctx, names.EtcdData), taken.Status.Revision)
	Expect(len(has)).To(BeNumerically(">", 2*kept))
	return taken, has
}

// expectAsIn expects all keys as they were in a snapshot, which the etcd began with.
func (b *backedUp) expectAsIn(ctx context.Context, taken *controlplanev1.KOKEtcdSnapshot, has map[string][]byte, named string) {
	GinkgoHelper()
	etcd := b.etcd(ctx, names.EtcdData)
	different := differences(has, contents(ctx, etcd, firstRevision(ctx, etcd, taken.Status.Revision)))
	figure(named, len(different), "objects")
	Expect(different).To(BeEmpty(), "keys that are not as they were in the snapshot, of %d", len(has))
}

// createToLose makes the tenant, with objects and a first snapshot.
func (b *backedUp) createToLose(ctx context.Context) {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) {
		if !settings.keep {
			b.remove(ctx)
		}
	}, NodeTimeout(2*creation))
	b.create(ctx)
	b.fill(ctx)
	b.expectBackedUp(ctx, creation+backupEvery)
}

// restoreInPlace runs kok as a person does, and waits until all members are back, as another cluster.
func (b *backedUp) restoreInPlace(ctx context.Context, name string, command ...string) {
	GinkgoHelper()
	former := b.clusterID(ctx)
	began := time.Now()
	Expect(kok(ctx, append(command, "--yes", "--timeout", restoring.String())...)).To(Succeed())
	figure(name, fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s")
	b.expectAllBack(ctx)
	env.log.Print("%s has all members again after %.1fs", b.ObjectKey, time.Since(began).Seconds())
	Expect(b.clusterID(ctx)).NotTo(Equal(former), "the ID of the etcd cluster")
}

// expectAllBack waits until nothing is to be recovered, and all members are back.
func (b *backedUp) expectAllBack(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		controlPlane := b.controlPlane(ctx)
		g.Expect(conditions.IsFalse(controlPlane, conditionsv1.EtcdRecoveringCondition)).To(BeTrue(), conditions.GetMessage(controlPlane, conditionsv1.EtcdRecoveringCondition))
	}).WithTimeout(restoring).Should(Succeed(), "nothing is to be recovered")
	b.expectHealthy(ctx)
}

// clusterID is the ID of the data etcd, as the status has it.
func (b *backedUp) clusterID(ctx context.Context) string {
	GinkgoHelper()
	return b.etcdStatus(ctx, names.EtcdData).ClusterID
}

// etcdStatus is what status says of an etcd.
func (b *backedUp) etcdStatus(ctx context.Context, component string) controlplanev1.EtcdClusterStatus {
	GinkgoHelper()
	return etcdclusters.Status(b.controlPlane(ctx), component)
}

// members are the names of the members of an etcd.
func (b *backedUp) members(ctx context.Context, component string) []string {
	GinkgoHelper()
	pods, err := b.pods(ctx, component)
	Expect(err).NotTo(HaveOccurred())
	var members []string
	for _, pod := range pods {
		members = append(members, pod.Name)
	}
	slices.Sort(members)
	return members
}

// wipe removes the data of members under them, and their pods, so that the agent looks again. All are stopped at once, and none starts again
// before all have lost their data.
func (b *backedUp) wipe(ctx context.Context, members ...string) {
	GinkgoHelper()
	s := &struck{tenant: b.tenant, pods: b.snapshot(ctx)}
	var containers, directories []string
	for _, member := range members {
		id, _ := s.container(ctx, member)
		containers, directories = append(containers, id), append(directories, s.dataDirectory(ctx, member))
	}
	for _, id := range containers {
		Expect(processes.Signal(id, syscall.SIGSTOP)).To(BeNumerically(">", 0), "processes of %v", members)
	}
	for _, directory := range directories {
		Expect(damage.Wipe(directory)).To(Succeed())
	}
	for _, member := range members {
		s.signal(ctx, member, syscall.SIGKILL)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: member}}
		Expect(env.client.Delete(ctx, pod, &client.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)})).To(Succeed())
	}
}

// toldCommand waits until the condition asks a person for a command with this ending, and returns it, without the program. While pods of
// members that were lost come back one after the other the condition first tells of what is left.
func (b *backedUp) toldCommand(ctx context.Context, ending string) string {
	GinkgoHelper()
	command := ""
	Eventually(ctx, func(g Gomega) {
		asks := conditions.Get(b.controlPlane(ctx), conditionsv1.EtcdRecoveringCondition)
		g.Expect(asks.Reason).To(Equal(conditionsv1.NeedsDecisionReason), asks.Message)
		_, told, found := strings.Cut(asks.Message, ": kok ")
		g.Expect(found).To(BeTrue(), asks.Message)
		command, _, _ = strings.Cut(told, "\n")
		g.Expect(command).To(HaveSuffix(ending))
	}).WithTimeout(recovering).Should(Succeed(), "a person is asked")
	return command
}

// watch follows ConfigMaps as controllers do, and returns a look at what it has: their names.
func (b *backedUp) watch(ctx context.Context) func() []string {
	GinkgoHelper()
	factory := informers.NewSharedInformerFactoryWithOptions(b.api, 0, informers.WithNamespace(metav1.NamespaceDefault))
	informer := factory.Core().V1().ConfigMaps().Informer()
	factory.Start(ctx.Done())
	DeferCleanup(factory.Shutdown)
	Expect(cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)).To(BeTrue())
	return func() []string {
		var all []string
		for _, key := range informer.GetStore().ListKeys() {
			_, name, _ := cache.SplitMetaNamespaceKey(key)
			all = append(all, name)
		}
		return all
	}
}

// kubelet is the process of a worker's kubelet, and how often it started again.
func (b *backedUp) kubelet(ctx context.Context, h *host.Host) string {
	GinkgoHelper()
	said, err := h.Exec(ctx, nil, "systemctl", "show", "--property=MainPID,NRestarts", "kubelet.service")
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(said))
}

// onWorker is what runs on a worker: its Node, the process of its kubelet, and its pods with how often they started again.
func (b *backedUp) onWorker(ctx context.Context, h *host.Host, name string) map[string]string {
	GinkgoHelper()
	node, err := b.api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	all := map[string]string{"Node " + node.Name: string(node.UID), "kubelet": b.kubelet(ctx, h)}
	pods, err := b.api.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node.Name})
	Expect(err).NotTo(HaveOccurred())
	for _, pod := range pods.Items {
		starts := 0
		for _, container := range pod.Status.ContainerStatuses {
			starts += int(container.RestartCount)
		}
		all["Pod "+pod.Namespace+"/"+pod.Name] = fmt.Sprintf("%s, restarted %d times", pod.UID, starts)
	}
	Expect(len(all)).To(BeNumerically(">", 3), "pods on %s", node.Name)
	return all
}
