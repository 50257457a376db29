//go:build envtest

package controllers

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

var duration = regexp.MustCompile(`, after [0-9hms]+$`)

// events are those since they were last asked for, sorted and without durations.
func (tt *tenantTest) events() []string {
	tt.t.Helper()
	recorded := tt.program.recorder.(*events.FakeRecorder).Events
	var all []string
	for {
		select {
		case text := <-recorded:
			all = append(all, duration.ReplaceAllString(text, ", after a while"))
		default:
			slices.Sort(all)
			return all
		}
	}
}

func TestEventsTellTheLifeOfATenant(t *testing.T) {
	tt := newRollingTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		small(c)
		c.Spec.Version = "v1.36.2"
	})
	tt.settle()
	for _, text := range tt.events() {
		if strings.HasPrefix(text, corev1.EventTypeWarning) || strings.Contains(text, "Rollout") || strings.Contains(text, "Scale") {
			t.Errorf("while it was made it said %s", text)
		}
	}
	controlPlane := func(change func(*controlplanev1.KOKControlPlane)) {
		edit(t, tt.key, &controlplanev1.KOKControlPlane{}, change)
	}
	adopted := func(component, number, why string) string {
		return "Normal RolloutStarted " + component + " takes a new rendering, revision " + number + ": " + why
	}
	const (
		newVersion = "the version was v1.36.2 and is v1.36.3"
		changed    = "the spec, or what it takes from the Cluster, changed"
		rolledOut  = "Normal RolloutFinished All pods are up to date, after a while"
	)
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"nothing happens", func() {}, nil},
		{"a person edits one object and deletes another", func() {
			edit(t, tt.inNamespace("blue-kube-scheduler"), &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](7) })
			tt.delete(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: "blue-kube-controller-manager"}})
		}, []string{
			`Warning Repaired Deployment blue-kube-scheduler was edited by "kubectl-edit" and is put back`,
			"Warning Repaired PodDisruptionBudget blue-kube-controller-manager was deleted and is made again",
		}},
		{"a component changes", func() {
			controlPlane(func(c *controlplanev1.KOKControlPlane) { c.Spec.KubeScheduler.Replicas = ptr.To[int32](2) })
		}, []string{adopted("kube-scheduler", "2", changed)}},
		{"the budget goes that nobody wants any more", func() {
			controlPlane(func(c *controlplanev1.KOKControlPlane) { c.Spec.KubeScheduler.Replicas = ptr.To[int32](1) })
		}, []string{adopted("kube-scheduler", "3", changed)}},
		{"and comes again, which is no repair", func() {
			controlPlane(func(c *controlplanev1.KOKControlPlane) { c.Spec.KubeScheduler.Replicas = ptr.To[int32](2) })
		}, []string{adopted("kube-scheduler", "4", changed)}},
		{"an upgrade", func() { controlPlane(func(c *controlplanev1.KOKControlPlane) { c.Spec.Version = "v1.36.3" }) }, []string{
			"Normal UpgradeFinished The upgrade from v1.36.2 to v1.36.3 is over, after a while",
			"Normal UpgradeStarted The upgrade from v1.36.2 to v1.36.3 reaches the API servers",
			adopted("etcd-data", "2", newVersion),
			adopted("etcd-events", "2", newVersion),
			adopted("kube-apiserver", "2", newVersion),
			adopted("kube-controller-manager", "2", newVersion),
			adopted("kube-scheduler", "5", newVersion),
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.do()
			tt.settle()
			got := slices.DeleteFunc(tt.events(), func(text string) bool { return text == rolledOut })
			slices.Sort(step.want)
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("want (-) and got (+):\n%s", diff)
			}
		})
	}
	tt.start(&gate{})
	tt.settle()
	if again := tt.events(); len(again) > 0 {
		t.Errorf("another program says %v", again)
	}
}
