//go:build envtest

package controllers

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/adoption"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
)

// formerAnnotation is on pods that an older provider rendered.
const formerAnnotation = "example.com/rendering"

// newRolledOutTest is a tenant whose components have what a newer provider rendered, in revision 2, of the inputs that an older one
// rendered otherwise, in revision 1.
func newRolledOutTest(t *testing.T) *tenantTest {
	t.Helper()
	tt := newRollingTenantTest(t, lasting)
	tt.settle()
	tt.storeRevisions(func(stored *appsv1.ControllerRevision) bool {
		content := map[string]any{}
		if err := json.Unmarshal(stored.Data.Raw, &content); err != nil {
			t.Fatal(err)
		}
		items, _ := content["items"].([]any)
		for _, item := range items {
			spec, _ := item.(map[string]any)["spec"].(map[string]any)
			if template, ok := spec["template"].(map[string]any); ok {
				metadata := template["metadata"].(map[string]any)
				annotations, _ := metadata["annotations"].(map[string]any)
				if annotations == nil {
					annotations = map[string]any{}
				}
				annotations[formerAnnotation] = "former"
				metadata["annotations"] = annotations
			}
		}
		raw, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		stored.Data.Raw = raw
		return true
	})
	tt.settle()
	return tt
}

// rollOut has all components take what the present provider renders.
func (tt *tenantTest) rollOut() {
	tt.t.Helper()
	tt.program.Clock = inTwoMinutes()
	tt.editSpec(rollOutSoon)
}

// takeAgain names renderings in spec.
func (tt *tenantTest) takeAgain(named ...controlplanev1.StoredRendering) {
	tt.t.Helper()
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Rollout.Renderings = named })
}

// templates are the templates of pods, as bytes, by component.
func (tt *tenantTest) templates() map[string]string {
	tt.t.Helper()
	all := map[string]string{}
	for _, object := range tt.objects() {
		template := patches.PodTemplate(object)
		if template == nil || !slices.Contains([]string{"StatefulSet", "DaemonSet", "Deployment"}, object.GetObjectKind().GroupVersionKind().Kind) {
			continue
		}
		raw, err := json.Marshal(template)
		if err != nil {
			tt.t.Fatal(err)
		}
		all[strings.TrimPrefix(object.GetName(), "blue-")] = string(raw)
	}
	return all
}

// newest is the number of the newest rendering of a component, and that of the one that it was taken from.
func (tt *tenantTest) newest(component string) (number, again int64) {
	tt.t.Helper()
	newest := tt.newestOf(component)
	stored, err := revision.Read(newest)
	if err != nil {
		tt.t.Fatal(err)
	}
	return newest.Revision, stored.Again
}

func TestAComponentTakesAFormerRenderingAgain(t *testing.T) {
	tt := newRolledOutTest(t)
	former := tt.templates()
	tt.rollOut()
	rolledOut := tt.templates()
	for _, component := range registry.Components.Names() {
		if former[component] == rolledOut[component] || !strings.Contains(former[component], formerAnnotation) {
			t.Fatalf("%s is not rendered otherwise: %s", component, rolledOut[component])
		}
	}
	tt.wasMade(names.KubeAPIServer, 3)

	tt.takeAgain(controlplanev1.StoredRendering{Component: names.KubeAPIServer, Revision: 1})
	want := maps.Clone(rolledOut)
	want[names.KubeAPIServer] = former[names.KubeAPIServer]
	if diff := cmp.Diff(want, tt.templates()); diff != "" {
		t.Errorf("templates of pods want (-) and are (+):\n%s", diff)
	}
	number, again := tt.newest(names.KubeAPIServer)
	if from := tt.comesFrom(names.KubeAPIServer); number != 3 || again != 1 || from != "blue-spec-3" {
		t.Errorf("the newest rendering is %d, of revision %d, and comes from %s", number, again, from)
	}
	tt.wasMade(names.KubeAPIServer, 4)
	tt.wasMade(names.KubeScheduler, 3)
	tt.expectReconciled("with the former rendering", "")
	tt.expectRest("with the former rendering")
	if !slices.ContainsFunc(tt.events(), func(event string) bool {
		return strings.Contains(event, "kube-apiserver takes a new rendering, revision 3: spec.rollout.renderings names revision 1, which it takes again")
	}) {
		t.Errorf("Events say %v", tt.events())
	}

	for _, step := range []struct {
		does, says string
		do         func()
	}{
		{"the entry is taken out", "", func() { tt.takeAgain() }},
		{"a revision is named that is not there",
			"spec.rollout.renderings: kube-apiserver does not take revision 9 again, which is not there: remove the entry, or name another revision that `kok history blue --renderings` lists",
			func() { tt.takeAgain(controlplanev1.StoredRendering{Component: names.KubeAPIServer, Revision: 9}) }},
		{"the revision with the same objects is named", "", func() {
			tt.takeAgain(controlplanev1.StoredRendering{Component: names.KubeAPIServer, Revision: 3})
		}},
		{"the entry is taken out again", "", func() { tt.takeAgain() }},
		{"another program comes", "", func() {
			ahead := tt.program.Clock
			tt.start(&gate{})
			tt.program.Clock = ahead
			tt.settle()
		}},
	} {
		pods := tt.podUIDs()
		step.do()
		tt.expectReconciled(step.does, step.says)
		tt.expectRest(step.does)
		if number, _ := tt.newest(names.KubeAPIServer); number != 3 || !maps.Equal(pods, tt.podUIDs()) {
			t.Errorf("%s: the newest rendering is %d, pods were %v and are %v", step.does, number, pods, tt.podUIDs())
		}
	}
}

// What it was made from tells whether a rendering is of the present spec.
func TestARenderingOfOtherInputsIsNotTakenAgain(t *testing.T) {
	tt := newRolledOutTest(t)
	former := tt.templates()
	tt.rollOut()
	tt.argue("4")
	tt.settle()
	for _, test := range []struct {
		does, says string
		do         func()
		number     int64
	}{
		{"it is named", "spec.rollout.renderings: kube-scheduler does not take revision 1 again, which was made from other inputs", func() {
			tt.takeAgain(controlplanev1.StoredRendering{Component: names.KubeScheduler, Revision: 1})
		}, 3},
		{"spec is as it was", "", func() {
			tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.KubeScheduler.ExtraArgs = nil })
		}, 4},
		{"spec is another again", "which was made from other inputs", func() { tt.argue("5"); tt.settle() }, 5},
	} {
		test.do()
		tt.expectReconciled(test.does, test.says)
		tt.expectRest(test.does)
		if number, _ := tt.newest(names.KubeScheduler); number != test.number {
			t.Errorf("%s: the newest rendering is %d, want %d", test.does, number, test.number)
		}
		if is := tt.templates()[names.KubeScheduler] == former[names.KubeScheduler]; is != (test.says == "") {
			t.Errorf("%s: it has the former rendering is %t", test.does, is)
		}
	}
}

// Who may write ControllerRevisions gets no more by them for being named.
func TestAForgedRenderingIsNotTakenAgain(t *testing.T) {
	tt := newTenantTest(t, lasting)
	tt.settle()
	before := tt.templates()
	forged := tt.forge(changed(true, "spec", "template", "spec", "hostPID"))
	tt.forge(changed(false, "spec", "template", "spec", "hostPID")) // The newest is as the manager made it.
	tt.settle()
	tt.takeAgain(controlplanev1.StoredRendering{Component: names.KubeScheduler, Revision: forged.Revision})
	tt.expectReconciled("a forged one is named", "kube-scheduler does not take revision 2 again, for ControllerRevision "+client.ObjectKeyFromObject(forged).String()+" is not applied: ")
	if diff := cmp.Diff(before, tt.templates()); diff != "" {
		t.Errorf("it is applied:\n%s", diff)
	}
}

func TestAFormerRenderingIsTakenAgainThroughFaults(t *testing.T) {
	before := func(t *testing.T) *tenantTest {
		tt := newRolledOutTest(t)
		tt.rollOut()
		return tt
	}
	take := func(tt *tenantTest) {
		edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
			c.Spec.Rollout.Renderings = []controlplanev1.StoredRendering{
				{Component: names.KubeAPIServer, Revision: 1}, {Component: names.KubeControllerManager, Revision: 1}, {Component: names.KubeScheduler, Revision: 1},
			}
		})
	}
	withFaults(t, before, func(tt *tenantTest) {
		take(tt)
		tt.settleThroughFaults()
		for _, component := range []string{names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler} {
			if number, again := tt.newest(component); number != 3 || again != 1 {
				tt.t.Errorf("the newest rendering of %s is %d, of revision %d", component, number, again)
			}
			tt.wasMade(component, 4)
		}
		tt.wasMade(names.EtcdData, 3)
	})
}

func TestEtcdTakesNoFormerRendering(t *testing.T) {
	tt := newTenantTest(t, lasting)
	tt.settle()
	for component, says := range map[string]string{
		names.EtcdData:      "spec.rollout.renderings[0].component: Invalid value: \"etcd-data\": takes no former rendering again",
		names.EtcdEvents:    "remove the entry",
		"kube-proxy":        "supported values",
		names.KubeAPIServer: "",
	} {
		c := tt.controlPlane()
		c.Spec.Rollout.Renderings = []controlplanev1.StoredRendering{{Component: component, Revision: 1}}
		err := environment.Client.Update(t.Context(), c, client.DryRunAll)
		if (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: it says %v, want %q", component, err, says)
		}
	}
	c := tt.controlPlane()
	c.Spec.Rollout.Renderings = []controlplanev1.StoredRendering{{Component: names.KubeAPIServer, Revision: 1}, {Component: names.KubeAPIServer, Revision: 2}}
	if err := environment.Client.Update(t.Context(), c, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "Duplicate value") {
		t.Errorf("two of one component: %v", err)
	}
	// One that came past the webhooks is left out.
	if again := adoption.TakenAgain(controlplanev1.RolloutSpec{Renderings: []controlplanev1.StoredRendering{{Component: names.EtcdData, Revision: 1}, {Component: names.KubeScheduler, Revision: 2}}}); !maps.Equal(again, map[string]int64{names.KubeScheduler: 2}) {
		t.Errorf("they are %v", again)
	}
}
