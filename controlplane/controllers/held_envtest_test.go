//go:build envtest

package controllers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

func (tt *tenantTest) editSpec(change func(*controlplanev1.KOKControlPlaneSpec)) {
	tt.t.Helper()
	edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { change(&c.Spec) })
	tt.settle()
}

// rollOutSoon asks for a rollout after all that there is, at a time that has passed in two minutes.
func rollOutSoon(s *controlplanev1.KOKControlPlaneSpec) {
	s.Rollout.After = metav1.NewTime(time.Now().Add(time.Minute)).Rfc3339Copy()
}

func inTwoMinutes() clock.Clock { return clocktesting.NewFakeClock(time.Now().Add(2 * time.Minute)) }

// expectReconciled compares what the condition says; empty for that all is done.
func (tt *tenantTest) expectReconciled(when, says string) {
	tt.t.Helper()
	got := conditions.Get(tt.controlPlane(), conditionsv1.ReconciledCondition)
	if (got.Status == metav1.ConditionTrue) != (says == "") || !strings.Contains(got.Message, says) {
		tt.t.Errorf("%s it is reconciled: %s %q, want %q", when, got.Status, got.Message, says)
	}
}

// expectVersions compares the version of API servers, and that of kube-proxy in the tenant.
func (tt *tenantTest) expectVersions(when, version string) {
	tt.t.Helper()
	proxy := &appsv1.DaemonSet{}
	if err := environment.Client.Get(tt.t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "kube-proxy"}, proxy); err != nil {
		tt.t.Fatal(err)
	}
	for _, image := range []string{tt.image(names.KubeAPIServer, &appsv1.DaemonSet{}), proxy.Spec.Template.Spec.Containers[0].Image} {
		if !strings.HasSuffix(image, ":"+version) {
			tt.t.Errorf("%s there is %s, want %s", when, image, version)
		}
	}
}

// Kubernetes' version skew policy: kube-proxy is not newer than kube-apiserver.
func TestAnUpgradeWaitsWhileEtcdGainsMembersAndSaysSo(t *testing.T) {
	for component, of := range map[string]func(*controlplanev1.EtcdSpec) *controlplanev1.EtcdClusterSpec{
		names.EtcdData:   func(s *controlplanev1.EtcdSpec) *controlplanev1.EtcdClusterSpec { return &s.Data },
		names.EtcdEvents: func(s *controlplanev1.EtcdSpec) *controlplanev1.EtcdClusterSpec { return &s.Events.EtcdClusterSpec },
	} {
		t.Run(component, func(t *testing.T) {
			tt := beforeUpgrade(t)
			threeHostNodes(t)
			tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) {
				s.Version, of(&s.Etcd).Replicas = "v1.36.3", ptr.To[int32](7)
			})
			tt.expectVersions("while there are too few host nodes", "v1.35.4")
			tt.expectReconciled("while there are too few host nodes", "kube-apiserver takes no change while "+component+" gains members: see ScalingUp")

			tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { of(&s.Etcd).Replicas = ptr.To[int32](1) })
			tt.expectVersions("when the number was set back", "v1.36.3")
			tt.expectReconciled("when the number was set back", "")
		})
	}
}

func TestAnyChangeThatWaitsForMembersOfEtcdSaysSo(t *testing.T) {
	tt := scaled(t)
	requests := func(cpu string) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Etcd.Data.Replicas = ptr.To[int32](7) })
	tt.expectReconciled("while nothing else is asked for", "")
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.KubeScheduler.Resources = requests("60m") })
	tt.expectReconciled("with a change of the last component", "kube-scheduler takes no change while etcd-data gains members")
	if tt.says(conditionsv1.ReconciledCondition, names.KubeAPIServer)() {
		t.Error("API servers wait, of which no change was asked")
	}
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.KubeAPIServer.Resources = requests("60m") })
	tt.expectReconciled("with a change of API servers", "kube-apiserver takes no change while etcd-data gains members")
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) {
		s.KubeAPIServer.Resources, s.KubeScheduler.Resources = nil, nil
	})
	tt.expectReconciled("when they were taken back", "")
	tt.program.Clock = inTwoMinutes()
	tt.editSpec(rollOutSoon)
	tt.expectReconciled("with a rollout", "kube-apiserver takes no change while etcd-data gains members")
}

// Kubernetes' components go after etcd also while that is on the way to fewer members, which may last. An etcd that
// keeps its pods has nothing that they come after.
func TestAnUpgradeWaitsForAnEtcdThatTakesItAndLosesMembers(t *testing.T) {
	const image = "registry.example/etcd:3.7.0-0"
	const takesNoChange = "etcd-data takes no change while it loses members"
	cases := map[string]struct {
		storage func(*controlplanev1.KOKControlPlane)
		image   string
		// version runs while members go, and reconciled is said then and afterwards.
		version           string
		reconciled, after string
	}{
		"another etcd":               {lasting, image, "v1.35.4", takesNoChange, ""},
		"the same etcd":              {lasting, "", "v1.36.3", "", ""},
		"another etcd, in its pods":  {single, image, "v1.36.3", "etcd-events stays as it is", "etcd-data stays as it is"},
		"the same etcd, in its pods": {single, "", "v1.36.3", "", ""},
	}
	for _, name := range sample.Of(t, 1, slices.Sorted(maps.Keys(cases))) {
		test := cases[name]
		t.Run(name, func(t *testing.T) {
			tt := beforeUpgradeOf(t, test.storage)
			threeHostNodes(t)
			tt.host.broken = func(p *corev1.Pod) bool { return p.Name == statustest.PodName(names.EtcdData, 2) }
			tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Etcd.Data.Replicas = ptr.To[int32](3) })
			if count := etcdclusters.Voters(tt.controlPlane(), names.EtcdData); count != 2 {
				t.Fatalf("%d members vote", count)
			}
			tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Version, s.Etcd.Image = "v1.36.3", test.image })
			answers := tt.program.etcd.Check
			tt.program.etcd.Check = func(ctx context.Context, members map[string]etcd.Address, config *tls.Config) (*etcd.Health, error) {
				health, err := answers(ctx, members, config)
				if err == nil {
					health.Members[0].Err = errors.New("alarm NOSPACE")
				}
				return health, err
			}
			tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Etcd.Data.Replicas = ptr.To[int32](1) })
			reason := fmt.Sprintf("etcd-data: 2 members exist, 1 are wanted: member %s does not answer: without %s the quorum would be at risk",
				statustest.PodName(names.EtcdData, 0), statustest.PodName(names.EtcdData, 1))
			if down := conditions.Get(tt.controlPlane(), conditionsv1.ScalingDownCondition); down.Status != metav1.ConditionTrue || down.Message != reason {
				t.Errorf("while the quorum would be at risk it scales down: %s %q, want %q", down.Status, down.Message, reason)
			}
			if count := etcdclusters.Voters(tt.controlPlane(), names.EtcdData); count != 2 {
				t.Errorf("while the quorum would be at risk %d members vote", count)
			}
			tt.expectReconciled("while the quorum would be at risk", test.reconciled)
			tt.expectVersions("while etcd loses members", test.version)

			tt.program.etcd.Check = answers
			tt.settle()
			tt.expectReconciled("when etcd has lost them", test.after)
			tt.expectVersions("when etcd has lost them", "v1.36.3")
			if got := tt.image(names.EtcdData, &appsv1.StatefulSet{}); test.reconciled == takesNoChange && got != image {
				t.Errorf("etcd has image %s", got)
			}
		})
	}
}

func TestMembersThatGoWhenAPIServersLeaveThemTellWhatHoldsThese(t *testing.T) {
	tt := scaled(t)
	tt.scale(3)
	tt.roll()
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) {
		s.Etcd.Data.Replicas, s.Etcd.Events.Replicas = ptr.To[int32](1), ptr.To[int32](7)
	})
	tt.expectReconciled("with too few host nodes for events", "kube-apiserver takes no change while etcd-events gains members")
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Etcd.Events.Replicas = ptr.To[int32](1) })
	tt.roll()
	tt.expectReconciled("without the others", "")
}

// expectOthersReplaced fails unless API servers were replaced once, and etcd's pods never.
func (tt *tenantTest) expectOthersReplaced(when string) {
	tt.t.Helper()
	for pod, want := range map[string]int{statustest.PodName(names.EtcdData, 0): 1, statustest.PodName(names.EtcdEvents, 0): 1, "blue-kube-apiserver-0": 2} {
		if made := tt.host.made[pod]; made != want {
			tt.t.Errorf("%s %s was made %d times, want %d", when, pod, made, want)
		}
	}
	if rolling := conditions.Get(tt.controlPlane(), conditionsv1.RollingOutCondition); rolling.Status != metav1.ConditionFalse {
		tt.t.Errorf("%s it rolls out: %s", when, rolling.Message)
	}
}

func TestWhatAnEtcdInItsPodsCannotTakeHoldsNothingElse(t *testing.T) {
	for name, test := range map[string]struct {
		change, back func(*controlplanev1.KOKControlPlaneSpec)
	}{
		"a rollout": {
			rollOutSoon,
			func(s *controlplanev1.KOKControlPlaneSpec) { s.Rollout.After = metav1.Time{} },
		},
		"another etcd, and something else": {
			func(s *controlplanev1.KOKControlPlaneSpec) {
				s.Etcd.Image = "registry.example/etcd:3.7.0-0"
				s.Version = "v1.36.3"
			},
			func(s *controlplanev1.KOKControlPlaneSpec) { s.Etcd.Image = "" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt := beforeUpgradeOf(t, single)
			tt.program.Clock = inTwoMinutes()
			tt.editSpec(test.change)
			tt.expectOthersReplaced("after the change")
			for _, component := range etcdcomponent.Components() {
				tt.expectReconciled("after the change", component+" stays as it is")
			}
			tt.editSpec(test.back)
			tt.expectOthersReplaced("when it was taken back")
			tt.expectReconciled("when it was taken back", "")
		})
	}
}

// The version is an input of etcd, whose image may be the same for another.
func TestAnEtcdInItsPodsTakesWhatReplacesNone(t *testing.T) {
	tt := beforeUpgradeOf(t, single)
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Version = "v1.36.3" })
	tt.expectOthersReplaced("after the upgrade")
	tt.expectReconciled("after the upgrade", "")
	if got := tt.revisionsOf(names.EtcdData); got != 2 {
		t.Errorf("it has %d renderings, want 2", got)
	}
}

// A change may come when pods run already and their cluster is not known to be founded.
func TestAChangeWhileAnEtcdInItsPodsIsFoundedHoldsNothing(t *testing.T) {
	tt := beforeUpgradeOf(t, single)
	founded := func(is bool) {
		t.Helper()
		controlPlane := tt.controlPlane()
		for i := range controlPlane.Status.Etcd {
			controlPlane.Status.Etcd[i].Bootstrapped = &is
		}
		if err := environment.Client.Status().Update(t.Context(), controlPlane); err != nil {
			t.Fatal(err)
		}
	}
	edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Etcd.Image, c.Spec.Version = "registry.example/etcd:3.7.0-0", "v1.36.3"
	})
	founded(false)
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	if image := tt.image(names.EtcdData, &appsv1.StatefulSet{}); image != "registry.example/etcd:3.7.0-0" {
		t.Fatalf("etcd's image is %s", image)
	}
	founded(true)
	tt.settle()
	tt.expectOthersReplaced("after the change")
	tt.expectReconciled("after the change", "etcd-data stays as it is")
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Etcd.Image = "" })
	tt.expectOthersReplaced("when it was taken back")
	tt.expectReconciled("when it was taken back", "")
}
