//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clientv3 "go.etcd.io/etcd/client/v3"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/processes"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/running"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/etcdfaults"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/journal"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/disk"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/registers"
)

const (
	// faultRate is the number of writes a second of each journal: some faults take long.
	faultRate = 10
	// registerRate is the number of operations a second of each client of registers.
	registerRate = 2
	// judging bounds the judgement of all registers.
	judging = 2 * time.Minute
	// goingOn is how many more writes of each journal must be acknowledged when all is well again.
	goingOn = 5 * faultRate
	// etcdRecovering is the condition that is true while a member of etcd is replaced, and says what a person must decide.
	etcdRecovering = "EtcdRecovering"
)

// struck is a highly available tenant of its own whose etcd gets one fault, or one after the other, while journals write all the time,
// and registers are written and read, by the API servers of all host nodes that stay.
type struck struct {
	*tenant
	row etcdfaults.Row
	// node is the host node that the fault takes away; empty when it takes none. Components that stay there nevertheless are
	// in stay.
	node string
	stay []string
	// hit are the members, and other pods, that the fault hits: they may start again.
	hit []string
	// unwatched is true for a fault that ends all watches: API servers that start again do not know older revisions.
	unwatched bool
	// disks are those that members are put on, by the names of the members.
	disks map[string]*disk.Disk

	// before is who the members were, clusters are the IDs of both etcds, pods is what ran.
	before   identity
	clusters map[string]uint64
	pods     map[string]running.Pod

	etcds    map[string]*clientv3.Client
	reader   kubernetes.Interface
	journals []*journal.Journal
	recorder *registers.Recorder
	// round is the number of the fault, of those that this tenant gets one after the other.
	round int
	// compared and handed are true once the writes of this round were compared, and once its row was handed over.
	compared, handed bool
	// struckAt is when the fault came, open since when members might be replaced.
	struckAt, open time.Time

	lock sync.Mutex
	// said are both conditions, as people read them.
	said map[string]string
}

// tenantToStrike makes a tenant for a fault, with journals that write.
func tenantToStrike(ctx context.Context, name, fault string) *struck {
	GinkgoHelper()
	s := newStruck(ctx, name, fault, nil)
	s.start(ctx)
	return s
}

// tenantWithSpare makes a tenant whose members are on three host nodes, one of which the lab can lose, and has a spare one join
// the pool then.
func tenantWithSpare(ctx context.Context, name, fault string) *struck {
	GinkgoHelper()
	var s *struck
	node := withNodeToLose(ctx, func() { s = newStruck(ctx, name, fault, nil) })
	s.node = node
	s.expectHealthy(ctx)
	s.start(ctx)
	return s
}

// withNodeToLose has a tenant made while the pool has three host nodes, one of which it adds and returns: the lab can lose that one. The
// others of the lab join the pool again then, and are spare.
func withNodeToLose(ctx context.Context, makeTenant func()) (node string) {
	GinkgoHelper()
	requireLab()
	const stay = 2
	former := slices.Sorted(maps.Keys(env.hostNodes(ctx)))
	Expect(len(former)).To(BeNumerically(">", stay), "host nodes of the lab")
	spares := former[stay:]
	rejoin := func(ctx context.Context) {
		GinkgoHelper()
		for _, spare := range spares {
			joinPool(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: spare}})
		}
	}
	DeferCleanup(func(ctx SpecContext) { rejoin(ctx) })
	for _, spare := range spares {
		leavePool(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: spare}})
	}
	added := addHostNode(ctx)
	DeferCleanup(func(ctx SpecContext) { removeVolumes(ctx, added.Name) })
	makeTenant()
	rejoin(ctx)
	return added.Name
}

// newStruck makes the tenant, which goes when the spec ends. edit, if it is set, changes its control plane before that is made.
func newStruck(ctx context.Context, name, fault string, edit func(*controlplanev1.KOKControlPlane)) *struck {
	GinkgoHelper()
	t := newTenant("etcd-"+name, "v1.36.3", nil)
	t.edit = edit
	return strike(ctx, t, fault)
}

// strike makes a tenant that is to be struck, which goes when the spec ends.
func strike(ctx context.Context, t *tenant, fault string) *struck {
	GinkgoHelper()
	requireLab()
	s := &struck{tenant: t, row: etcdfaults.Row{Fault: fault}, said: map[string]string{}, disks: map[string]*disk.Disk{}}
	// Disks outlast who uses them.
	DeferCleanup(func() { s.uncover() })
	DeferCleanup(func(ctx SpecContext) {
		if !settings.keep {
			s.remove(ctx)
		}
	}, NodeTimeout(2*creation))
	s.create(ctx)
	return s
}

// start notes how all is, and begins to write. In the end the row is handed over, whatever came of the fault.
func (s *struck) start(ctx context.Context) {
	GinkgoHelper()
	s.etcds = map[string]*clientv3.Client{}
	for _, component := range etcdComponents {
		s.etcds[component] = s.etcd(ctx, component)
	}
	s.before = s.expectIdentity(ctx)
	s.clusters = s.expectVoters(ctx)
	s.follow(ctx)
	DeferCleanup(func(ctx SpecContext) { s.handOver(ctx) }, NodeTimeout(2*creation))
	s.begin(ctx)
}

// begin begins to write, and notes what runs.
func (s *struck) begin(ctx context.Context) {
	GinkgoHelper()
	s.write(ctx)
	s.pods = s.snapshot(ctx)
}

// next hands the row over, and goes on with another fault.
func (s *struck) next(ctx context.Context, fault string) {
	GinkgoHelper()
	s.handOver(ctx)
	s.round++
	s.row, s.hit, s.unwatched, s.open = etcdfaults.Row{Fault: fault}, nil, false, time.Time{}
	s.journals, s.recorder, s.compared, s.handed = nil, nil, false, false
	s.begin(ctx)
}

// write starts journals and registers, and waits until the journals write.
func (s *struck) write(ctx context.Context) {
	GinkgoHelper()
	nodes, port := env.hostNodes(ctx), s.ports(ctx).APIServer
	delete(nodes, s.node)
	var servers []*rest.Config
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		node := nodes[name]
		config := s.keptConfig(address(internalIP(&node), port), nil)
		if s.reader == nil {
			var err error
			s.reader, err = kubernetes.NewForConfig(config)
			Expect(err).NotTo(HaveOccurred())
			_, err = s.reader.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testNamespace}}, metav1.CreateOptions{})
			Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
		}
		servers = append(servers, config)
		started, err := journal.Start(ctx, journal.Options{Name: fmt.Sprintf("%s-%d", name, s.round), Config: config, Namespace: testNamespace, Rate: faultRate})
		Expect(err).NotTo(HaveOccurred())
		s.journals = append(s.journals, started)
	}
	var err error
	s.recorder, err = registers.Start(ctx, registers.Options{Name: fmt.Sprintf("register-%d", s.round), Servers: servers, Namespace: testNamespace, Rate: registerRate})
	Expect(err).NotTo(HaveOccurred())
	s.expectGoingOn(ctx)
}

// expectGoingOn waits until each journal has written some more.
func (s *struck) expectGoingOn(ctx context.Context) {
	GinkgoHelper()
	for _, j := range s.journals {
		before := j.Result().Acknowledged
		Eventually(ctx, func() int { return j.Result().Acknowledged }).WithTimeout(creation).Should(BeNumerically(">=", before+goingOn), "writes go on")
	}
}

// acknowledged is how many writes were, by all journals.
func (s *struck) acknowledged() (all int) {
	for _, j := range s.journals {
		all += j.Result().Acknowledged
	}
	return all
}

// written is the key in etcd, and the value, of something that a journal wrote first.
func (s *struck) written(ctx context.Context) (key, value string) {
	GinkgoHelper()
	for _, j := range s.journals {
		if name, text, ok := j.First(); ok {
			key, value = "/registry/configmaps/"+testNamespace+"/"+name, text
			break
		}
	}
	found, err := s.etcds[names.EtcdData].Get(ctx, key)
	Expect(err).NotTo(HaveOccurred())
	Expect(found.Kvs).To(ConsistOf(HaveField("Value", ContainSubstring(value))), key)
	return key, value
}

// follow says how both conditions are whenever that changes, as a person sees it.
func (s *struck) follow(ctx context.Context) {
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() {
		_ = wait.PollUntilContextCancel(following, 250*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			s.look(ctx)
			return false, nil
		})
	})
	DeferCleanup(func() { stop(); done.Wait() })
}

// look says how the conditions are where they are others than before.
func (s *struck) look(ctx context.Context) {
	controlPlane := &controlplanev1.KOKControlPlane{}
	if err := env.client.Get(ctx, s.ObjectKey, controlPlane); err != nil {
		return
	}
	for _, name := range []string{conditionsv1.EtcdClusterHealthyCondition, etcdRecovering} {
		if c := conditions.Get(controlPlane, name); c != nil {
			s.say(name, fmt.Sprintf("%s %s (%s) %s", name, c.Status, c.Reason, c.Message))
		}
	}
}

func (s *struck) say(name, text string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.said[name] != text {
		s.said[name] = text
		env.log.Print("%s: %s", s.Name, strings.TrimSpace(text))
	}
}

// strike does something to members, and notes what and when.
func (s *struck) strike(did string, how func(), hit ...string) {
	GinkgoHelper()
	s.row.Did, s.hit = did, hit
	env.log.Print("%s: %s", s.Name, did)
	s.struckAt = time.Now()
	how()
}

// mayRecover says that from now on members may be replaced; without it they may be from the fault on.
func (s *struck) mayRecover() { s.mayRecoverSince(time.Now()) }

func (s *struck) mayRecoverSince(moment time.Time) { s.open = moment }

// on are the members of both etcds on a host node.
func (s *struck) on(node string) (members []string) {
	GinkgoHelper()
	for name := range s.before.Members {
		if s.pods[name].Node == node {
			members = append(members, name)
		}
	}
	slices.Sort(members)
	Expect(members).To(HaveLen(len(etcdComponents)), "members on %s", node)
	return members
}

// leader is the member that leads the data's etcd.
func (s *struck) leader(ctx context.Context) string {
	GinkgoHelper()
	return leaderOf(ctx, Default, s.etcds[names.EtcdData])
}

// follower is a member of the data's etcd that does not lead. It is not one of besides.
func (s *struck) follower(ctx context.Context, besides ...string) string {
	GinkgoHelper()
	leader := s.leader(ctx)
	for _, name := range slices.Sorted(maps.Keys(s.before.Members)) {
		if name != leader && s.pods[name].Component == names.EtcdData && !slices.Contains(besides, name) {
			return name
		}
	}
	Fail(fmt.Sprintf("every member leads, or is one of %v", besides))
	return ""
}

// container is etcd's of a member: its ID for processes, and its state.
func (s *struck) container(ctx context.Context, member string) (id string, status corev1.ContainerStatus) {
	GinkgoHelper()
	pod := &corev1.Pod{}
	get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: member}, pod)
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == "etcd" })
	Expect(i).To(BeNumerically(">=", 0), "container etcd of pod %s", member)
	_, id, _ = strings.Cut(pod.Status.ContainerStatuses[i].ContainerID, "://")
	return id, pod.Status.ContainerStatuses[i]
}

// signal sends the processes of a member a signal.
func (s *struck) signal(ctx context.Context, member string, signal syscall.Signal) {
	GinkgoHelper()
	id, _ := s.container(ctx, member)
	count, err := processes.Signal(id, signal)
	Expect(err).NotTo(HaveOccurred())
	Expect(count).To(BeNumerically(">", 0), "processes of %s", member)
}

// whileStopped does something to the data directory of a member, as the machine has it, while its pod is deleted and waits for
// its host node.
func (s *struck) whileStopped(ctx context.Context, member string, do func(directory string)) {
	GinkgoHelper()
	directory := s.dataDirectory(ctx, member)
	s.keepAway(ctx, member)
	do(directory)
	uncordon(ctx, s.pods[member].Node)
}

// volume is where the host node has the volume of a member.
func (s *struck) volume(ctx context.Context, member string) (path string) {
	GinkgoHelper()
	claim := &corev1.PersistentVolumeClaim{}
	get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: etcd.Claim(member)}, claim)
	volume := &corev1.PersistentVolume{}
	get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)
	Expect(volume.Spec.Local).NotTo(BeNil(), "volume %s is on the host node itself", volume.Name)
	return volume.Spec.Local.Path
}

// dataDirectory is where this machine has the data directory of a member.
func (s *struck) dataDirectory(ctx context.Context, member string) string {
	GinkgoHelper()
	directory := filepath.Join(labHost(s.pods[member].Node).DiskPath(s.volume(ctx, member)), "data")
	Expect(filepath.Join(directory, "member")).To(BeADirectory())
	return directory
}

// expectWhole sees to it that all members have the same data, that writes go on, that none which was acknowledged is lost, that what
// clients saw is linearizable, and that no API server was restarted.
func (s *struck) expectWhole(ctx context.Context) {
	GinkgoHelper()
	s.expectSameHashes(ctx)
	s.expectHealthy(ctx)
	s.expectGoingOn(ctx)
	lost, unseen, err := s.compare(ctx)
	Expect(err).NotTo(HaveOccurred())
	disturbed, err := s.disturbed(ctx, "")
	Expect(err).NotTo(HaveOccurred())
	env.log.Print("%s: pods that the fault did not hit and that are others: %q", s.Name, disturbed)
	servers, err := s.disturbed(ctx, names.KubeAPIServer)
	Expect(err).NotTo(HaveOccurred())
	Expect(lost).To(BeEmpty(), "lost writes")
	Expect(unseen).To(BeEmpty(), "writes that watches did not bring")
	Expect(s.row.Linearizable).To(Equal(registers.Yes), "what clients saw of registers is linearizable")
	Expect(servers).To(BeEmpty(), "API servers")
}

// compare ends journals and registers, compares all that was acknowledged, and has the registers judged.
func (s *struck) compare(ctx context.Context) (lost, unseen []string, err error) {
	s.row.Compared, s.row.Lost = 0, 0
	for _, j := range s.journals {
		if !s.unwatched {
			late, failed := j.Unseen(ctx, watchPatience)
			err = cmp.Or(err, failed)
			unseen = append(unseen, late...)
		}
		j.Stop()
		result := j.Result()
		env.log.Print("%s: %s", s.Name, result)
		s.row.Still = max(s.row.Still, result.Still)
		gone, failed := j.Lost(ctx, s.reader)
		if failed != nil {
			err = cmp.Or(err, failed)
			continue
		}
		s.row.Compared, s.row.Lost = s.row.Compared+result.Acknowledged, s.row.Lost+len(gone)
		lost = append(lost, gone...)
	}
	if s.recorder != nil {
		s.row.Linearizable = s.judge(s.recorder.Stop())
	}
	s.compared = true
	return lost, unseen, err
}

// judge judges what clients saw of registers. What is not linearizable is kept with what explains a failure.
func (s *struck) judge(history []registers.Operation) registers.Outcome {
	verdict := registers.Judge(history, judging)
	env.log.Print("%s: %s", s.Name, verdict)
	if verdict.Outcome != registers.Yes {
		data, err := json.MarshalIndent(history, "", " ")
		file := filepath.Join(settings.artifacts, fmt.Sprintf("%s-registers-%d.json", s.Name, s.round))
		if err == nil {
			err = errors.Join(os.MkdirAll(settings.artifacts, 0o755), os.WriteFile(file, data, 0o600))
		}
		env.log.Print("%s: the history of its registers is in %s: %v", s.Name, file, err)
	}
	return verdict.Outcome
}

// disturbed are the pods, of one component if it is named, that were restarted or replaced although the fault did not hit them.
func (s *struck) disturbed(ctx context.Context, component string) ([]string, error) {
	pods, err := s.tenant.pods(ctx, component)
	if err != nil {
		return nil, err
	}
	before, after := maps.Clone(s.pods), running.Of(pods)
	for _, all := range []map[string]running.Pod{before, after} {
		maps.DeleteFunc(all, func(name string, pod running.Pod) bool {
			return slices.Contains(s.hit, name) || component != "" && pod.Component != component
		})
	}
	return running.Undrained(before, after, s.node, s.stay...), nil
}

// handOver hands the row over, once, and ends the journals. Where the spec failed before it compared writes, they are compared
// now, as well as it goes.
func (s *struck) handOver(ctx context.Context) {
	if s.handed {
		return
	}
	s.handed = true
	if !s.compared && len(s.journals) > 0 {
		_, _, err := s.compare(ctx)
		env.log.Print("%s: writes were compared after the failure: %v", s.Name, err)
	}
	if disturbed, err := s.disturbed(ctx, ""); err == nil {
		s.row.Restarted = len(disturbed)
	}
	if CurrentSpecReport().Failed() {
		s.lock.Lock()
		s.row.Note = s.said[etcdRecovering]
		s.lock.Unlock()
	}
	AddReportEntry(etcdfaults.Entry, s.row, ReportEntryVisibilityNever)
}

// removeVolumes removes the volumes of a host node that is removed: nobody else can.
func removeVolumes(ctx context.Context, node string) {
	GinkgoHelper()
	volumes := &corev1.PersistentVolumeList{}
	listAll(ctx, volumes)
	for i := range volumes.Items {
		volume := &volumes.Items[i]
		if affinity := volume.Spec.NodeAffinity; affinity != nil && affinity.Required != nil && slices.ContainsFunc(affinity.Required.NodeSelectorTerms, ofNode(node)) {
			Expect(client.IgnoreNotFound(env.client.Delete(ctx, volume))).To(Succeed())
		}
	}
}

func ofNode(node string) func(corev1.NodeSelectorTerm) bool {
	return func(term corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return e.Key == corev1.LabelHostname && slices.Equal(e.Values, []string{node})
		})
	}
}
