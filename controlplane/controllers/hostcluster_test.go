package controllers

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator/operatortest"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
)

// rightsIn are the rights of a role as "verb group/resource".
func rightsIn(t *testing.T, file string) sets.Set[string] {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(string(raw), "---\n")), role); err != nil {
		t.Fatal(err)
	}
	rights := sets.New[string]()
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights.Insert(verb + " " + group + "/" + resource)
				}
			}
		}
	}
	return rights
}

func TestAnotherHostClusterGivesTheRightsThatTheManagerHasInItsOwn(t *testing.T) {
	// Of these groups nothing is in a host cluster: Cluster API's objects, events about them, and who asks for metrics.
	management := []string{" cluster.x-k8s.io/", " controlplane.cluster.x-k8s.io/", " events.k8s.io/", " authentication.k8s.io/", " authorization.k8s.io/"}
	tenants, nodes := sets.New("get /namespaces", "get /pods/portforward", "create /pods/portforward", "create /serviceaccounts/token"), sets.New[string]()
	ports := sets.New("get /namespaces")
	for right := range rightsIn(t, "../../config/controlplane/rbac/role.yaml") {
		if strings.HasSuffix(right, " /configmaps") {
			ports.Insert(right)
		}
		switch {
		case slices.ContainsFunc(management, func(group string) bool { return strings.Contains(right, group) }):
		case strings.HasSuffix(right, " /nodes"), strings.HasSuffix(right, " /persistentvolumes"), strings.HasSuffix(right, "/storageclasses"):
			nodes.Insert(right)
		default:
			tenants.Insert(right)
		}
	}
	for file, want := range map[string]sets.Set[string]{"tenants_role.yaml": tenants, "ports_role.yaml": ports, "nodes_role.yaml": nodes} {
		got := rightsIn(t, "../../config/host-cluster/"+file)
		if missing, more := sets.List(want.Difference(got)), sets.List(got.Difference(want)); len(missing)+len(more) > 0 {
			t.Errorf("%s lacks %v and has %v too many", file, missing, more)
		}
	}
}

func elsewhere(edit func(*clusterv1.Cluster, *controlplanev1.KOKControlPlane)) (*clusterv1.Cluster, *controlplanev1.KOKControlPlane) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue"}}
	controlPlane := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue-control-plane"}}
	controlPlane.Spec.Hosting.KubeconfigRef.Name = "host"
	edit(cluster, controlPlane)
	return cluster, controlPlane
}

// forgotten notes whose probes are forgotten.
type forgotten struct{ objects []client.ObjectKey }

func (*forgotten) Probe(probe.Key, probe.Probe) (probe.Result, bool) { return probe.Result{}, false }
func (*forgotten) Withdraw(probe.Key)                                {}
func (f *forgotten) Forget(object client.ObjectKey)                  { f.objects = append(f.objects, object) }

func TestWithoutItsHostClusterAControlPlane(t *testing.T) {
	connecting := &hostclusters.Problem{Reason: conditionsv1.HostClusterConnectingReason, Message: "connecting"}
	away := &hostclusters.Problem{Reason: conditionsv1.HostClusterUnreachableReason, Message: "no answer"}
	for name, test := range map[string]struct {
		problem *hostclusters.Problem
		settled bool
		// status of Available afterwards.
		want metav1.ConditionStatus
	}{
		"that is new says that it waits":                      {connecting, false, metav1.ConditionUnknown},
		"that was available stays so until it is connected":   {connecting, true, metav1.ConditionTrue},
		"that was available is unknown when the host is away": {away, true, metav1.ConditionUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			_, controlPlane := elsewhere(func(*clusterv1.Cluster, *controlplanev1.KOKControlPlane) {})
			if test.settled {
				for _, is := range []string{conditionsv1.AvailableCondition, conditionsv1.InitializedCondition} {
					conditions.Set(controlPlane, status.Condition(is, metav1.ConditionTrue, "Is"))
				}
			}
			probes := &forgotten{}
			tasks := operatortest.New()
			r := &Reconciler{prober: probes, etcdOperator: tasks}
			r.withoutHost(controlPlane, test.problem)
			available := conditions.Get(controlPlane, conditionsv1.AvailableCondition)
			if available == nil || available.Status != test.want {
				t.Errorf("available is %v", available)
			}
			if test.want == metav1.ConditionUnknown && (available.Reason != test.problem.Reason || available.Message != test.problem.Message) {
				t.Errorf("available says %v", available)
			}
			if len(probes.objects) != 1 || tasks.Forgotten != 1 {
				t.Error("work in the background that holds the old client goes on")
			}
		})
	}
}

// staysWhileAway are the conditions that stay as they are while the host cluster cannot be used, and why they may.
var staysWhileAway = map[string]string{
	clusterv1.PausedCondition:                   "it was set before, and tells of objects in the management cluster",
	conditionsv1.InitializedCondition:           "it never turns back",
	conditionsv1.CertificatesAvailableCondition: "nobody makes or removes keys and certificates meanwhile",
	conditionsv1.AddonsInstalledCondition:       "nobody installs or removes addons meanwhile",
	conditionsv1.EgressConfinedCondition:        "API servers run as they were rendered, and none is replaced meanwhile",
	conditionsv1.RollingOutCondition:            "a rollout stops where it is",
	conditionsv1.ScalingUpCondition:             "a change of the number stops where it is",
	conditionsv1.ScalingDownCondition:           "a change of the number stops where it is",
	conditionsv1.MovableCondition:               "it follows from spec",
	conditionsv1.DeletingCondition:              "a deletion has a path of its own, deleteWithoutHost",
}

// A condition that status.WithoutHost forgets would stay True although nobody sees what it tells of. CONTRIBUTING.md, "A new
// condition", promises that this test fails then.
func TestEveryConditionIsUnknownWithoutTheHostClusterOrHasAReasonToStay(t *testing.T) {
	_, controlPlane := elsewhere(func(*clusterv1.Cluster, *controlplanev1.KOKControlPlane) {})
	for _, owned := range status.Owned {
		conditions.Set(controlPlane, metav1.Condition{Type: owned, Status: metav1.ConditionTrue, Reason: "Before"})
	}
	r := &Reconciler{prober: &forgotten{}, etcdOperator: operatortest.New()}
	r.withoutHost(controlPlane, &hostclusters.Problem{Reason: conditionsv1.HostClusterUnreachableReason, Message: "no answer"})
	for _, owned := range status.Owned {
		stays := conditions.GetReason(controlPlane, owned) == "Before"
		switch why := staysWhileAway[owned]; {
		case stays && why == "":
			t.Errorf("%s stays True while the host cluster is away: set it in status.WithoutHost, or say in staysWhileAway why it still holds", owned)
		case !stays && why != "":
			t.Errorf("%s is set by status.WithoutHost: remove it from staysWhileAway", owned)
		}
	}
}

// askedHosts note for whom they are asked.
type askedHosts struct {
	awayHosts
	leaving bool
}

func (a *askedHosts) Of(ctx context.Context, controlPlane, secret client.ObjectKey, leaving bool) (*Host, error) {
	a.leaving = leaving
	return a.awayHosts.Of(ctx, controlPlane, secret, leaving)
}

func TestAControlPlaneLeavesWithItsClusterOrAlone(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		edit func(*clusterv1.Cluster, *controlplanev1.KOKControlPlane)
		want bool
	}{
		"it stays":                     {edit: func(*clusterv1.Cluster, *controlplanev1.KOKControlPlane) {}},
		"it is being deleted":          {want: true, edit: func(_ *clusterv1.Cluster, c *controlplanev1.KOKControlPlane) { c.DeletionTimestamp = &now }},
		"its Cluster is being deleted": {want: true, edit: func(cluster *clusterv1.Cluster, _ *controlplanev1.KOKControlPlane) { cluster.DeletionTimestamp = &now }},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, controlPlane := elsewhere(test.edit)
			hosts := &askedHosts{}
			r := &Reconciler{hosts: hosts}
			_, _ = r.hostOf(t.Context(), cluster, controlPlane)
			if hosts.leaving != test.want {
				t.Errorf("got %t", hosts.leaving)
			}
		})
	}
}

// awayHosts are host clusters that are all away.
type awayHosts struct{}

func (awayHosts) Of(context.Context, client.ObjectKey, client.ObjectKey, bool) (*Host, error) {
	return nil, &hostclusters.Problem{Reason: conditionsv1.HostClusterUnreachableReason, Message: "no answer"}
}
func (awayHosts) Release(client.ObjectKey) {}

func TestADeletionWithoutItsHostCluster(t *testing.T) {
	refused := errors.New("connection refused")
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue-ca", Labels: names.Labels(client.ObjectKey{Namespace: "team", Name: "blue"})}}
	for name, test := range map[string]struct {
		keys []client.Object
		err  error
		// held is whether it waits for the host cluster.
		held bool
	}{
		"ends when nothing was ever made":                       {},
		"waits when keys were made":                             {keys: []client.Object{key}, held: true},
		"waits while nobody can tell whether anything was made": {err: refused, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, controlPlane := elsewhere(func(cluster *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane) {
				controlPlane.Finalizers = []string{controlplanev1.KOKControlPlaneFinalizer}
				cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
					APIGroup: controlplanev1.GroupVersion.Group, Kind: "KOKControlPlane", Name: controlPlane.Name,
				}
			})
			management := fake.NewClientBuilder().WithObjects(test.keys...).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if test.err != nil {
						return test.err
					}
					return c.List(ctx, list, options...)
				},
			}).Build()
			r := &Reconciler{Host: &Host{Client: management, Live: management, Own: true}, hosts: awayHosts{}, prober: &forgotten{}, etcdOperator: operatortest.New()}
			_, err := r.deleter().Reconcile(t.Context(), cluster, controlPlane)
			if !errors.Is(err, test.err) {
				t.Errorf("got the error %v, want %v", err, test.err)
			}
			if held := controllerutil.ContainsFinalizer(controlPlane, controlplanev1.KOKControlPlaneFinalizer); held != test.held {
				t.Errorf("the finalizer is there: %t, want %t", held, test.held)
			}
		})
	}
}

func TestATenantRunsThatWasInitializedOrWhoseEtcdWasFounded(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*controlplanev1.KOKControlPlane)
		want bool
	}{
		"a new one does not": {edit: func(*controlplanev1.KOKControlPlane) {}},
		"one that founds its etcd does not": {edit: func(c *controlplanev1.KOKControlPlane) {
			c.Status.Etcd = []controlplanev1.EtcdClusterStatus{{Name: "data", Bootstrapped: new(false)}}
		}},
		"one that was initialized does": {want: true, edit: func(c *controlplanev1.KOKControlPlane) {
			conditions.Set(c, status.Condition(conditionsv1.InitializedCondition, metav1.ConditionTrue, "Is"))
		}},
		"one whose etcd was founded does": {want: true, edit: func(c *controlplanev1.KOKControlPlane) {
			c.Status.Etcd = []controlplanev1.EtcdClusterStatus{{Name: "data", Bootstrapped: new(true)}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, controlPlane := elsewhere(func(_ *clusterv1.Cluster, c *controlplanev1.KOKControlPlane) { test.edit(c) })
			if got := runs(controlPlane); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestAnInvalidControlPlaneIsLookedAtAgainWhenNothingWatchesItsHostCluster(t *testing.T) {
	_, there := elsewhere(func(*clusterv1.Cluster, *controlplanev1.KOKControlPlane) {})
	for controlPlane, want := range map[*controlplanev1.KOKControlPlane]time.Duration{there: settledInterval, {}: 0} {
		result, err := invalidSpec(t.Context(), controlPlane, errors.New("spec.version: v1.20 is not supported"))
		if err != nil || result.RequeueAfter != want {
			t.Errorf("got %v and the error %v, want %v", result, err, want)
		}
	}
}
