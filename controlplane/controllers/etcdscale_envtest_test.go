//go:build envtest

package controllers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

const (
	// scalePatience bounds one change of the number of members: ten times what it takes.
	scalePatience = 5 * time.Minute
	scaleRound    = 100 * time.Millisecond
	writeInterval = 20 * time.Millisecond
)

// realEtcd is an etcd of real processes at addresses of loopback, around which the controller's own code runs
// in rounds, and a host cluster of which only the objects exist.
type realEtcd struct {
	t         *testing.T
	directory string
	// network begins the addresses of its members: each etcd has its own, as tests, and programs of tests, run in parallel.
	network      string
	reconciler   *Reconciler
	store        *pki.Store
	keys         *pki.KeyMaterial
	controlPlane *controlplanev1.KOKControlPlane
	host         client.Client
	members      map[string]*process
	// starts counts the processes of each member since its volume was made.
	starts map[string]int
	// revision is that of the template of pods.
	revision string
	// late is true when a member starts one round after its pod was created.
	late bool
	// tells is true when pods say how they are, as kubelet has it. Else they are ready from their first moment.
	tells bool
	// unchecked is true when members do not compare their data with that of others when they start.
	unchecked bool
	// operator is the one of all rounds, in which no pod is rolled out; nil for a new one in each, as if the manager had started
	// anew.
	operator *operator.Operator
	// killed are the steps around which the program was killed already.
	killed map[string]bool
	writer *writer
}

var errKilled = errors.New("the program was killed here")

// realEtcds counts those that were made.
var realEtcds atomic.Int32

// The members of a living etcd change 1-3-5-3-1-3, with the program killed before and after each kind of step.
func TestMembersOfARealEtcdChangeUnderWrites(t *testing.T) {
	sample.OneIn(t, 4, "it takes minutes, and the simulated world has the same changes at every commit")
	t.Parallel()
	e := newRealEtcd(t)
	e.reach(1)
	e.write()
	first := e.starts[statustest.PodName(names.EtcdData, 0)]
	for _, members := range []int32{3, 5, 3, 1, 3} {
		began := time.Now()
		e.reach(members)
		t.Logf("%d members after %.1f s", members, time.Since(began).Seconds())
	}
	e.expectNothingLost()
	if got := e.starts[statustest.PodName(names.EtcdData, 0)]; got != first || first != 1 {
		t.Errorf("the first member was started %d times", got)
	}
	for _, kind := range []membership.Kind{membership.AddLearner, membership.Promote, membership.Remove} {
		if !e.killed["before "+string(kind)] || !e.killed["after "+string(kind)] {
			t.Errorf("the program was not killed around %s: %v", kind, e.killed)
		}
	}
}

func (e *realEtcd) issuer() certificates.Issuer {
	return certificates.Issuer{Keys: e.keys, Clock: clock.RealClock{}}
}

func newRealEtcd(t *testing.T) *realEtcd {
	t.Helper()
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	host := fake.NewClientBuilder().WithIndex(&corev1.PersistentVolumeClaim{}, metav1.ObjectNameField, byName).Build()
	access := secrets.Access{Cached: host, Live: host, Writer: host}
	e := &realEtcd{
		t: t, directory: t.TempDir(), network: fmt.Sprintf("127.%d.%d.", 77+os.Getpid()%150, realEtcds.Add(1)), host: host, store: &pki.Store{Management: access, Host: access},
		members: map[string]*process{}, starts: map[string]int{}, killed: map[string]bool{}, controlPlane: &controlplanev1.KOKControlPlane{},
	}
	e.reconciler = &Reconciler{
		Host: &Host{Client: host, Live: host, Applier: apply.New(host, host)}, Clock: clock.RealClock{}, recorder: events.NewFakeRecorder(1000), etcd: operator.Etcd{Check: etcd.Check, Change: e.change, MakeRoom: etcd.MakeRoom},
	}
	for _, spec := range []*controlplanev1.EtcdClusterSpec{&e.controlPlane.Spec.Etcd.Data, &e.controlPlane.Spec.Etcd.Events.EtcdClusterSpec} {
		*spec = controlplanev1.EtcdClusterSpec{Replicas: ptr.To[int32](1), QuotaBackendSize: ptr.To(resource.MustParse("2Gi"))}
	}
	e.controlPlane.Spec.Hosting.NodeSelector = map[string]string{controlplanev1.HostNodeLabel: "true"}
	for i := range 5 {
		e.create(newNode(fmt.Sprintf("host-%d", i)))
	}
	var err error
	e.keys, err = e.store.Ensure(t.Context(), pki.Request{
		Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, UsedBy: func(context.Context) (string, error) { return "", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, member := range e.members {
			member.kill()
		}
	})
	return e
}

// change is etcd.Change, except that the program is killed once before and once after each kind of step.
func (e *realEtcd) change(ctx context.Context, kind membership.Kind, name string, health *etcd.Health, members map[string]etcd.Address, config *tls.Config) error {
	if e.kill("before " + string(kind)) {
		return errKilled
	}
	if err := etcd.Change(ctx, kind, name, health, members, config); err != nil {
		return err
	}
	if e.kill("after " + string(kind)) {
		return errKilled
	}
	return nil
}

func (e *realEtcd) kill(where string) bool {
	if e.killed[where] {
		return false
	}
	e.killed[where] = true
	return true
}

// reach asks for a number of members and lets everybody work until they are there and nothing is left of others.
func (e *realEtcd) reach(members int32) {
	e.t.Helper()
	e.controlPlane.Spec.Etcd.Data.Replicas = &members
	var last string
	err := wait.PollUntilContextTimeout(e.t.Context(), scaleRound, scalePatience, true, func(ctx context.Context) (bool, error) {
		health := e.round(ctx)
		last = fmt.Sprintf("%v %s %+v", health.Problems(), health.Change, etcdclusters.Status(e.controlPlane, names.EtcdData).Members)
		claims, err := operator.VolumeClaims(ctx, e.host, client.ObjectKey{Namespace: "team", Name: "blue"}, names.EtcdData, nil)
		return etcdclusters.Voters(e.controlPlane, names.EtcdData) == members && len(health.Problems()) == 0 && health.Change == "" &&
			len(e.members) == int(members) && len(claims) == int(members) && len(e.services()) == int(members), err
	})
	if err != nil {
		e.t.Fatalf("wait for %d members: %v; it was %s", members, err, last)
	}
}

// round is one reconcile, what the host cluster makes of it, and one run of the operator. Of one that is killed nothing is kept.
func (e *realEtcd) round(ctx context.Context) *operator.Report {
	s := e.scope(ctx)
	e.followMembers(ctx, s)
	if etcdclusters.Growing(s.controlPlane) == "" {
		e.roll(s)
	}
	pods := etcdclusters.Pods(s.controlPlane, etcdcomponent.Data, &s.input)
	task := s.etcdFacts(
		map[string]*workloads.State{names.EtcdData: {Desired: pods, Current: pods}},
		map[string][]string{names.EtcdData: e.cordoned(ctx)},
	).Task(etcdcomponent.Data)
	looksAfter := e.operator
	task.RollingOut = task.RollingOut && looksAfter == nil
	if looksAfter == nil {
		looksAfter = operator.New(e.reconciler.etcd, e.reconciler.Clock, e.reconciler.recorder)
	}
	report := looksAfter.Run(ctx, task)
	if !strings.Contains(report.Change+report.Recovery, errKilled.Error()) {
		status.Set(s.statusInput(), &status.Observation{Etcd: map[string]*operator.Report{names.EtcdData: report}})
	}
	e.tellWhoIsReady(report)
	return report
}

// scope is what the steps before etcd leave: addresses, certificates, configuration files.
func (e *realEtcd) scope(ctx context.Context) *scope {
	e.t.Helper()
	s := &scope{
		key: client.ObjectKey{Namespace: "team", Name: "blue"}, host: e.reconciler.Host, controlPlane: e.controlPlane, keys: e.keys,
		input: components.Input{
			Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, Spec: *e.controlPlane.Spec.DeepCopy(), Ports: ports.Of(39000), Addresses: map[string]string{},
			Network: components.Network{ServiceCIDRs: []string{"10.96.0.0/12"}, DNSDomain: "cluster.local"},
		},
	}
	present := e.services()
	members := e.reconciler.members(s)
	var err error
	if s.input.EtcdMembers, err = members.Beyond(ctx, nil, present); err != nil {
		e.t.Fatal(err)
	}
	for i, member := range etcdcomponent.Data.Members(&s.input) {
		s.input.Addresses[member] = fmt.Sprintf("%s%d", e.network, i+1)
		if present[member] == nil {
			e.create(&corev1.Service{ObjectMeta: e.meta(member, names.EtcdData)})
		}
	}
	if err := members.DeleteServices(ctx, present); err != nil {
		e.t.Fatal(err)
	}
	secrets, err := Certificates(&s.input, e.keys, "", nil)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, secret := range secrets {
		if secret.Key.Name != names.Certs("blue", names.EtcdData) {
			continue
		}
		if _, err := e.issuer().EnsureLeaves(ctx, e.store.Host, secret); err != nil {
			e.t.Fatal(err)
		}
	}
	config, err := etcdcomponent.Data.Config(&s.input, etcdclusters.Membership(e.controlPlane, names.EtcdData))
	if err != nil {
		e.t.Fatal(err)
	}
	e.replace(config)
	return s
}

// followMembers does what StatefulSet's controller, the scheduler and kubelets do: pods, volumes, processes.
func (e *realEtcd) followMembers(ctx context.Context, s *scope) {
	e.t.Helper()
	pods, wanted := etcdclusters.Pods(s.controlPlane, etcdcomponent.Data, &s.input), map[string]bool{}
	for i := range pods {
		member := statustest.PodName(names.EtcdData, i)
		wanted[member] = true
		pod := &corev1.Pod{}
		exists := e.host.Get(ctx, client.ObjectKey{Namespace: "team", Name: member}, pod) == nil
		if running := e.members[member]; running != nil && !exists {
			running.stop()
			e.releaseVolume(member)
		}
		host := e.hostOf(e.volume(member))
		switch {
		case !exists:
			e.create(e.newPod(member, host))
			if host == "" || e.late {
				continue
			}
		case pod.Spec.NodeName == "" || !e.members[member].ended():
			continue
		default:
			e.tellOfFailure(pod)
		}
		e.start(ctx, s, member)
	}
	for member, running := range e.members {
		if !wanted[member] {
			running.kill()
			delete(e.members, member)
			if err := e.host.Delete(ctx, &corev1.Pod{ObjectMeta: e.meta(member, names.EtcdData)}); err != nil {
				e.t.Fatal(err)
			}
		}
	}
	e.releaseVolumes()
}

// process is a running member.
type process struct {
	command *exec.Cmd
	done    chan struct{}
}

// startEtcd runs etcd with a configuration. What it logs is added to a file.
func startEtcd(t *testing.T, config, logs string) *process {
	t.Helper()
	log, err := os.OpenFile(logs, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // The process has a descriptor of its own.
	p := &process{command: exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd"), "--config-file="+config), done: make(chan struct{})}
	p.command.Stderr = log
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.command.Wait()
		close(p.done)
	}()
	return p
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.done
}

// stop lets it end by itself.
func (p *process) stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	<-p.done
}

// start runs a member as its pod does, listening at its own address alone: all are on one machine.
func (e *realEtcd) start(ctx context.Context, s *scope, member string) {
	e.t.Helper()
	config, certs := &corev1.ConfigMap{}, &corev1.Secret{}
	for name, object := range map[string]client.Object{names.Config("blue", names.EtcdData): config, names.Certs("blue", names.EtcdData): certs} {
		if err := e.host.Get(ctx, client.ObjectKey{Namespace: "team", Name: name}, object); err != nil {
			e.t.Fatal(err)
		}
	}
	home := filepath.Join(e.directory, member)
	if err := os.MkdirAll(home, 0o700); err != nil {
		e.t.Fatal(err)
	}
	files := map[string][]byte{"config.yaml": []byte(strings.NewReplacer(
		"0.0.0.0", s.input.Addresses[member], "127.0.0.1", s.input.Addresses[member], etcdcomponent.CertsDirectory, home, "/var/lib/etcd", home,
		"InitialCorruptCheck=true", fmt.Sprintf("InitialCorruptCheck=%t", !e.unchecked),
	).Replace(config.Data[member+".yaml"]))}
	maps.Copy(files, certs.Data)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(home, name), content, 0o600); err != nil {
			e.t.Fatal(err)
		}
	}
	e.members[member] = startEtcd(e.t, filepath.Join(home, "config.yaml"), filepath.Join(e.directory, member+".log"))
	e.starts[member]++
}

// roll runs API servers, and the writer, with the members that they are told.
func (e *realEtcd) roll(s *scope) {
	urls := etcdcomponent.Data.ClientURLs(&s.input)
	e.replace(&corev1.Pod{ObjectMeta: e.meta("blue-kube-apiserver-0", names.KubeAPIServer), Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "kube-apiserver", Args: []string{"--etcd-servers=" + strings.Join(urls, ",")}}},
	}})
	if e.writer != nil {
		e.writer.client.SetEndpoints(urls...)
	}
}

func (e *realEtcd) meta(name, component string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "team", Name: name, Labels: names.ComponentLabels(client.ObjectKey{Namespace: "team", Name: "blue"}, component)}
}

func (e *realEtcd) create(object client.Object) {
	e.t.Helper()
	if err := e.host.Create(e.t.Context(), object); err != nil {
		e.t.Fatal(err)
	}
}

func (e *realEtcd) replace(object client.Object) {
	e.t.Helper()
	if err := client.IgnoreNotFound(e.host.Delete(e.t.Context(), object.DeepCopyObject().(client.Object))); err != nil {
		e.t.Fatal(err)
	}
	object.SetResourceVersion("")
	e.create(object)
}

func (e *realEtcd) services() map[string]*corev1.Service {
	e.t.Helper()
	list := &corev1.ServiceList{}
	if err := e.host.List(e.t.Context(), list); err != nil {
		e.t.Fatal(err)
	}
	services := map[string]*corev1.Service{}
	for i := range list.Items {
		services[list.Items[i].Name] = &list.Items[i]
	}
	return services
}

// writer writes one key after the other and notes which were acknowledged.
type writer struct {
	client *clientv3.Client
	stop   context.CancelFunc
	done   sync.WaitGroup
	lock   sync.Mutex
	acked  map[string]string
	failed []failedWrite
	// lastAcked is when the last write that was acknowledged began.
	lastAcked time.Time
}

// failedWrite is a write that was not acknowledged. Etcd lets one that it lost wait for seconds.
type failedWrite struct {
	began time.Time
	err   error
}

// Error implements error.
func (f failedWrite) Error() string {
	return fmt.Sprintf("%s: %v", f.began.Format("15:04:05.000"), f.err)
}

func (e *realEtcd) write() {
	e.t.Helper()
	config, err := e.issuer().ClientTLS(pki.EtcdCA, names.ManagerUser, nil, "")
	if err != nil {
		e.t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: etcdcomponent.Data.ClientURLs(&e.scope(e.t.Context()).input), TLS: config, Logger: zap.NewNop(), Context: e.t.Context(),
	})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = client.Close() })
	ctx, stop := context.WithCancel(e.t.Context())
	w := &writer{client: client, stop: stop, acked: map[string]string{}}
	e.writer = w
	number := 0
	w.done.Go(func() {
		wait.UntilWithContext(ctx, func(context.Context) {
			number++
			key, value := fmt.Sprintf("key-%06d", number), fmt.Sprintf("value-%d", number)
			bounded, cancel := context.WithTimeout(e.t.Context(), 10*etcd.Timeout)
			defer cancel()
			began := time.Now()
			_, err := client.Put(bounded, key, value)
			w.lock.Lock()
			defer w.lock.Unlock()
			if err != nil {
				w.failed = append(w.failed, failedWrite{began, err})
			} else {
				w.acked[key], w.lastAcked = value, began
			}
		}, writeInterval)
	})
}

// expectNothingLost compares all that was acknowledged with what each member that is left holds, key by key.
func (e *realEtcd) expectNothingLost() {
	e.t.Helper()
	w := e.writer
	w.stop()
	w.done.Wait()
	e.t.Logf("%d writes were acknowledged, %d failed: %v", len(w.acked), len(w.failed), w.failed)
	if len(w.acked) < 50 {
		e.t.Errorf("only %d writes were acknowledged", len(w.acked))
	}
	for _, endpoint := range slices.Clone(w.client.Endpoints()) {
		w.client.SetEndpoints(endpoint)
		found, err := w.client.Get(e.t.Context(), "key-", clientv3.WithPrefix())
		if err != nil {
			e.t.Fatal(err)
		}
		held := map[string]string{}
		for _, pair := range found.Kvs {
			held[string(pair.Key)] = string(pair.Value)
		}
		for key, value := range w.acked {
			if held[key] != value {
				e.t.Errorf("%s holds %q for %s, which was acknowledged as %q", endpoint, held[key], key, value)
			}
		}
	}
}
