//go:build envtest

package cli

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/history"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
)

// recorded is a control plane of which a test records spec, as the manager does.
type recorded struct {
	*site
	key, cluster client.ObjectKey
}

func (s *site) recorded(name string) *recorded {
	s.t.Helper()
	c := s.controlPlane(name, name)
	r := &recorded{site: s, key: client.ObjectKeyFromObject(c), cluster: client.ObjectKeyFromObject(c)}
	r.record()
	return r
}

func (r *recorded) now() *controlplanev1.KOKControlPlane {
	r.t.Helper()
	c := &controlplanev1.KOKControlPlane{}
	if !r.has(r.key.Name, c) {
		r.t.Fatal("the control plane is gone")
	}
	return c
}

// record does the manager's part.
func (r *recorded) record() {
	r.t.Helper()
	known, err := history.List(r.t.Context(), environment.Client, r.cluster)
	if err != nil {
		r.t.Fatal(err)
	}
	decision, err := history.Decide(history.Input{Cluster: r.cluster, ControlPlane: r.now(), Known: known, Provider: "v0.1.0", Now: time.Now()})
	if err != nil {
		r.t.Fatal(err)
	}
	if decision.Make != nil {
		r.create(decision.Make)
	}
}

// edit changes spec as a person does, and records it.
func (r *recorded) edit(change func(*controlplanev1.KOKControlPlaneSpec)) {
	r.t.Helper()
	c := r.now()
	before := c.DeepCopy()
	change(&c.Spec)
	if err := environment.Client.Patch(r.t.Context(), c, client.MergeFrom(before), client.FieldOwner("kubectl-edit")); err != nil {
		r.t.Fatal(err)
	}
	r.record()
}

// renders stores a rendering of kube-scheduler that comes from a revision of spec.
func (r *recorded) renders(from, level string) {
	r.t.Helper()
	store := &revision.Store{Client: environment.Client, Live: environment.Client, Spec: revision.Spec{Name: from}, Version: "v1.36.3"}
	_, err := store.Rendering(r.t.Context(), r.cluster, names.KubeScheduler, from+level, time.Time{}, func() ([]client.Object, error) {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "blue-kube-scheduler-config"}, Data: map[string]string{"level": level}}
		config.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		same := config.DeepCopy()
		same.Name, same.Data = "blue-same", nil
		return []client.Object{config, same}, nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func argument(level string) func(*controlplanev1.KOKControlPlaneSpec) {
	return func(spec *controlplanev1.KOKControlPlaneSpec) {
		spec.KubeScheduler.ExtraArgs = []controlplanev1.Arg{{Name: "v", Value: ptr.To(level)}}
	}
}

func TestTheHistoryOfASpecIsShown(t *testing.T) {
	s := newSite(t)
	s.expect(2, []string{"there is no KOKControlPlane " + s.namespace + "/blue"}, "history", "blue")
	s.controlPlane("green", "green")
	s.expect(0, []string{"has no history yet"}, "history", "green")
	s.expect(2, []string{"has no revision 1; there are none"}, "history", "green", "--diff", "1")

	blue := s.recorded("blue")
	blue.renders("blue-spec-1", "3")
	blue.edit(argument("4"))
	blue.renders("blue-spec-2", "4")
	blue.edit(func(spec *controlplanev1.KOKControlPlaneSpec) {
		spec.ImageRepository, spec.Version, spec.Metrics.Mode = "registry.example.com", "v1.36.4", controlplanev1.MetricsManaged
		spec.Hosting.NodeSelector["pool"] = "a"
	})

	out := s.expect(0, nil, "history", "blue")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, want := range []string{
		"REVISION   VERSION   PROVIDER   CHANGED",
		"3          v1.36.4   v0.1.0     spec.hosting.nodeSelector.pool, spec.imageRepository, spec.metrics and 1 more   kubectl-edit",
		"2          v1.36.3   v0.1.0     spec.kubeScheduler.extraArgs",
		"1          v1.36.3   v0.1.0     -",
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is not %q:\n%s", i, want, out)
		}
	}
	var rows []struct {
		Revision int64
		Changed  []string
		By       []string
		WayBack  bool
	}
	if err := json.Unmarshal([]byte(s.expect(0, nil, "history", "blue", "-o", "json")), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 3 || rows[1].Revision != 2 || !rows[1].WayBack || rows[2].WayBack || !slices.Equal(rows[1].By, []string{"kubectl-edit"}) {
		t.Errorf("as data they are %+v", rows)
	}
	s.expect(0, []string{"  - spec.kubeScheduler.extraArgs", "wayBack: true"}, "history", "blue", "-o", "yaml")
	s.expect(2, []string{"want json or yaml"}, "history", "blue", "-o", "xml")

	out = s.expect(0, []string{
		"spec of revision 2 after revision 1, changed by kubectl-edit:", `+    "name": "v",`,
		"rendering blue-kube-scheduler-2 of kube-scheduler, ConfigMap blue-kube-scheduler-config:", `-  "level": "3"`, `+  "level": "4"`,
	}, "history", "blue", "--diff", "2")
	if strings.Contains(out, "blue-same") || strings.Contains(out, "blue-kube-scheduler-1") {
		t.Errorf("it shows what does not differ:\n%s", out)
	}
	s.expect(0, []string{`+ "version": "v1.36.4"`, "no rendering comes from blue-spec-3"}, "history", "blue", "--diff", "3")
	s.expect(2, []string{"revision 1 is the oldest that is kept"}, "history", "blue", "--diff", "1")
	s.expect(2, []string{"has no revision 7; there are 1, 2, 3"}, "history", "blue", "--diff", "7")
}

// What is rendered is in the host cluster, which may be another one.
func TestTheHistoryOfRenderingsIsReadInTheHostCluster(t *testing.T) {
	s := newSite(t)
	made := &controlplanev1.KOKControlPlane{ObjectMeta: s.named("blue")}
	made.Labels = map[string]string{clusterv1.ClusterNameLabel: "blue"}
	made.Spec.Version, made.Spec.Hosting.KubeconfigRef.Name = "v1.36.3", "host"
	s.create(made)
	blue := &recorded{site: s, key: client.ObjectKeyFromObject(made), cluster: client.ObjectKeyFromObject(made)}
	blue.record()
	blue.edit(argument("4"))
	blue.renders("blue-spec-2", "4")
	out := s.expect(0, []string{"spec of revision 2", "by --host-kubeconfig"}, "history", "blue", "--diff", "2")
	if strings.Contains(out, "rendering blue") {
		t.Errorf("it shows renderings of the wrong cluster:\n%s", out)
	}
	s.expect(0, []string{"rendering blue-kube-scheduler-1 of kube-scheduler, ConfigMap blue-kube-scheduler-config, which is new:"},
		"history", "blue", "--diff", "2", "--host-kubeconfig", kubeconfig)
	s.expect(2, []string{"read the kubeconfig /nowhere"}, "history", "blue", "--diff", "2", "--host-kubeconfig", "/nowhere")
	s.expect(2, []string{"what is rendered is in the host cluster: name a kubeconfig file of it by --host-kubeconfig"}, "history", "blue", "--renderings", "-o", "json")
}

func TestASpecIsTakenBack(t *testing.T) {
	s := newSite(t)
	blue := s.recorded("blue")
	before := blue.now()
	blue.edit(argument("4"))
	blue.edit(func(spec *controlplanev1.KOKControlPlaneSpec) { spec.Version = "v1.36.4" })
	undo := func(arguments ...string) []string { return append([]string{"undo", "blue"}, arguments...) }

	s.expect(2, []string{`required flag(s) "to" not set`}, undo()...)
	s.expect(2, []string{"has no revision 9; there are 1, 2, 3"}, undo("--to", "9", "--yes")...)
	s.expect(0, []string{"is as in revision 3: nothing was changed"}, undo("--to", "3", "--yes")...)
	s.expect(2, []string{`- "version": "v1.36.4"`, `+ "version": "v1.36.3"`, "add --yes"}, undo("--to", "1")...)
	if blue.now().Spec.Version != "v1.36.4" {
		t.Error("it was changed before anybody agreed")
	}
	s.expect(0, []string{`-    "name": "v",`, "is as in revision 1; kok status blue shows"}, undo("--to", "1", "--yes")...)
	after := blue.now()
	if after.Spec.Version != "v1.36.3" || after.Spec.KubeScheduler.ExtraArgs != nil || after.Generation != before.Generation+3 {
		t.Errorf("spec is %+v", after.Spec)
	}
	blue.record()
	s.expect(0, []string{"4          v1.36.3", "kok-undo"}, "history", "blue")
}

func TestAnUndoThatCannotBeIsRefusedWithTheWayOut(t *testing.T) {
	s := newSite(t)
	old := &controlplanev1.KOKControlPlane{ObjectMeta: s.named("blue")}
	old.Labels = map[string]string{clusterv1.ClusterNameLabel: "blue"}
	old.Spec.Version = "v1.35.4"
	s.create(old)
	blue := &recorded{site: s, key: client.ObjectKeyFromObject(old), cluster: client.ObjectKeyFromObject(old)}
	blue.record()
	blue.edit(func(spec *controlplanev1.KOKControlPlaneSpec) { spec.Version = "v1.36.3" })
	blue.edit(argument("5"))
	s.expect(2, []string{"nothing was changed: revision 1 has v1.35.4, and the control plane has v1.36.3; a minor version has no way back"}, "undo", "blue", "--to", "1", "--yes")

	// The API server refuses it, and nobody is asked.
	blue.edit(func(spec *controlplanev1.KOKControlPlaneSpec) { spec.Rollout.After = metav1.Now() })
	all, err := history.List(t.Context(), environment.Client, blue.cluster)
	if err != nil {
		t.Fatal(err)
	}
	forged := all[2].DeepCopy()
	forged.ObjectMeta = metav1.ObjectMeta{Namespace: forged.Namespace, Name: "blue-spec-5", Labels: forged.Labels}
	forged.Revision = 5
	content := map[string]any{}
	if err := json.Unmarshal(forged.Data.Raw, &content); err != nil {
		t.Fatal(err)
	}
	content["spec"].(map[string]any)["encryptionAtRest"] = map[string]any{"mode": "None", "resources": []string{"secrets"}}
	if forged.Data.Raw, err = json.Marshal(content); err != nil {
		t.Fatal(err)
	}
	s.create(forged)
	s.expect(2, []string{"encryptionAtRest.mode is immutable", "nothing was changed"}, "undo", "blue", "--to", "5")

	cluster := &clusterv1.Cluster{ObjectMeta: s.named("blue")}
	cluster.Spec.Topology.ClassRef.Name, cluster.Spec.Topology.Version = "kok", "v1.36.3"
	s.create(cluster)
	s.expect(2, []string{"has a topology", "the Cluster is the way back", "kubectl edit cluster blue --namespace " + s.namespace}, "undo", "blue", "--to", "2", "--yes")
	if args := blue.now().Spec.KubeScheduler.ExtraArgs; len(args) != 1 {
		t.Errorf("spec was changed: %v", args)
	}
	s.expect(0, []string{"spec.kubeScheduler.extraArgs"}, "history", "blue")
}

func TestStoredRenderingsAreShownWithThoseThatCanBeTakenAgain(t *testing.T) {
	s := newSite(t)
	s.controlPlane("green", "green")
	s.expect(0, []string{"has no renderings yet"}, "history", "green", "--renderings")

	blue := s.recorded("blue")
	rollout := time.Now().Add(-time.Minute)
	for i, rendered := range []struct {
		component, inputs string
		after             time.Time
		again             int64
	}{
		{names.EtcdData, "a", time.Time{}, 0},
		{names.KubeScheduler, "others", time.Time{}, 0},
		{names.KubeScheduler, "a", time.Time{}, 0},
		{names.KubeScheduler, "a", rollout.Add(time.Hour), 0},
		{names.KubeScheduler, "a", rollout.Add(2 * time.Hour), 0},
		{names.KubeScheduler, "a", rollout.Add(2 * time.Hour), 3},
		{names.EtcdData, "b", time.Time{}, 0},
	} {
		store := &revision.Store{
			Client: environment.Client, Live: environment.Client, Spec: revision.Spec{Name: "blue-spec-1"}, Version: "v1.36.3",
			Provider: "v0.1." + strconv.Itoa(i), Again: map[string]int64{rendered.component: rendered.again},
		}
		_, err := store.Rendering(t.Context(), blue.cluster, rendered.component, rendered.inputs, rendered.after, func() ([]client.Object, error) {
			config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: blue.namespace, Name: "blue-config"}, Data: map[string]string{"by": store.Provider}}
			config.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			return []client.Object{config}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	out := s.expect(0, nil, "history", "blue", "--renderings")
	var got []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 7 {
			t.Fatalf("line %q has too few fields", line)
		}
		got = append(got, strings.Join(slices.Delete(fields, 5, 6), " ")) // Its age is another each time.
	}
	want := []string{
		"COMPONENT REVISION VERSION PROVIDER SPEC IS",
		"etcd-data 2 v1.36.3 v0.1.6 blue-spec-1 present",
		"etcd-data 1 v1.36.3 v0.1.0 blue-spec-1 -",
		"kube-scheduler 5 v1.36.3 v0.1.3 blue-spec-1 present, taken from 3",
		"kube-scheduler 4 v1.36.3 v0.1.4 blue-spec-1 can be taken again",
		"kube-scheduler 3 v1.36.3 v0.1.3 blue-spec-1 as present",
		"kube-scheduler 2 v1.36.3 v0.1.2 blue-spec-1 can be taken again",
		"kube-scheduler 1 v1.36.3 v0.1.1 blue-spec-1 of other inputs",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-) and got (+):\n%s", diff)
	}
	s.expect(0, []string{`"is": "can be taken again"`, `"again": 3`}, "history", "blue", "--renderings", "-o", "json")
	s.expect(2, []string{"if any flags in the group"}, "history", "blue", "--renderings", "--diff", "2")
}
