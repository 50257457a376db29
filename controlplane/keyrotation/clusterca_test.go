package keyrotation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
)

// A node that trusts the new CA too late would refuse API servers, and so would one that drops the former one too early.
func TestWhatNodesHaveInEachPhase(t *testing.T) {
	const asked = "2030-01-02T03:04:05Z"
	for _, test := range []struct {
		phase           rotation.Phase
		podsBehind      bool
		trusted, signer string
		step            int
	}{
		{rotation.Trusting, true, "former new", "", 1},
		{rotation.Trusting, false, "former new", "", 1},
		{rotation.Using, true, "former new", "", 1},
		{rotation.Using, false, "former new", "new", 2},
		{rotation.Prepared, false, "former new", "new", 2},
		{rotation.Dropping, true, "former new", "new", 2},
		{rotation.Dropping, false, "new", "new", 3},
	} {
		got := wantedOfNodes(rotation.Record{Asked: asked, Phase: test.phase}, test.podsBehind, []byte("former "), []byte("new"))
		if got == nil || string(got.Trusted) != test.trusted || string(got.Signer) != test.signer || got.Order != (wanted.Order{Rotation: asked, Step: test.step}) {
			t.Errorf("%s, while it is %t that a pod is behind: nodes have %+v", test.phase, test.podsBehind, got)
		}
		if _, err := wanted.ParseOrder(got.Order.String()); err != nil {
			t.Errorf("nodes cannot read %s: %v", got.Order, err)
		}
	}
	for _, phase := range []rotation.Phase{"", rotation.Over} {
		if got := wantedOfNodes(rotation.Record{Asked: asked, Phase: phase}, false, nil, nil); got != nil {
			t.Errorf("%q: nodes have %+v", phase, got)
		}
	}
}

func TestWhosePodsMayTrustTheFormerCAAlone(t *testing.T) {
	since := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	pod := func(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
		made := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: metav1.NewTime(since.Add(-time.Second))},
			Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}}}},
			}}}}},
		}
		for _, change := range changes {
			change(made)
		}
		return made
	}
	ownedBy := func(kind, name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr.To(true)}}
		}
	}
	of := func(hash string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{"pod-template-hash": hash} }
	}
	found := owners{since: since}
	for _, p := range []*corev1.Pod{
		pod("alone"),
		pod("web-1-a", ownedBy("ReplicaSet", "web-1"), of("1")),
		pod("web-1-b", ownedBy("ReplicaSet", "web-1"), of("1")),
		pod("by-hand-a", ownedBy("ReplicaSet", "by-hand")),
		pod("agent-a", ownedBy("DaemonSet", "agent")),
		pod("later", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(since) }),
		pod("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		pod("without", func(p *corev1.Pod) { p.Spec.Volumes = nil }),
	} {
		found.add(p)
	}
	named, more := found.first()
	if want := []string{"default/DaemonSet/agent", "default/Deployment/web", "default/Pod/alone", "default/ReplicaSet/by-hand"}; !slices.Equal(named, want) || more != 0 {
		t.Errorf("named are %v and %d more, want %v", named, more, want)
	}
	for i := range mostOwners {
		found.add(pod(fmt.Sprintf("z-%02d", i)))
	}
	if named, more = found.first(); len(named) != mostOwners || more != 4 {
		t.Errorf("%d are named and %d more", len(named), more)
	}
}

func TestWhatNeedsTheFormerClusterCAIsNamed(t *testing.T) {
	seen := clusterCASeen{
		nodes:  []string{"worker-1 (its pod is not ready (yet))"},
		owners: []string{"default/Deployment/web"}, more: 3,
	}
	var got []string
	for _, need := range seen.needs("0123456789", true, "") {
		if got = append(got, need.Name+" "+need.Why); need.Lost || need.Unknown {
			t.Errorf("nobody can give up %s", need.Name)
		}
	}
	if want := []string{
		"node/0123456789/worker-1 its pod is not ready (yet)", "pods/0123456789/default/Deployment/web ",
		"other-pods/0123456789 pods of 3 more owners, which are named when others of them have restarted",
	}; !slices.Equal(got, want) {
		t.Errorf("named are %v, want %v", got, want)
	}
	if needs := (clusterCASeen{}).needs("0123456789", true, ""); len(needs) != 0 {
		t.Errorf("something needs it: %v", needs)
	}
	needs := (clusterCASeen{}).needs("0123456789", false, "it does not answer")
	if len(needs) != 1 || needs[0].Name != "unseen/0123456789" || needs[0].Why != "it does not answer" {
		t.Errorf("a tenant that was not seen needs %v", needs)
	}
}
