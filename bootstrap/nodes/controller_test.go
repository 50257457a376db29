package nodes

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

var now = time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)

// silent is a Node whose Machine is gone and whose kubelet has not been heard of for an hour.
func silent() *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
	node.Spec.ProviderID = "idc://team/host-1/a"
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
	return node
}

// next is the Machine that has the host now.
func next() *clusterv1.Machine {
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "worker-2", Labels: map[string]string{clusterv1.ClusterNameLabel: "blue"}}}
	machine.Spec.ClusterName, machine.Spec.ProviderID = "blue", "idc://team/host-1/b"
	machine.Spec.InfrastructureRef.Name, machine.Status.NodeRef.Name = "worker-2", "worker-2"
	return machine
}

func blue() *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "IDCCluster", Name: "blue"}
	return cluster
}

func TestANodeIsAnOrphan(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*corev1.Node, *clusterv1.Machine)
		want bool
	}{
		"when its host has another Machine":             {func(*corev1.Node, *clusterv1.Machine) {}, true},
		"not when a Machine has its provider ID":        {func(_ *corev1.Node, m *clusterv1.Machine) { m.Spec.ProviderID = "idc://team/host-1/a" }, false},
		"not when a Machine refers to it":               {func(_ *corev1.Node, m *clusterv1.Machine) { m.Status.NodeRef.Name = "worker-1" }, false},
		"not when it may be joining":                    {func(_ *corev1.Node, m *clusterv1.Machine) { m.Spec.InfrastructureRef.Name = "worker-1" }, false},
		"not when a Machine has its name":               {func(_ *corev1.Node, m *clusterv1.Machine) { m.Name = "worker-1" }, false},
		"not of another infrastructure":                 {func(n *corev1.Node, _ *clusterv1.Machine) { n.Spec.ProviderID = "aws:///zone/i-1" }, false},
		"not without a provider ID":                     {func(n *corev1.Node, _ *clusterv1.Machine) { n.Spec.ProviderID = "" }, false},
		"not of another namespace":                      {func(n *corev1.Node, _ *clusterv1.Machine) { n.Spec.ProviderID = "idc://team-2/host-1/a" }, false},
		"not when its kubelet is heard of":              {func(n *corev1.Node, _ *clusterv1.Machine) { n.Status.Conditions[0].Status = corev1.ConditionTrue }, false},
		"not when its kubelet says that it is not well": {func(n *corev1.Node, _ *clusterv1.Machine) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, false},
		"not when its kubelet never said anything":      {func(n *corev1.Node, _ *clusterv1.Machine) { n.Status.Conditions = nil }, false},
		"not when its kubelet fell silent just now": {func(n *corev1.Node, _ *clusterv1.Machine) {
			n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-silence + time.Second))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			node, machine := silent(), next()
			test.edit(node, machine)
			if got := Orphaned(node, "team", []clusterv1.Machine{*machine}, now); got != test.want {
				t.Errorf("it is %t", got)
			}
		})
	}
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func TestNodesAreKeptInStepWithMachines(t *testing.T) {
	for name, test := range map[string]struct {
		cluster func(*clusterv1.Cluster)
		// stored is a Machine that the cache does not know yet.
		stored *clusterv1.Machine
		// returns lets kubelet be heard of again just before the deletion.
		returns bool
		// gone has the Machine of the lost Node gone, which the cache does not know yet.
		gone    bool
		deleted bool
		// made is whether a Node is made anew that a Machine has lost.
		made  bool
		again bool
	}{
		"an orphan is deleted, and a lost one made anew":         {cluster: func(*clusterv1.Cluster) {}, deleted: true, made: true, again: true},
		"one whose Machine a cache does not know is not deleted": {cluster: func(*clusterv1.Cluster) {}, stored: machineOf("worker-1"), made: true, again: true},
		"one that is heard of again is not deleted":              {cluster: func(*clusterv1.Cluster) {}, returns: true, made: true, again: true},
		"one whose Machine is gone is not made anew":             {cluster: func(*clusterv1.Cluster) {}, gone: true, deleted: true, again: true},
		"none of a paused Cluster":                               {cluster: func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }},
		"none of another infrastructure":                         {cluster: func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.Kind = "DockerCluster" }},
		"none of a Cluster that is being deleted": {cluster: func(c *clusterv1.Cluster) {
			c.Finalizers, c.DeletionTimestamp = []string{"a"}, ptr.To(metav1.NewTime(now))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			scheme, cluster := newScheme(t), blue()
			test.cluster(cluster)
			well := silent()
			well.Name, well.Status.Conditions[0].Status = "worker-3", corev1.ConditionTrue
			inner := fake.NewClientBuilder().WithScheme(scheme).WithObjects(silent(), well).WithStatusSubresource(&corev1.Node{}).Build()
			tenant := interceptor.NewClient(inner, interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
					if test.returns {
						heard := silent()
						if err := c.Get(ctx, client.ObjectKeyFromObject(heard), heard); err != nil {
							return err
						}
						heard.Status.Conditions[0].Status = corev1.ConditionTrue
						if err := c.Status().Update(ctx, heard); err != nil {
							return err
						}
					}
					return deleteAsPreconditionsSay(ctx, c, object, options)
				},
			})
			stored := fake.NewClientBuilder().WithScheme(scheme)
			if !test.gone {
				stored = stored.WithObjects(next())
			}
			if test.stored != nil {
				stored = stored.WithObjects(test.stored)
			}
			r := &Reconciler{
				Client:    fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster, next()).Build(),
				APIReader: stored.Build(), Clock: clocktesting.NewFakePassiveClock(now),
				Tenants: clustercache.NewFakeClusterCache(tenant, client.ObjectKeyFromObject(cluster)), Guard: (&tenantapi.Guards{}).Of,
			}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(cluster)})
			if err != nil || (result.RequeueAfter > 0) != test.again {
				t.Errorf("%+v, %v", result, err)
			}
			for name, gone := range map[string]bool{"worker-1": test.deleted, "worker-2": !test.made, "worker-3": false} {
				if err := inner.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Node{}); apierrors.IsNotFound(err) != gone {
					t.Errorf("Node %s: %v", name, err)
				}
			}
		})
	}
}

func machineOf(node string) *clusterv1.Machine {
	machine := next()
	machine.Name, machine.Status.NodeRef.Name = "late", node
	return machine
}

// deleteAsPreconditionsSay refuses, as an API server does and the fake client does not, to delete another version.
func deleteAsPreconditionsSay(ctx context.Context, c client.Client, object client.Object, options []client.DeleteOption) error {
	asked := (&client.DeleteOptions{}).ApplyOptions(options)
	live := &corev1.Node{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
		return err
	}
	if asked.Preconditions == nil || asked.Preconditions.ResourceVersion == nil || *asked.Preconditions.ResourceVersion == live.ResourceVersion {
		return c.Delete(ctx, object)
	}
	return apierrors.NewConflict(corev1.Resource("nodes"), object.GetName(), nil)
}

func TestATenantThatIsAwayIsLeftToItsConnection(t *testing.T) {
	r := &Reconciler{
		Client:  fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(blue()).Build(),
		Tenants: clustercache.NewFakeEmptyClusterCache(), Clock: clocktesting.NewFakePassiveClock(now),
	}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(blue())})
	if err != nil || result.RequeueAfter != 0 {
		t.Errorf("%+v, %v", result, err)
	}
}
