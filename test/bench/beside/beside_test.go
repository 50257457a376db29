package beside

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// cluster is a Cluster whose condition Available has a status; with none it has no condition.
func cluster(namespace, name string, available metav1.ConditionStatus) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if available != "" {
		c.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterAvailableCondition, Status: available, Message: "* it\n  * starts"}}
	}
	return c
}

func deleted(c *clusterv1.Cluster) *clusterv1.Cluster {
	c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: time.Now()}, []string{clusterv1.ClusterFinalizer}
	return c
}

func machine(namespace, name, cluster string) *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: clusterv1.MachineSpec{ClusterName: cluster}}
}

func reader(objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(scheme.Scheme()).WithObjects(objects...).Build()
}

func TestOneLineNamesWhatRunsBeside(t *testing.T) {
	lab := []*host.Host{{Name: "cloud-1"}, {Name: "idc-1"}}
	workers := slices.Concat(lab, []*host.Host{{Name: "worker-1"}, {Name: "worker-2"}})
	for name, test := range map[string]struct {
		hosts   []*host.Host
		objects []client.Object
		want    string
	}{
		"nothing in a new lab": {lab, nil, "no tenant; no host for workers"},
		"the quickstart's tenant with its workers": {workers,
			[]client.Object{cluster("default", "quickstart", "True"), machine("default", "a", "quickstart"), machine("default", "b", "quickstart"), machine("team", "c", "quickstart")},
			"tenant default/quickstart (available, 2 workers); hosts for workers: worker-1, worker-2"},
		"the hosts that its deletion leaves": {workers, nil, "no tenant; hosts for workers: worker-1, worker-2"},
		"the tenant of a quickstart that was interrupted": {workers, []client.Object{cluster("default", "quickstart", "")},
			"tenant default/quickstart (not available, 0 workers); hosts for workers: worker-1, worker-2"},
		"a tenant that goes": {lab, []client.Object{deleted(cluster("default", "quickstart", "False"))},
			"tenant default/quickstart (being deleted, 0 workers); no host for workers"},
		"but not what the benchmark itself has": {lab, []client.Object{cluster("own", "ha-1", "True"), cluster("team", "blue", "True")},
			"tenant team/blue (available, 0 workers); no host for workers"},
	} {
		t.Run(name, func(t *testing.T) {
			others, err := Find(t.Context(), reader(test.objects...), test.hosts, "own")
			if err != nil {
				t.Fatal(err)
			}
			if got := others.String(); got != test.want {
				t.Errorf("the line is %q, want %q", got, test.want)
			}
		})
	}
}

func TestATenantIsWorseOffOnlyWhenTheBenchmarkLeavesItUnavailable(t *testing.T) {
	for name, test := range map[string]struct {
		before, now *clusterv1.Cluster
		worse       bool
	}{
		"it stays available":                         {cluster("a", "a", "True"), cluster("a", "a", "True"), false},
		"it is not available any more":               {cluster("a", "a", "True"), cluster("a", "a", "False"), true},
		"nobody knows":                               {cluster("a", "a", "True"), cluster("a", "a", "Unknown"), true},
		"it was not before":                          {cluster("a", "a", "False"), cluster("a", "a", "False"), false},
		"somebody deletes it":                        {cluster("a", "a", "True"), deleted(cluster("a", "a", "False")), false},
		"somebody made another that is not ready":    {cluster("a", "a", "True"), cluster("a", "b", "False"), false},
		"a tenant of another namespace is not ready": {cluster("a", "a", "True"), cluster("b", "a", "False"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := worse([]Tenant{tenantOf(test.before, 0)}, []Tenant{tenantOf(test.now, 0)}); (len(got) > 0) != test.worse {
				t.Errorf("worse off are %v", got)
			}
		})
	}
}

func TestTheWaitForOthersSaysWhichOneIsMissingAndWhy(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	quickstart := cluster("default", "quickstart", "True")
	lab := reader(quickstart)
	before, err := Find(ctx, lab, nil, "own")
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Recovered(ctx); err != nil {
		t.Errorf("it is as before: %v", err)
	}
	quickstart.Status = cluster("default", "quickstart", "False").Status
	if err := lab.Update(ctx, quickstart); err != nil {
		t.Fatal(err)
	}
	cancel()
	err = before.Recovered(ctx)
	if err == nil || !strings.Contains(err.Error(), "tenant default/quickstart was available before and is not now: * it * starts\n") {
		t.Errorf("the error is %v", err)
	}
}

func TestALabWithoutClusterAPIHasNoTenant(t *testing.T) {
	none := interceptor.NewClient(reader(), interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: clusterv1.ClusterKind}}
	}})
	others, err := Find(t.Context(), none, nil, "")
	if err != nil || others.String() != "no tenant; no host for workers" {
		t.Errorf("%v, %v", others, err)
	}
}
