//go:build envtest

package revision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/envtest/plain"
)

var (
	environment = &envtest.Environment{}
	live        client.WithWatch
)

func TestMain(m *testing.M) {
	plain.Main(m, environment, func(config *rest.Config) (err error) {
		live, err = client.NewWithWatch(config, client.Options{Scheme: clientgoscheme.Scheme})
		return err
	})
}

// tenant is a Cluster in a namespace of its own.
func tenant(t *testing.T) client.ObjectKey {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := live.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return client.ObjectKey{Namespace: namespace.Name, Name: "blue"}
}

// giving is a rendering with one ConfigMap that says which program made it.
func giving(program string) func() ([]client.Object, error) {
	return func() ([]client.Object, error) {
		return []client.Object{&corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: "made"},
			Data:       map[string]string{"by": program},
		}}, nil
	}
}

// made is which program made the rendering that a store gives.
func made(t *testing.T, objects []client.Object, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 1 {
		t.Fatalf("got %d objects", len(objects))
	}
	return objects[0].(*corev1.ConfigMap).Data["by"]
}

func revisions(t *testing.T, tenant client.ObjectKey) []appsv1.ControllerRevision {
	t.Helper()
	list := &appsv1.ControllerRevisionList{}
	if err := live.List(t.Context(), list, client.InNamespace(tenant.Namespace), client.MatchingLabels(names.Labels(tenant))); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return list.Items
}

func TestTheStoredRenderingIsKeptWhileTheInputsAreTheSame(t *testing.T) {
	blue, store := tenant(t), &Store{Live: live, Client: live}
	objects, err := store.Rendering(t.Context(), blue, "etcd-data", "inputs-1", time.Time{}, giving("v1"))
	if got := made(t, objects, err); got != "v1" {
		t.Errorf("the first rendering is of %s", got)
	}
	objects, err = store.Rendering(t.Context(), blue, "etcd-data", "inputs-1", time.Time{}, func() ([]client.Object, error) {
		t.Error("it was rendered again")
		return giving("v2")()
	})
	if got := made(t, objects, err); got != "v1" {
		t.Errorf("a newer program's rendering, %s, was adopted", got)
	}
	objects, err = store.Rendering(t.Context(), blue, "etcd-data", "inputs-2", time.Time{}, giving("v2"))
	if got := made(t, objects, err); got != "v2" {
		t.Errorf("for new inputs the rendering is of %s", got)
	}
	// Back to earlier inputs is a change like any other: the newest program renders it.
	objects, err = store.Rendering(t.Context(), blue, "etcd-data", "inputs-1", time.Time{}, giving("v3"))
	if got := made(t, objects, err); got != "v3" {
		t.Errorf("back at the first inputs the rendering is of %s", got)
	}
	objects, err = store.Newest(t.Context(), blue, "etcd-data")
	if got := made(t, objects, err); got != "v3" {
		t.Errorf("the newest rendering is of %s", got)
	}
	if n := len(revisions(t, blue)); n != 3 {
		t.Errorf("there are %d revisions", n)
	}
}

func TestWhatTheNewestRevisionWasMadeFromIsCurrent(t *testing.T) {
	blue, store := tenant(t), &Store{Live: live, Client: live}
	rollout := time.Now().Add(-time.Hour).Truncate(time.Second)
	for _, inputs := range []string{"inputs-1", "inputs-2"} {
		if _, err := store.Rendering(t.Context(), blue, "etcd-data", inputs, rollout, giving("v1")); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name         string
		component    string
		rolloutAfter time.Time
		inputs       []string
		want         bool
	}{
		{"the inputs of the newest", "etcd-data", rollout, []string{"inputs-2"}, true},
		{"one of several", "etcd-data", rollout, []string{"inputs-3", "inputs-2"}, true},
		{"an earlier rollout", "etcd-data", rollout.Add(-time.Minute), []string{"inputs-2"}, true},
		{"no rollout", "etcd-data", time.Time{}, []string{"inputs-2"}, true},
		{"a later rollout", "etcd-data", rollout.Add(time.Minute), []string{"inputs-2"}, false},
		{"inputs of an older one", "etcd-data", rollout, []string{"inputs-1"}, false},
		{"no inputs", "etcd-data", rollout, nil, false},
		{"a component without a revision", "etcd-events", time.Time{}, []string{"inputs-2"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := store.Current(t.Context(), blue, tc.component, tc.rolloutAfter, tc.inputs...); err != nil || got != tc.want {
				t.Errorf("got %t, %v, want %t", got, err, tc.want)
			}
		})
	}
}

func TestComponentsAndClustersAreKeptApart(t *testing.T) {
	blue := tenant(t)
	green := client.ObjectKey{Namespace: blue.Namespace, Name: "green"}
	store := &Store{Live: live, Client: live}
	for _, of := range []struct {
		tenant    client.ObjectKey
		component string
	}{{blue, "etcd-data"}, {blue, "etcd-events"}, {green, "etcd-data"}} {
		who := of.tenant.Name + "/" + of.component
		objects, err := store.Newest(t.Context(), of.tenant, of.component)
		if err != nil || len(objects) != 0 {
			t.Errorf("%s has %d objects before it was rendered: %v", who, len(objects), err)
		}
		objects, err = store.Rendering(t.Context(), of.tenant, of.component, "inputs", time.Time{}, giving(who))
		if got := made(t, objects, err); got != who {
			t.Errorf("%s got the rendering of %s", who, got)
		}
	}
}

func TestARevisionTellsTheVersionThatItWasRenderedFor(t *testing.T) {
	blue, store := tenant(t), &Store{Live: live, Client: live}
	for _, step := range []struct{ inputs, version, want string }{
		{"inputs-1", "", ""}, // An older program wrote none.
		{"inputs-2", "v1.35.4", "v1.35.4"},
		{"inputs-2", "v1.36.3", "v1.35.4"},
		{"inputs-3", "v1.36.3", "v1.36.3"},
	} {
		store.Version = step.version
		if _, err := store.Rendering(t.Context(), blue, "etcd-data", step.inputs, time.Time{}, giving("v1")); err != nil {
			t.Fatal(err)
		}
		if got, err := store.RenderedVersion(t.Context(), blue, "etcd-data"); got != step.want || err != nil {
			t.Errorf("%s at %q: it is of %q, %v; want %q", step.inputs, step.version, got, err, step.want)
		}
	}
	if got, err := store.RenderedVersion(t.Context(), blue, "etcd-events"); got != "" || err != nil {
		t.Errorf("what was never rendered is of %q: %v", got, err)
	}
}

func TestRevisionsAreFoundAndOwned(t *testing.T) {
	blue := tenant(t)
	owner := &metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "1", Controller: ptr.To(true)}
	store := &Store{Live: live, Client: live, Owner: owner}
	if _, err := store.Rendering(t.Context(), blue, "etcd-data", "inputs-1", time.Time{}, giving("v1")); err != nil {
		t.Fatal(err)
	}
	stored := revisions(t, blue)[0]
	for key, value := range names.Labels(blue) {
		if stored.Labels[key] != value {
			t.Errorf("label %s is %q", key, stored.Labels[key])
		}
	}
	if selected := apilabels.SelectorFromSet(names.ComponentLabels(blue, "etcd-data")); selected.Matches(apilabels.Set(stored.Labels)) {
		t.Error("a StatefulSet would count the revision as its own")
	}
	if stored.Labels[ComponentLabel] != "etcd-data" || !reflect.DeepEqual(stored.OwnerReferences, []metav1.OwnerReference{*owner}) {
		t.Errorf("labels %v, owners %v", stored.Labels, stored.OwnerReferences)
	}
}

func TestOldRevisionsAreDeleted(t *testing.T) {
	blue, store := tenant(t), &Store{Live: live, Client: live}
	const made = Limit + 3
	for i := range made {
		if _, err := store.Rendering(t.Context(), blue, "etcd-data", fmt.Sprintf("inputs-%d", i), time.Time{}, giving("v1")); err != nil {
			t.Fatal(err)
		}
	}
	kept := revisions(t, blue)
	if len(kept) != Limit || kept[0].Revision != made-Limit+1 || kept[Limit-1].Revision != made {
		t.Errorf("%d are kept, from %d to %d", len(kept), kept[0].Revision, kept[len(kept)-1].Revision)
	}
	if _, err := store.Rendering(t.Context(), blue, "etcd-data", fmt.Sprintf("inputs-%d", made-1), time.Time{}, giving("v2")); err != nil {
		t.Fatal(err)
	}
	if n := len(revisions(t, blue)); n != Limit {
		t.Errorf("%d are kept after nothing changed", n)
	}
}

// Two programs must never take different renderings for the newest one.
func TestTwoWritersWithLateCachesDoNotFork(t *testing.T) {
	blue := tenant(t)
	empty := &appsv1.ControllerRevisionList{}
	late := interceptor.NewClient(live, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			empty.DeepCopyInto(list.(*appsv1.ControllerRevisionList))
			return nil
		},
	})
	first, second := &Store{Live: live, Client: late}, &Store{Live: live, Client: late}
	objects, err := first.Rendering(t.Context(), blue, "etcd-data", "inputs", time.Time{}, giving("first"))
	if got := made(t, objects, err); got != "first" {
		t.Errorf("the first writer got the rendering of %s", got)
	}
	if _, err := second.Rendering(t.Context(), blue, "etcd-data", "inputs", time.Time{}, giving("second")); !apierrors.IsAlreadyExists(err) {
		t.Errorf("the second writer got %v", err)
	}
	second.Client = live
	objects, err = second.Rendering(t.Context(), blue, "etcd-data", "inputs", time.Time{}, giving("second"))
	if got := made(t, objects, err); got != "first" {
		t.Errorf("once its cache is up to date, the second writer got the rendering of %s", got)
	}
	if n := len(revisions(t, blue)); n != 1 {
		t.Errorf("there are %d revisions", n)
	}
}

func TestWhatIsKeptIsTheNewestAlsoForALateCache(t *testing.T) {
	blue := tenant(t)
	store, seen := &Store{Live: live, Client: live}, &appsv1.ControllerRevisionList{}
	late := interceptor.NewClient(live, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			seen.DeepCopyInto(list.(*appsv1.ControllerRevisionList))
			return nil
		},
	})
	kept := &Store{Live: live, Client: late}
	if objects, err := kept.Kept(t.Context(), blue, "etcd-data"); err != nil || len(objects) > 0 {
		t.Errorf("before there is a revision: %v, %v", objects, err)
	}
	for i, program := range []string{"v1", "v2", "v3", "v4"} {
		if _, err := store.Rendering(t.Context(), blue, "etcd-data", program, time.Time{}, giving(program)); err != nil {
			t.Fatal(err)
		}
		objects, err := kept.Kept(t.Context(), blue, "etcd-data")
		if by := made(t, objects, err); by != program {
			t.Errorf("of %d revisions, of which the cache has %d, that of %s is kept", i+1, len(seen.Items), by)
		}
		if i == 1 {
			seen.Items = revisions(t, blue)
		}
	}
}

func TestWhatCannotBeRenderedIsNotStored(t *testing.T) {
	blue, store := tenant(t), &Store{Live: live, Client: live}
	broken := errors.New("broken")
	_, err := store.Rendering(t.Context(), blue, "etcd-data", "inputs", time.Time{}, func() ([]client.Object, error) { return nil, broken })
	if !errors.Is(err, broken) || len(revisions(t, blue)) != 0 {
		t.Errorf("err = %v, %d revisions", err, len(revisions(t, blue)))
	}
}

// What is read from a revision is what was rendered, byte for byte, for every component: else an
// object that is rendered and one that is read would take turns.
func TestRenderingsSurviveTheRoundTrip(t *testing.T) {
	paths, err := filepath.Glob("../components/testdata/*-*/*.yaml")
	if err != nil || len(paths) < 10 {
		t.Fatalf("found %d golden files: %v", len(paths), err)
	}
	// As in the manager, reads come from a cache.
	cached := cachedClient(t)
	blue, store := tenant(t), &Store{Live: live, Client: cached}
	for i, path := range paths {
		t.Run(strings.TrimPrefix(path, "../components/testdata/"), func(t *testing.T) {
			rendered := read(t, path)
			component := fmt.Sprintf("component-%d", i)
			render := func() ([]client.Object, error) { return read(t, path), nil }
			first, err := store.Rendering(t.Context(), blue, component, "inputs", time.Time{}, render)
			if err != nil {
				t.Fatal(err)
			}
			var again []client.Object
			err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
				again, err = store.Newest(ctx, blue, component)
				return len(again) > 0, err
			})
			if err != nil {
				t.Fatal(err)
			}
			for name, got := range map[string][]client.Object{"the first": first, "a later": again} {
				if len(got) != len(rendered) {
					t.Fatalf("%s reading has %d objects of %d", name, len(got), len(rendered))
				}
				for i := range rendered {
					if reflect.TypeOf(got[i]) != reflect.TypeOf(rendered[i]) {
						t.Errorf("%s reading gives a %T for a %T", name, got[i], rendered[i])
					}
					if want, have := encoded(t, rendered[i]), encoded(t, got[i]); want != have {
						t.Errorf("%s reading of %T %s differs:\n%s\n%s", name, rendered[i], rendered[i].GetName(), want, have)
					}
				}
			}
		})
	}
}

func encoded(t *testing.T, object client.Object) string {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// read gives the objects of a golden file.
func read(t *testing.T, path string) []client.Object {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for document := range strings.SplitSeq(string(raw), "---\n") {
		if document == "" {
			continue
		}
		fields := map[string]any{}
		if err := yaml.Unmarshal([]byte(document), &fields); err != nil {
			t.Fatal(err)
		}
		object, err := clientgoscheme.Scheme.New((&unstructured.Unstructured{Object: fields}).GroupVersionKind())
		if err != nil {
			t.Fatal(err)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object.(client.Object))
	}
	return objects
}

func cachedClient(t *testing.T) client.Client {
	t.Helper()
	c, err := cluster.New(environment.Config, func(o *cluster.Options) { o.Scheme = clientgoscheme.Scheme })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	return c.GetClient()
}

func TestARevisionWithoutItsLabelsGetsThemBack(t *testing.T) {
	blue, store := tenant(t), &Store{Live: live, Client: live}
	if _, err := store.Rendering(t.Context(), blue, "etcd-data", "inputs", time.Time{}, giving("v1")); err != nil {
		t.Fatal(err)
	}
	stored := revisions(t, blue)[0]
	delete(stored.Labels, ComponentLabel)
	if err := live.Update(t.Context(), &stored); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Rendering(t.Context(), blue, "etcd-data", "inputs", time.Time{}, giving("v2")); !apierrors.IsAlreadyExists(err) {
		t.Fatalf("err = %v", err)
	}
	objects, err := store.Rendering(t.Context(), blue, "etcd-data", "inputs", time.Time{}, giving("v3"))
	if by := made(t, objects, err); by != "v1" {
		t.Errorf("made by %s", by)
	}
}

// The time of a rollout is of the manager's clock, or a person's, and the age of a revision of the API
// server's: each reconcile would make another revision until the two agree.
func TestARolloutThatIsAheadOfTheAPIServersClockIsOneRollout(t *testing.T) {
	blue, store := tenant(t), &Store{Live: live, Client: live}
	if _, err := store.Rendering(t.Context(), blue, "etcd-data", "inputs", time.Time{}, giving("v1")); err != nil {
		t.Fatal(err)
	}
	first := revisions(t, blue)[0].CreationTimestamp.Add(time.Hour).Truncate(time.Second)
	for _, step := range []struct {
		name         string
		rolloutAfter time.Time
		inputs       string
		revisions    int
	}{
		{"a rollout", first, "inputs", 2},
		{"the same rollout, looked at again", first, "inputs", 2},
		{"no rollout any more", time.Time{}, "inputs", 2},
		{"an older one", first.Add(-time.Minute), "inputs", 2},
		{"a newer one", first.Add(time.Minute), "inputs", 3},
		{"the same, looked at again", first.Add(time.Minute), "inputs", 3},
		{"with other inputs", first.Add(time.Minute), "others", 4},
		{"the same inputs, looked at again", first.Add(time.Minute), "others", 4},
	} {
		if _, err := store.Rendering(t.Context(), blue, "etcd-data", step.inputs, step.rolloutAfter, giving("v2")); err != nil {
			t.Fatal(err)
		}
		if got := len(revisions(t, blue)); got != step.revisions {
			t.Errorf("%s: there are %d revisions, want %d", step.name, got, step.revisions)
		}
	}
}

func TestARolloutTimeReplacesOlderRevisionsOnce(t *testing.T) {
	blue, store := tenant(t), &Store{Live: live, Client: live}
	if _, err := store.Rendering(t.Context(), blue, "etcd-data", "inputs", time.Time{}, giving("v1")); err != nil {
		t.Fatal(err)
	}
	created := revisions(t, blue)[0].CreationTimestamp.Time
	for _, step := range []struct {
		name      string
		notBefore time.Time
		program   string
		want      string
	}{
		{"a time before the revision", created.Add(-time.Hour), "v2", "v1"},
		{"a time after it", created.Add(time.Hour), "v3", "v3"},
		{"no time any more", time.Time{}, "v4", "v3"},
	} {
		objects, err := store.Rendering(t.Context(), blue, "etcd-data", "inputs", step.notBefore, giving(step.program))
		if by := made(t, objects, err); by != step.want {
			t.Errorf("%s: made by %s", step.name, by)
		}
	}
}

// named is a rendering with ConfigMaps of some names.
func named(names ...string) func() ([]client.Object, error) {
	return func() ([]client.Object, error) {
		var objects []client.Object
		for _, name := range names {
			objects = append(objects, &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		return objects, nil
	}
}

func TestWhatNoNewRenderingHoldsIsSuperseded(t *testing.T) {
	blue, store := tenant(t), &Store{Live: live, Client: live}
	check := func(when string, want ...string) {
		t.Helper()
		superseded, err := store.Superseded(t.Context(), blue, "etcd-data")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, reference := range superseded {
			if reference.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("ConfigMap") {
				t.Errorf("%s: %s is a %s", when, reference.Name, reference.GroupVersionKind())
			}
			got = append(got, reference.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: superseded are %v, want %v", when, got, want)
		}
	}
	check("nothing was rendered")
	for i, step := range []struct {
		name     string
		rendered []string
		want     []string
	}{
		{"the first rendering", []string{"a", "b", "c"}, nil},
		{"one without b", []string{"a", "c"}, []string{"b"}},
		{"one without c too", []string{"a"}, []string{"b", "c"}},
		{"b is back", []string{"a", "b"}, []string{"c"}},
	} {
		if _, err := store.Rendering(t.Context(), blue, "etcd-data", fmt.Sprint(i), time.Time{}, named(step.rendered...)); err != nil {
			t.Fatal(err)
		}
		check(step.name, step.want...)
	}
	for i := range Limit {
		if _, err := store.Rendering(t.Context(), blue, "etcd-data", fmt.Sprint("later", i), time.Time{}, named("a", "b")); err != nil {
			t.Fatal(err)
		}
	}
	check("no revision that is kept holds c", "c")
	// The kind is another one by its group, not by its version.
	newer := func() ([]client.Object, error) {
		objects, err := named("a", "b", "c")()
		for _, object := range objects {
			object.(*corev1.ConfigMap).APIVersion = "v2"
		}
		return objects, err
	}
	objects, err := newer()
	if err != nil {
		t.Fatal(err)
	}
	if gone, err := (&Store{}).superseded("etcd-data", revisions(t, blue), objects); err != nil || len(gone) > 0 {
		t.Errorf("with a newer version of their kind there are superseded objects %v, %v", gone, err)
	}
}
