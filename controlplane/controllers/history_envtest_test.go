//go:build envtest

package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/history"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
)

// specs lists the revisions of spec, from the oldest to the newest.
func (tt *tenantTest) specs() []appsv1.ControllerRevision {
	tt.t.Helper()
	all, err := history.List(tt.t.Context(), environment.Client, tt.cluster)
	if err != nil {
		tt.t.Fatal(err)
	}
	return all
}

func specNames(all []appsv1.ControllerRevision) (found []string) {
	for i := range all {
		found = append(found, all[i].Name)
	}
	return found
}

// newestSpec is the newest revision of spec, and what it holds.
func (tt *tenantTest) newestSpec() (string, *history.Content) {
	tt.t.Helper()
	all := tt.specs()
	if len(all) == 0 {
		tt.t.Fatal("no spec is recorded")
	}
	newest := &all[len(all)-1]
	content, err := history.Read(newest)
	if err != nil {
		tt.t.Fatal(err)
	}
	return newest.Name, content
}

// comesFrom is the revision of spec that the newest rendering of a component names.
func (tt *tenantTest) comesFrom(component string) string {
	tt.t.Helper()
	stored, err := revision.Read(tt.newestOf(component))
	if err != nil {
		tt.t.Fatal(err)
	}
	return stored.Spec
}

// argue sets an argument of kube-scheduler, so that it takes a new rendering.
func (tt *tenantTest) argue(level string) {
	tt.t.Helper()
	edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
		c.Spec.KubeScheduler.ExtraArgs = []controlplanev1.Arg{{Name: "v", Value: ptr.To(level)}}
	})
}

func TestAChangeOfSpecIsRecordedWithItsWayBack(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, small)
	tt.settle()
	name, first := tt.newestSpec()
	if name != "blue-spec-1" || len(first.Changed) > 0 || len(first.WayBack) > 0 || first.Version != "v1.36.3" || !slices.Equal(first.By, []string{"controllers.test"}) {
		t.Errorf("%s is %+v", name, first)
	}
	for _, component := range []string{names.EtcdData, names.KubeAPIServer, names.KubeScheduler, names.Services} {
		if from := tt.comesFrom(component); from != "blue-spec-1" {
			t.Errorf("the rendering of %s comes from %q", component, from)
		}
	}
	before := tt.controlPlane().Spec

	tt.argue("4")
	tt.settle()
	name, second := tt.newestSpec()
	if name != "blue-spec-2" || !slices.Equal(second.Changed, []string{"spec.kubeScheduler.extraArgs"}) || !slices.Equal(second.By, []string{"kubectl-edit"}) {
		t.Errorf("%s is %+v", name, second)
	}
	if scheduler, etcd := tt.comesFrom(names.KubeScheduler), tt.comesFrom(names.EtcdData); scheduler != "blue-spec-2" || etcd != "blue-spec-1" {
		t.Errorf("the rendering of kube-scheduler comes from %s, and that of etcd-data from %s", scheduler, etcd)
	}

	// As kubectl patch --type json does it with what kubectl get prints.
	back, err := json.Marshal(second.WayBack)
	if err != nil {
		t.Fatal(err)
	}
	if err := environment.Client.Patch(t.Context(), tt.controlPlane(), client.RawPatch(types.JSONPatchType, back), client.FieldOwner("kubectl-patch")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, tt.controlPlane().Spec); diff != "" {
		t.Errorf("the way back leads elsewhere (-before +after):\n%s", diff)
	}
	tt.settle()
	if name, third := tt.newestSpec(); name != "blue-spec-3" || third.Hash != first.Hash {
		t.Errorf("the third is %s: %+v", name, third)
	}
}

func TestWithATopologyThereIsNoWayBack(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, single)
	edit(t, tt.cluster, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) {
		c.Spec.Topology.ClassRef.Name, c.Spec.Topology.Version = "kok", "v1.36.3"
	})
	tt.settle()
	tt.argue("4")
	tt.settle()
	if name, second := tt.newestSpec(); name != "blue-spec-2" || len(second.Changed) != 1 || len(second.WayBack) > 0 {
		t.Errorf("%s is %+v", name, second)
	}
}

// Renderings tell which number it had.
func TestTheOnlyRevisionOfSpecComesBack(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, single)
	tt.settle()
	for what, remove := range map[string]func(){
		"its labels": func() {
			edit(t, tt.inNamespace("blue-spec-1"), &appsv1.ControllerRevision{}, func(r *appsv1.ControllerRevision) { r.Labels = nil })
		},
		"all of it": func() { tt.delete(&tt.specs()[0]) },
	} {
		remove()
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
		if got := specNames(tt.specs()); !slices.Equal(got, []string{"blue-spec-1"}) {
			t.Errorf("after somebody took away %s there are %v", what, got)
		}
	}
}

// The numbers of an autoscaler are no history, and neither is what the manager writes.
func TestNumbersOfAnAutoscalerAreNotRecorded(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		onPodNetwork(controlplanev1.ExposureLoadBalancer, controlplanev1.APIServerDeployment)(c)
		c.Spec.Replicas = ptr.To[int32](1)
	})
	tt.settle()
	tt.editSpec(func(spec *controlplanev1.KOKControlPlaneSpec) { spec.Replicas = ptr.To[int32](2) })
	if got := specNames(tt.specs()); !slices.Equal(got, []string{"blue-spec-1"}) {
		t.Errorf("recorded are %v", got)
	}
}

// A tenant of a release without history is recorded by the first reconcile of this one, which does nothing else.
func TestATenantOfAnOlderReleaseIsRecordedAndNothingElseHappens(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, small)
	tt.settle()
	tt.storeRevisions(func(stored *appsv1.ControllerRevision) bool {
		content := map[string]any{}
		if err := json.Unmarshal(stored.Data.Raw, &content); err != nil {
			t.Fatal(err)
		}
		delete(content, "spec")
		raw, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		stored.Data.Raw = raw
		return stored.Labels[revision.ComponentLabel] != history.Component
	})
	tt.start(&gate{})
	for range 3 {
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	want := []request{{method: "POST", path: fmt.Sprintf("/apis/apps/v1/namespaces/%s/controllerrevisions", tt.key.Namespace), query: "fieldManager=" + names.FieldManager}}
	if diff := cmp.Diff(want, tt.program.gate.takeWrites(), cmp.AllowUnexported(request{})); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if name, first := tt.newestSpec(); name != "blue-spec-1" || len(first.WayBack) > 0 {
		t.Errorf("%s is %+v", name, first)
	}
}

// Every change is recorded once, with its own fields, and ten are left, whatever the program is killed after.
func TestHistorySurvivesFaults(t *testing.T) {
	withFaults(t, func(t *testing.T) *tenantTest { return newTenantTest(t, single) }, func(tt *tenantTest) {
		tt.settleThroughFaults()
		for n := range 12 {
			tt.argue(fmt.Sprint(n))
			tt.settleThroughFaults()
			if name, newest := tt.newestSpec(); name != fmt.Sprintf("blue-spec-%d", n+2) || len(newest.Changed) != 1 || len(newest.WayBack) != 1 {
				tt.t.Errorf("change %d is recorded as %s: %+v", n+1, name, newest)
			}
			if from, want := tt.comesFrom(names.KubeScheduler), fmt.Sprintf("blue-spec-%d", n+2); from != want {
				tt.t.Errorf("the rendering of kube-scheduler comes from %s, want %s", from, want)
			}
		}
		if got := specNames(tt.specs()); len(got) != history.Limit || got[0] != "blue-spec-4" || got[9] != "blue-spec-13" {
			tt.t.Errorf("there are left %v", got)
		}
	})
}

var errNoRoom = errors.New("exceeded quota")

// onSpecs has a function decide on each creation of a revision of spec.
func onSpecs(c client.Client, create func() error) client.Client {
	return intercept(c, interceptor.Funcs{Create: func(ctx context.Context, inner client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if object.GetLabels()[revision.ComponentLabel] == history.Component {
			if err := create(); err != nil {
				return err
			}
		}
		return inner.Create(ctx, object, options...)
	}})
}

func TestNoComponentTakesAChangeThatIsNotRecorded(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, small)
	tt.settle()
	inner := tt.program.Client
	tt.program.Client = onSpecs(inner, func() error { return errNoRoom })
	tt.argue("4")
	scheduler := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: "blue-kube-scheduler"}}
	tt.delete(scheduler)
	for range 3 {
		if err := tt.reconcile(); !errors.Is(err, errNoRoom) {
			t.Fatalf("it ended with %v", err)
		}
	}
	if newest := tt.newestOf(names.KubeScheduler); newest.Revision != 1 {
		t.Errorf("kube-scheduler took revision %d", newest.Revision)
	}
	if err := environment.Client.Get(t.Context(), client.ObjectKeyFromObject(scheduler), scheduler); err != nil {
		t.Errorf("kube-scheduler is not repaired meanwhile: %v", err)
	}
	if reconciled := conditions.Get(tt.controlPlane(), conditionsv1.ReconciledCondition); reconciled == nil || reconciled.Status != metav1.ConditionFalse || !strings.Contains(reconciled.Message, "exceeded quota") {
		t.Errorf("Reconciled is %+v", reconciled)
	}
	tt.program.Client = inner
	tt.settle()
	if from := tt.comesFrom(names.KubeScheduler); from != "blue-spec-2" {
		t.Errorf("the rendering comes from %s", from)
	}
}

// lateCache is a cache that does not show the revisions of spec after a number.
func lateCache(c client.Client, after int64) client.Client {
	return intercept(c, interceptor.Funcs{List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		err := inner.List(ctx, list, options...)
		if revisions, ok := list.(*appsv1.ControllerRevisionList); ok {
			revisions.Items = slices.DeleteFunc(revisions.Items, func(r appsv1.ControllerRevision) bool {
				return r.Labels[revision.ComponentLabel] == history.Component && r.Revision > after
			})
		}
		return err
	}})
}

func TestALateCacheMakesNoRevisionTwice(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, small)
	tt.settle()
	tt.argue("4")
	tt.settle()
	inner := tt.program.Host.Client
	tt.program.Host.Client = lateCache(inner, 1)

	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := specNames(tt.specs()); !slices.Equal(got, []string{"blue-spec-1", "blue-spec-2"}) {
		t.Errorf("the same spec is recorded as %v", got)
	}
	tt.argue("5")
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	if newest := tt.newestOf(names.KubeScheduler); newest.Revision != 2 {
		t.Errorf("kube-scheduler took revision %d, and its spec is not recorded", newest.Revision)
	}
	tt.program.Host.Client = inner
	tt.settle()
	if got := specNames(tt.specs()); !slices.Equal(got, []string{"blue-spec-1", "blue-spec-2", "blue-spec-3"}) || tt.comesFrom(names.KubeScheduler) != "blue-spec-3" {
		t.Errorf("recorded are %v, and the rendering comes from %s", got, tt.comesFrom(names.KubeScheduler))
	}
}

func TestARevisionOfSomebodyElseIsNotTakenForOnesOwn(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, small)
	tt.settle()
	other := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Namespace: tt.key.Namespace, Name: "blue-spec-2", Labels: history.Labels(tt.cluster),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: controlplanev1.GroupVersion.String(), Kind: "KOKControlPlane", Name: tt.key.Name, UID: "former", Controller: ptr.To(true)}},
	}, Revision: 2}
	other.Data.Raw = []byte(`{"hash":"a"}`)
	if err := environment.Client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	tt.argue("4")
	for range 3 {
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	reconciled := conditions.Get(tt.controlPlane(), conditionsv1.ReconciledCondition)
	if newest := tt.newestOf(names.KubeScheduler); newest.Revision != 1 || reconciled == nil || !strings.Contains(reconciled.Message, "blue-spec-2 is of somebody else: delete it") {
		t.Errorf("kube-scheduler has revision %d, and Reconciled is %+v", newest.Revision, reconciled)
	}
	tt.delete(other)
	tt.settle()
	if name, second := tt.newestSpec(); name != "blue-spec-2" || len(second.WayBack) != 1 || tt.comesFrom(names.KubeScheduler) != name {
		t.Errorf("%s is %+v", name, second)
	}
}
