//go:build envtest

package apply

import (
	"context"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func TestARepairIsToldOnceWithWhomItConcerns(t *testing.T) {
	edited := func(manager string, change func(*appsv1.Deployment)) func(*testing.T, *appsv1.Deployment) {
		return func(t *testing.T, live *appsv1.Deployment) {
			change(live)
			if err := person.Update(t.Context(), live, client.FieldOwner(manager)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		happens func(*testing.T, *appsv1.Deployment)
		want    *Repair
	}{
		"nothing": {func(*testing.T, *appsv1.Deployment) {}, nil},
		"an edited field": {
			edited("kubectl-edit", func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](7) }), &Repair{Editors: []string{"kubectl-edit"}},
		},
		"an edited label": {
			edited("kubectl-label", func(d *appsv1.Deployment) { d.Labels[names.ManagedByLabel] = "me" }), &Repair{Editors: []string{"kubectl-label"}},
		},
		"a removed label, of which nobody is the owner": {edited("kubectl-label", func(d *appsv1.Deployment) { d.Labels = nil }), &Repair{}},
		"a deleted object": {func(t *testing.T, live *appsv1.Deployment) {
			if err := person.Delete(t.Context(), live); err != nil {
				t.Fatal(err)
			}
		}, &Repair{Deleted: true}},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := namespace(t)
			desired := pick[*appsv1.Deployment](t, rendered(t, variants(t)[0], namespace), scheduler)
			a := New(trimming{person}, person)
			apply := func() Result {
				t.Helper()
				result, err := a.Apply(t.Context(), desired.DeepCopy())
				if err != nil {
					t.Fatal(err)
				}
				return result
			}
			if made := apply(); !made.Wrote || made.Repair != nil {
				t.Fatalf("a new object is %+v", made.Repair)
			}
			test.happens(t, current(t, desired))
			got := apply().Repair
			if (got == nil) != (test.want == nil) {
				t.Fatalf("it repaired %v, want %v", got, test.want)
			}
			if got != nil && (got.Deleted != test.want.Deleted || !slices.Equal(got.Editors, test.want.Editors) ||
				got.Object.Kind != "Deployment" || got.Object.Name != scheduler || got.Object.UID == "") {
				t.Errorf("it repaired %+v, want %+v", got, test.want)
			}
			if again := apply(); again.Wrote || again.Repair != nil {
				t.Errorf("it wrote again: %t, and repaired %v", again.Wrote, again.Repair)
			}
		})
	}
}

// A cache may show for a while what was before a repair.
func TestALateCacheIsNoRepair(t *testing.T) {
	namespace := namespace(t)
	desired := pick[*appsv1.Deployment](t, rendered(t, variants(t)[0], namespace), scheduler)
	shows := func(context.Context, client.Object) bool { return false }
	watching, err := client.NewWithWatch(environment.Config, client.Options{Scheme: person.Scheme(), Mapper: person.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	late := interceptor.NewClient(watching, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if shows(ctx, object) {
				return nil
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	a := New(late, person)
	apply := func() *Repair {
		t.Helper()
		result, err := a.Apply(t.Context(), desired.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		return result.Repair
	}
	apply()
	edited := current(t, desired)
	edited.Labels[names.ManagedByLabel] = "me"
	if err := person.Update(t.Context(), edited, client.FieldOwner("kubectl-label")); err != nil {
		t.Fatal(err)
	}
	old := current(t, desired)
	if apply() == nil {
		t.Error("the edit was not repaired")
	}
	shows = func(_ context.Context, object client.Object) bool {
		old.DeepCopyInto(object.(*appsv1.Deployment))
		return true
	}
	if again := apply(); again != nil {
		t.Errorf("what the cache still shows was repaired again: %v", again)
	}
	shows = func(context.Context, client.Object) bool { return false }
	a.Dismiss("Deployment", desired)
	if err := person.Delete(t.Context(), current(t, desired)); err != nil {
		t.Fatal(err)
	}
	if made := apply(); made != nil {
		t.Errorf("what the manager deleted itself was repaired: %v", made)
	}
}
