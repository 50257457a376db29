package history

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatchapply "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
)

var (
	blue = client.ObjectKey{Namespace: "team", Name: "blue"}
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

// tenant is a control plane with some of everything in its spec.
func tenant() *controlplanev1.KOKControlPlane {
	c := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue-control-plane", UID: "uid"}}
	c.Spec.Version = "v1.36.3"
	c.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "192.0.2.1", Port: 6443}
	c.Spec.Hosting.Ports.First = 20000
	c.Spec.Hosting.NodeSelector = map[string]string{"kok.cluster.x-k8s.io/host-node": "true"}
	c.Spec.Etcd.Data.Replicas = ptr.To[int32](3)
	c.Spec.Patches = []controlplanev1.Patch{{Patch: "a"}, {Patch: "b"}}
	return c
}

// input is what a decision depends on, of a control plane that was recorded as often as there are edits.
func input(t *testing.T, edits ...func(*controlplanev1.KOKControlPlaneSpec)) (Input, *controlplanev1.KOKControlPlane) {
	t.Helper()
	in := Input{Cluster: blue, ControlPlane: tenant(), Provider: "v0.1.0", Now: noon}
	for _, edit := range edits {
		edit(&in.ControlPlane.Spec)
		made := decide(t, in).Make
		if made == nil {
			t.Fatal("an edit was not recorded")
		}
		in.Known = append(in.Known, *made)
	}
	return in, in.ControlPlane
}

func decide(t *testing.T, in Input) Decision {
	t.Helper()
	decision, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	return decision
}

func read(t *testing.T, revision *appsv1.ControllerRevision) *Content {
	t.Helper()
	content, err := Read(revision)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func nothing(*controlplanev1.KOKControlPlaneSpec) {}

// numbered changes something, differently for each number.
func numbered(n int) func(*controlplanev1.KOKControlPlaneSpec) {
	return func(spec *controlplanev1.KOKControlPlaneSpec) {
		spec.ImageRepository = fmt.Sprintf("registry.example.com/%d", n)
	}
}

func TestWhatOfSpecIsRecorded(t *testing.T) {
	later := metav1.NewTime(noon)
	for name, test := range map[string]struct {
		edit func(*controlplanev1.KOKControlPlaneSpec)
		// changed are the fields of the new revision; none for no revision. back is its way back, as JSON.
		changed []string
		back    string
	}{
		"nothing":            {edit: nothing},
		"replicas":           {edit: func(s *controlplanev1.KOKControlPlaneSpec) { s.Replicas = ptr.To[int32](5) }},
		"the endpoint":       {edit: func(s *controlplanev1.KOKControlPlaneSpec) { s.ControlPlaneEndpoint.Host = "192.0.2.2" }},
		"the block of ports": {edit: func(s *controlplanev1.KOKControlPlaneSpec) { s.Hosting.Ports.First = 20020 }},
		"a quantity that is written otherwise": {edit: func(s *controlplanev1.KOKControlPlaneSpec) {
			s.Etcd.Data.QuotaBackendSize = ptr.To(resource.MustParse("2048Mi"))
		}, changed: []string{"spec.etcd.data.quotaBackendSize"}, back: `[{"op":"remove","path":"/spec/etcd/data/quotaBackendSize"}]`},
		"the version": {edit: func(s *controlplanev1.KOKControlPlaneSpec) { s.Version = "v1.36.4" },
			changed: []string{"spec.version"}, back: `[{"op":"replace","path":"/spec/version","value":"v1.36.3"}]`},
		"a label of nodes": {edit: func(s *controlplanev1.KOKControlPlaneSpec) { s.Hosting.NodeSelector["example.com/a~b"] = "c" },
			changed: []string{"spec.hosting.nodeSelector[example.com/a~b]"}, back: `[{"op":"remove","path":"/spec/hosting/nodeSelector/example.com~1a~0b"}]`},
		"a patch is taken back with all others": {edit: func(s *controlplanev1.KOKControlPlaneSpec) {
			s.Patches = append(s.Patches, s.Patches[0])
			s.Patches[1].Patch = "c"
		},
			changed: []string{"spec.patches"}, back: `[{"op":"replace","path":"/spec/patches","value":[{"patch":"a"},{"patch":"b"}]}]`},
		"all patches": {edit: func(s *controlplanev1.KOKControlPlaneSpec) { s.Patches = nil },
			changed: []string{"spec.patches"}, back: `[{"op":"add","path":"/spec/patches","value":[{"patch":"a"},{"patch":"b"}]}]`},
		"a number of members, and one of API servers": {edit: func(s *controlplanev1.KOKControlPlaneSpec) {
			s.Replicas, s.Etcd.Data.Replicas = ptr.To[int32](5), ptr.To[int32](5)
		}, changed: []string{"spec.etcd.data.replicas"}, back: `[{"op":"replace","path":"/spec/etcd/data/replicas","value":3}]`},
		"a restore, which is never taken back": {edit: func(s *controlplanev1.KOKControlPlaneSpec) {
			s.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{Snapshot: "a", RequestedAt: later}
			s.Etcd.GivenUp = []string{"blue-etcd-data-1"}
		}, changed: []string{"spec.etcd.givenUp", "spec.etcd.restore"}},
		"a rotation of keys, which is never taken back": {edit: func(s *controlplanev1.KOKControlPlaneSpec) {
			s.KeyRotation = controlplanev1.KeyRotationSpec{Kinds: []controlplanev1.KeyKind{controlplanev1.ServiceAccountKeyKind}, PrepareAfter: later}
		}, changed: []string{"spec.keyRotation"}},
		"a rendering that is taken again, and the version": {edit: func(s *controlplanev1.KOKControlPlaneSpec) {
			s.Rollout.Renderings, s.Version = []controlplanev1.StoredRendering{{Component: "kube-apiserver", Revision: 3}}, "v1.36.4"
		}, changed: []string{"spec.rollout", "spec.version"}, back: `[{"op":"replace","path":"/spec/version","value":"v1.36.3"}]`},
		"events that begin anew, and the version": {edit: func(s *controlplanev1.KOKControlPlaneSpec) {
			s.Etcd.Events.FoundAnewAt, s.Rollout.After, s.Version = later, later, "v1.36.4"
		}, changed: []string{"spec.etcd.events", "spec.rollout", "spec.version"}, back: `[{"op":"replace","path":"/spec/version","value":"v1.36.3"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			in, c := input(t, nothing)
			in.ControlPlane = c.DeepCopy()
			test.edit(&in.ControlPlane.Spec)
			decision := decide(t, in)
			if len(test.changed) == 0 {
				if decision.Make != nil || decision.Spec.Name != "blue-spec-1" {
					t.Errorf("it is recorded: %+v", decision)
				}
				return
			}
			if decision.Make == nil || decision.Spec.Name != "blue-spec-2" || decision.Make.Name != "blue-spec-2" || decision.Make.Revision != 2 {
				t.Fatalf("it is not recorded as the second: %+v", decision)
			}
			content := read(t, decision.Make)
			if diff := cmp.Diff(test.changed, content.Changed); diff != "" {
				t.Errorf("changed fields (-want +got):\n%s", diff)
			}
			back := ""
			if len(content.WayBack) > 0 {
				raw, err := json.Marshal(content.WayBack)
				if err != nil {
					t.Fatal(err)
				}
				back = string(raw)
			}
			if back != test.back {
				t.Errorf("the way back is\n%s\nwant\n%s", back, test.back)
			}
			if content.Version != in.ControlPlane.Spec.Version || content.Provider != "v0.1.0" || !content.At.Time.Equal(noon) {
				t.Errorf("it says %+v", content)
			}
		})
	}
}

func TestARecordedSpecHasWhatPeopleSetAlone(t *testing.T) {
	in, c := input(t)
	c.Spec.Replicas = ptr.To[int32](3)
	made := decide(t, in).Make
	content := read(t, made)
	spec, err := content.SpecOf()
	if err != nil {
		t.Fatal(err)
	}
	want := c.Spec.DeepCopy()
	want.Replicas, want.ControlPlaneEndpoint, want.Hosting.Ports.First = nil, controlplanev1.APIEndpoint{}, 0
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if len(content.Changed) > 0 || len(content.WayBack) > 0 {
		t.Errorf("the first changes %v, and has the way back %v", content.Changed, content.WayBack)
	}
	if owner := metav1.GetControllerOf(made); owner == nil || owner.UID != c.UID || made.Namespace != "team" {
		t.Errorf("%s/%s has the owner %v", made.Namespace, made.Name, owner)
	}
	for label, value := range map[string]string{
		"cluster.x-k8s.io/cluster-name": "blue", "app.kubernetes.io/managed-by": "kok-control-plane", "kok.cluster.x-k8s.io/revision-of": "spec",
	} {
		if made.Labels[label] != value {
			t.Errorf("label %s is %q", label, made.Labels[label])
		}
	}
}

// Each edit is taken back by its own patch, in the reverse order, and all at once by WayBack.
func TestTheWayBackLeadsBack(t *testing.T) {
	in, c := input(t, nothing,
		func(s *controlplanev1.KOKControlPlaneSpec) { s.Version = "v1.36.4"; s.Hosting.NodeSelector = nil },
		func(s *controlplanev1.KOKControlPlaneSpec) {
			s.Patches[0].Patch = "d"
			s.Metrics.Mode = controlplanev1.MetricsManaged
		},
		func(s *controlplanev1.KOKControlPlaneSpec) {
			s.KubeScheduler.ExtraArgs = []controlplanev1.Arg{{Name: "v", Value: ptr.To("4")}}
			s.Patches = s.Patches[1:]
			s.Etcd.Data.Replicas = nil
		},
	)
	first := tenant().Spec
	all, err := WayBack(&c.Spec, &first)
	if err != nil {
		t.Fatal(err)
	}
	asJSON := func(value any) []byte {
		t.Helper()
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	set := func(object []byte, operations any) []byte {
		t.Helper()
		patch, err := jsonpatchapply.DecodePatch(asJSON(operations))
		if err != nil {
			t.Fatal(err)
		}
		after, err := patch.Apply(object)
		if err != nil {
			t.Fatalf("%s: %v", asJSON(operations), err)
		}
		return after
	}
	one := asJSON(c)
	for _, revision := range slices.Backward(in.Known[1:]) {
		one = set(one, read(t, &revision).WayBack)
	}
	for way, object := range map[string][]byte{"one by one": one, "all at once": set(asJSON(c), all)} {
		back := &controlplanev1.KOKControlPlane{}
		if err := json.Unmarshal(object, back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, back.Spec); diff != "" {
			t.Errorf("%s it leads elsewhere (-want +got):\n%s", way, diff)
		}
	}
}

func TestTenRevisionsAreKept(t *testing.T) {
	for name, test := range map[string]struct {
		known   int
		changes bool
		want    []string
	}{
		"nine are": {known: 9, changes: true},
		"the eleventh takes the place of the first":   {known: 10, changes: true, want: []string{"blue-spec-1"}},
		"ten are, and nothing changes":                {known: 10},
		"the program ended before the last was gone":  {known: 11, want: []string{"blue-spec-1"}},
		"it ended, and the next change comes at once": {known: 11, changes: true, want: []string{"blue-spec-1", "blue-spec-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			var edits []func(*controlplanev1.KOKControlPlaneSpec)
			for n := range test.known {
				edits = append(edits, numbered(n))
			}
			in, c := input(t, edits...)
			if test.changes {
				numbered(100)(&c.Spec)
			}
			var got []string
			for _, oldest := range decide(t, in).Delete {
				got = append(got, oldest.Name)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("deleted are %v, want %v", got, test.want)
			}
		})
	}
}

func TestNumbersAreGivenOnce(t *testing.T) {
	specs := func(names ...string) (all []revision.Spec) {
		for _, name := range names {
			all = append(all, revision.Spec{Name: name, Hash: "another"})
		}
		return all
	}
	first, _ := input(t)
	present := decide(t, first).Spec.Hash
	of := func(name string, number int64) appsv1.ControllerRevision {
		return appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}, Revision: number}
	}
	for name, test := range map[string]struct {
		known []appsv1.ControllerRevision
		named []revision.Spec
		want  string
	}{
		"the first":                               {want: "blue-spec-1"},
		"after a move, when renderings tell":      {named: specs("blue-spec-2", "blue-spec-7", "blue-spec-3"), want: "blue-spec-8"},
		"after a move, with the spec of the last": {named: append(specs("blue-spec-2"), revision.Spec{Name: "blue-spec-7", Hash: present}, revision.Spec{Name: "blue-spec-3"}), want: "blue-spec-7"},
		"after a move, with a spec of long ago":   {named: append(specs("blue-spec-7"), revision.Spec{Name: "blue-spec-3", Hash: present}), want: "blue-spec-8"},
		"after one that nobody can read":          {known: []appsv1.ControllerRevision{of("blue-spec-4", 4)}, want: "blue-spec-5"},
		"renderings name what is none":            {named: specs("blue-spec-x", "red-spec-4", "blue-spec-007", "blue-spec--3", "blue"), want: "blue-spec-1"},
		"a number that nobody counts to":          {known: []appsv1.ControllerRevision{of(fmt.Sprintf("blue-spec-%d", int64(math.MaxInt64)), math.MaxInt64)}, want: "blue-spec-1"},
		"it is named beyond count":                {named: specs(fmt.Sprintf("blue-spec-%d", int64(math.MaxInt64))), want: "blue-spec-1"},
		"a name that is not that of a number":     {known: []appsv1.ControllerRevision{of("other", 9)}, want: "blue-spec-1"},
	} {
		t.Run(name, func(t *testing.T) {
			in, _ := input(t)
			in.Known, in.Named = test.known, test.named
			decision := decide(t, in)
			if decision.Make == nil || decision.Spec.Name != test.want || len(read(t, decision.Make).WayBack) > 0 {
				t.Errorf("got %+v, want %s without a way back", decision, test.want)
			}
		})
	}
}

func TestATopologyHasNoWayBack(t *testing.T) {
	in, c := input(t, nothing)
	c.Spec.Version, in.Topology = "v1.36.4", true
	content := read(t, decide(t, in).Make)
	if len(content.WayBack) > 0 || !slices.Equal(content.Changed, []string{"spec.version"}) {
		t.Errorf("changed is %v, the way back is %v", content.Changed, content.WayBack)
	}
}

// A rendering that is large is worth more than its history: without a revision no component would take the change.
func TestAHugeSpecIsRecordedWithoutWhatIsTooLarge(t *testing.T) {
	large := func(size int) func(*controlplanev1.KOKControlPlaneSpec) {
		return func(s *controlplanev1.KOKControlPlaneSpec) {
			s.Patches = []controlplanev1.Patch{{Patch: strings.Repeat("a", size)}}
		}
	}
	in, _ := input(t, large(600<<10), large(700<<10), large(2<<20), large(10))
	for i, want := range []struct{ spec, back bool }{{true, false}, {true, false}, {false, false}, {true, false}} {
		content, raw := read(t, &in.Known[i]), in.Known[i].Data.Raw
		if len(raw) > maxBytes || (content.Spec != nil) != want.spec || (content.WayBack != nil) != want.back || content.Hash == "" {
			t.Errorf("revision %d has %d bytes, a spec of %d and a way back of %d operations", i+1, len(raw), len(content.Spec), len(content.WayBack))
		}
	}
}

func TestRevisionsOfAFormerControlPlaneAreNotThisOnes(t *testing.T) {
	in, c := input(t, nothing, numbered(1), numbered(2))
	in.Known[0].OwnerReferences[0].UID = "former"
	in.Known[1].OwnerReferences = nil
	var got []string
	for _, r := range Of(c, in.Known) {
		got = append(got, r.Name)
	}
	if want := []string{"blue-spec-2", "blue-spec-3"}; !slices.Equal(got, want) || len(in.Known) != 3 {
		t.Errorf("got %v of %d, want %v", got, len(in.Known), want)
	}
}
