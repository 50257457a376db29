//go:build envtest

package controllers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/envtest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// clusterctl's own client moves a data centre while the managers of both management clusters run, and
// while machines of another Cluster wait for hosts in the target. The fleet fails the test when two
// machines, or two managers, meet on one host.
func TestMove(t *testing.T) {
	source := newSite(t)
	target := newTarget(t, source)
	target.cluster("green")
	target.manager(nil)
	waiting := []string{"other-1", "other-2"}
	for _, name := range waiting {
		target.machine(name, func(m *infrav1.IDCMachine, owner *clusterv1.Machine) {
			m.Labels[clusterv1.ClusterNameLabel], owner.Spec.ClusterName = "green", "green"
		})
		says(target, &infrav1.IDCMachine{}, name, infrav1.ReadyCondition, infrav1.NoHostReason)
	}
	source.manager(nil)
	source.settleForMove()
	before, quarantine := source.getMachine("worker-1"), source.getHost("sick").Spec.Quarantine

	if err := source.moveTo(target, func(object *unstructured.Unstructured) error {
		if object.GetKind() != "IDCHost" || object.GetName() != "late" {
			return nil
		}
		// The source lets go of what it does on the host before the target hears of it.
		says(source, &infrav1.IDCHost{}, "late", clusterv1.PausedCondition, clusterv1.PausedReason)
		source.eventually("its clean-up is over", func() bool { return source.fleet.edit("late", nil).under == 0 })
		source.fleet.edit("late", func(h *machineHost) { h.slow = false })
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	target.ready("worker-1")
	after := target.getMachine("worker-1")
	if after.UID == before.UID || after.Spec.ProviderID != before.Spec.ProviderID || after.Spec.InstanceID != before.Spec.InstanceID {
		t.Errorf("%+v", after.Spec)
	}
	if claim := target.getHost("claimed").Spec.Claim; claim == nil || *claim != (infrav1.HostClaim{Name: "worker-1", InstanceID: before.Spec.InstanceID}) {
		t.Errorf("the claim is %+v", claim)
	}
	for _, name := range waiting {
		target.ready(name)
	}
	if pairs := target.bijection(); pairs != 3 {
		t.Errorf("%d machines have hosts", pairs)
	}
	says(target, &infrav1.IDCHost{}, "claimed", infrav1.AvailableCondition, infrav1.ClaimedReason)
	says(target, &infrav1.IDCHost{}, "sick", infrav1.AvailableCondition, infrav1.QuarantinedReason)
	if got := target.getHost("sick").Spec.Quarantine; got == nil || got.Reason != quarantine.Reason || !got.Since.Equal(&quarantine.Since) {
		t.Errorf("the quarantine became %+v", got)
	}
	for name, want := range map[string]struct{ bootstraps, cleanUps int }{"claimed": {1, 0}, "free": {1, 0}, "sick": {0, 0}, "late": {1, 1}} {
		if h := source.fleet.edit(name, nil); h.bootstraps != want.bootstraps || h.cleanUps != want.cleanUps {
			t.Errorf("%s was bootstrapped %d times and cleaned %d times", name, h.bootstraps, h.cleanUps)
		}
	}
	source.expectEmpty()

	target.delete(&infrav1.IDCMachine{}, "worker-1")
	target.eventually("the machine is gone", func() bool { return target.gone(&infrav1.IDCMachine{}, "worker-1") })
	says(target, &infrav1.IDCHost{}, "claimed", infrav1.AvailableCondition, infrav1.FreeReason)
}

// newTarget is the same data centre, as yet without hosts, in a management cluster of its own.
func newTarget(t *testing.T, source *site) *site {
	t.Helper()
	second, err := envtest.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := grant(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	target := &site{Environment: second, t: t, namespace: source.namespace, fleet: source.fleet, hostClient: source.hostClient}
	target.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: source.namespace}})
	return target
}

// settleForMove adds a host in each state that a move may meet, and what clusterctl asks for before it moves.
func (s *site) settleForMove() {
	s.t.Helper()
	infra := &infrav1.IDCCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "blue", Labels: map[string]string{clusterv1.ClusterNameLabel: "blue"}}}
	infra.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(get[clusterv1.Cluster](s, "blue"), clusterv1.GroupVersion.WithKind("Cluster"))}
	s.create(infra)
	s.host("claimed", nil)
	s.machine("worker-1", nil)
	s.ready("worker-1")
	s.host("free", nil)
	s.host("sick", func(h *infrav1.IDCHost) {
		h.Spec.Quarantine = &infrav1.HostQuarantine{Reason: "broken fan", Since: metav1.Now().Rfc3339Copy()}
	})
	// A machine went while this host was away; it is back, and its clean-up is under way.
	s.fleet.edit("late", func(h *machineHost) { h.machine, h.slow = "gone", true })
	s.host("late", func(h *infrav1.IDCHost) {
		h.Spec.Quarantine = &infrav1.HostQuarantine{Reason: "no route", Since: metav1.Now(), InstanceID: "gone"}
	})
	s.eventually("a clean-up is under way", func() bool { return s.fleet.edit("late", nil).under > 0 })
	says(s, &infrav1.IDCHost{}, "free", infrav1.AvailableCondition, infrav1.FreeReason)
	says(s, &infrav1.IDCHost{}, "sick", infrav1.AvailableCondition, infrav1.QuarantinedReason)

	cluster := get[clusterv1.Cluster](s, "blue")
	cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	conditions.Set(cluster, metav1.Condition{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.ClusterControlPlaneInitializedReason})
	machine := get[clusterv1.Machine](s, "worker-1")
	machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: "worker-1"}
	for _, object := range []client.Object{cluster, machine} {
		if err := s.Client.Status().Update(s.t.Context(), object); err != nil {
			s.t.Fatal(err)
		}
	}
}

// moveTo is "clusterctl move". The hook sees every object before it is created in the target.
func (s *site) moveTo(target *site, hook func(*unstructured.Unstructured) error) error {
	s.t.Helper()
	dir := s.t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			s.t.Fatal(err)
		}
		return path
	}
	for _, site := range []*site{s, target} {
		site.labelDefinitions()
	}
	mover, err := clusterctl.New(s.t.Context(), file("clusterctl.yaml", nil))
	if err != nil {
		s.t.Fatal(err)
	}
	return mover.Move(s.t.Context(), clusterctl.MoveOptions{
		FromKubeconfig:               clusterctl.Kubeconfig{Path: file("source", s.Kubeconfig)},
		ToKubeconfig:                 clusterctl.Kubeconfig{Path: file("target", target.Kubeconfig)},
		Namespace:                    s.namespace,
		ExperimentalResourceMutators: []clusterctlcluster.ResourceMutatorFunc{hook},
	})
}

// labelDefinitions marks the definitions as "clusterctl init" does.
func (s *site) labelDefinitions() {
	s.t.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		s.t.Fatal(err)
	}
	c, err := client.New(s.Config, client.Options{Scheme: scheme})
	if err != nil {
		s.t.Fatal(err)
	}
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := c.List(s.t.Context(), list); err != nil {
		s.t.Fatal(err)
	}
	for i := range list.Items {
		definition := &list.Items[i]
		before := definition.DeepCopy()
		metav1.SetMetaDataLabel(&definition.ObjectMeta, clusterctlv1.ClusterctlLabel, "")
		if err := c.Patch(s.t.Context(), definition, client.MergeFrom(before)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// expectEmpty checks that nothing of what was moved is left, the Secret with the hosts' key included.
func (s *site) expectEmpty() {
	s.t.Helper()
	for _, list := range []client.ObjectList{
		&infrav1.IDCHostList{}, &infrav1.IDCMachineList{}, &infrav1.IDCClusterList{}, &clusterv1.MachineList{}, &clusterv1.ClusterList{}, &corev1.SecretList{},
	} {
		if err := s.Client.List(s.t.Context(), list, client.InNamespace(s.namespace)); err != nil {
			s.t.Fatal(err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, object := range objects {
			s.t.Errorf("%T stays in the source: %s", object, object.(client.Object).GetName())
		}
	}
}

// What clusterctl moved goes from the source with its finalizers taken away. Caches may tell of the Cluster's end first.
func TestTheSourceOfAMoveLeavesItsHostsAlone(t *testing.T) {
	s := newSite(t)
	s.host("host-1", nil)
	s.machine("worker-1", nil)
	s.fleet.edit("host-2", func(h *machineHost) { h.machine = "gone" })
	s.host("host-2", func(h *infrav1.IDCHost) {
		h.Spec.Quarantine = &infrav1.HostQuarantine{Reason: "no route", Since: metav1.Now(), InstanceID: "gone"}
		h.Finalizers = []string{infrav1.IDCHostFinalizer}
	})
	s.fleet.edit("host-2", func(h *machineHost) { h.reach = &ssh.Error{Reason: ssh.Away, Err: errors.New("no route")} })
	s.run(&mortal{writesLeft: 1000})
	s.fleet.edit("host-2", func(h *machineHost) { h.reach = nil })
	moved := map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	edit(s, "worker-1", func(m *infrav1.IDCMachine) { m.Annotations = moved })
	edit(s, "host-2", func(h *infrav1.IDCHost) { h.Annotations = moved })
	s.delete(&infrav1.IDCMachine{}, "worker-1")
	s.delete(&infrav1.IDCHost{}, "host-2")
	s.delete(&clusterv1.Cluster{}, "blue")
	s.run(&mortal{writesLeft: 1000})
	for _, name := range []string{"host-1", "host-2"} {
		if h := s.fleet.edit(name, nil); h.cleanUps != 0 || h.machine == "" {
			t.Errorf("%s was cleaned", name)
		}
	}
	hosts := s.program(&mortal{}).hosts
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "blue"}}
	if got := len(hosts.clusterToHosts(t.Context(), cluster)); got != 2 {
		t.Errorf("the end of a Cluster wakes %d hosts", got)
	}
	cluster.Annotations = moved
	if got := hosts.clusterToHosts(t.Context(), cluster); len(got) > 0 {
		t.Errorf("the end of a Cluster that was moved wakes %v", got)
	}
	if s.getHost("host-1").Spec.Claim == nil || s.getHost("host-2").Spec.Quarantine == nil {
		t.Error("a host is given back")
	}
}

// staleHost is a client whose cache has an old IDCHost, until it is read for the first time.
type staleHost struct {
	client.Client
	host *infrav1.IDCHost
}

func (c *staleHost) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if host, ok := object.(*infrav1.IDCHost); ok && c.host != nil {
		c.host.DeepCopyInto(host)
		c.host = nil
		return nil
	}
	return c.Client.Get(ctx, key, object, options...)
}

// clusterctl deletes the Clusters and the hosts of a namespace in any order, and may end between two of them. Meanwhile the
// target gives the hosts away.
func TestAHostIsNotCleanedOnceTheClusterThatPausedItIsGone(t *testing.T) {
	s := newSite(t)
	s.fleet.edit("late", func(h *machineHost) { h.machine = "gone" })
	edit(s, "blue", func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) })
	s.host("late", func(h *infrav1.IDCHost) {
		h.Spec.Quarantine = &infrav1.HostQuarantine{Reason: "no route", Since: metav1.Now(), InstanceID: "gone"}
	})
	unpaused := s.getHost("late")
	unpaused.Status.Conditions = []metav1.Condition{{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason, ObservedGeneration: unpaused.Generation, LastTransitionTime: metav1.Now()}}
	s.run(&mortal{writesLeft: 1000})
	cleanUps := func() int { return s.fleet.edit("late", nil).cleanUps }
	says(s, &infrav1.IDCHost{}, "late", clusterv1.PausedCondition, clusterv1.PausedReason)
	s.delete(&clusterv1.Cluster{}, "blue")
	s.run(&mortal{writesLeft: 1000})
	if cleanUps() > 0 {
		t.Fatal("the source cleans it before clusterctl deletes it")
	}

	p := s.program(&mortal{writesLeft: 1000})
	p.hosts.Client = &staleHost{p.hosts.Client, unpaused}
	if _, err := p.hosts.Reconcile(t.Context(), requestFor(unpaused)); err != nil || cleanUps() > 0 {
		t.Errorf("it is cleaned %d times while the cache lacks the Paused condition: %v", cleanUps(), err)
	}

	moved := s.getHost("late")
	moved.Status.Conditions = unpaused.Status.Conditions
	if err := s.Client.Status().Update(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	edit(s, "late", func(h *infrav1.IDCHost) { h.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""} })
	p.hosts.Client = &staleHost{p.hosts.Client, unpaused}
	if _, err := p.hosts.Reconcile(t.Context(), requestFor(unpaused)); err != nil || cleanUps() > 0 {
		t.Errorf("it is cleaned %d times while the cache lacks the annotation: %v", cleanUps(), err)
	}

	edit(s, "late", func(h *infrav1.IDCHost) { h.Annotations = nil })
	s.cluster("green")
	s.run(&mortal{writesLeft: 1000})
	if cleanUps() != 1 {
		t.Errorf("it is cleaned %d times once there is a Cluster that is not paused", cleanUps())
	}
}

// A pause of the host itself ends with its annotation, also where there is no Cluster.
func TestAHostThatAPersonPausedIsCleanedAfterwards(t *testing.T) {
	s := newSite(t)
	s.delete(&clusterv1.Cluster{}, "blue")
	s.fleet.edit("late", func(h *machineHost) { h.machine = "gone" })
	s.host("late", func(h *infrav1.IDCHost) {
		h.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		h.Spec.Quarantine = &infrav1.HostQuarantine{Reason: "no route", Since: metav1.Now(), InstanceID: "gone"}
	})
	s.run(&mortal{writesLeft: 1000})
	says(s, &infrav1.IDCHost{}, "late", clusterv1.PausedCondition, clusterv1.PausedReason)
	edit(s, "late", func(h *infrav1.IDCHost) { h.Annotations = nil })
	s.run(&mortal{writesLeft: 1000})
	if h := s.fleet.edit("late", nil); h.cleanUps != 1 {
		t.Errorf("it is cleaned %d times", h.cleanUps)
	}
}

// What a move does not take along is learnt from the host.
func TestAMachineThatRunsIsReadyWithoutStatusAndBootstrapData(t *testing.T) {
	s := newSite(t)
	s.host("host-1", nil)
	s.machine("worker-1", nil)
	s.run(&mortal{writesLeft: 1000})
	s.ready("worker-1")
	machine := s.getMachine("worker-1")
	machine.Status = infrav1.IDCMachineStatus{}
	if err := s.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	s.delete(&corev1.Secret{}, "worker-1")
	s.run(&mortal{writesLeft: 1000})
	s.ready("worker-1")

	s.host("host-2", nil)
	s.machine("worker-2", nil)
	s.delete(&corev1.Secret{}, "worker-2")
	s.run(&mortal{writesLeft: 1000})
	says(s, &infrav1.IDCMachine{}, "worker-2", infrav1.BootstrappedCondition, infrav1.BootstrapDataInvalidReason,
		"Secret worker-2 with the bootstrap data of Machine worker-2 is not there; delete the Machine")
	if h := s.fleet.edit("host-2", nil); h.bootstraps > 0 {
		t.Error("its host is worked on")
	}
}
