package keyrotation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/nodekeys"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenantprobes"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
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
	configMap := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}}
		}
	}
	found, names := owners{since: since}, needNames{file: "0123456789"}
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
		pod("plain", configMap("kube-root-ca.crt")),
		pod("other", configMap("settings")),
		pod("forged", ownedBy("Deployment", "a, secret/b\ncluster CA: over")),
		pod("too-long", ownedBy("Deployment", strings.Repeat("a", 300))),
	} {
		found.add(p)
	}
	named, more := found.first(names)
	if want := []string{
		"default/DaemonSet/agent", "default/Deployment/web", "default/Pod/alone", "default/Pod/forged", "default/Pod/plain", "default/Pod/too-long", "default/ReplicaSet/by-hand",
	}; !slices.Equal(named, want) || more != 0 {
		t.Errorf("named are %v and %d more, want %v", named, more, want)
	}
	for i := range mostNamed {
		found.add(pod(fmt.Sprintf("z-%02d", i)))
	}
	if named, more = found.first(names); len(named) != mostNamed || more != 7 {
		t.Errorf("%d are named and %d more", len(named), more)
	}
	names.givenUp = []string{"pods/0123456789/default/DaemonSet/agent"}
	if named, more = found.first(names); len(named) != mostNamed || more != 6 || named[0] != "default/Deployment/web" {
		t.Errorf("%v are named and %d more after one was given up", named, more)
	}
}

func TestWhatNeedsTheFormerClusterCAIsNamed(t *testing.T) {
	names := needNames{file: "0123456789"}
	seen := clusterCASeen{
		nodes: []nodekeys.Lag{{Node: "worker-1", Why: "its pod is not ready (yet)"}}, moreNodes: 2,
		owners: []string{"default/Deployment/web"}, moreOwners: 3,
	}
	var got []string
	for _, need := range seen.needs(names, true, true, "") {
		if got = append(got, need.Name+" "+need.Why); need.Lost || need.Unknown {
			t.Errorf("nobody can give up %s", need.Name)
		}
	}
	if want := []string{
		"node/0123456789/worker-1 its pod is not ready (yet)", "other-nodes/0123456789 2 more Nodes, which are named when others of them are mended or given up",
		"pods/0123456789/default/Deployment/web ",
		"other-pods/0123456789 pods of 3 more owners, which are named when others of them have restarted or are given up",
	}; !slices.Equal(got, want) {
		t.Errorf("named are %v, want %v", got, want)
	}
	if needs := (clusterCASeen{}).needs(names, true, true, ""); len(needs) != 0 {
		t.Errorf("something needs it: %v", needs)
	}
	needs := (clusterCASeen{}).needs(names, false, true, "it does not answer")
	if len(needs) != 1 || needs[0].Name != "unseen/0123456789" || needs[0].Why != "it does not answer" {
		t.Errorf("a tenant that was not seen needs %v", needs)
	}
}

// It is the same in each phase: a node that never gets what the phase wants, such as one without a kubelet, is mended, deleted or given up.
func TestANodeThatIsGivenUpHoldsUpNoPhase(t *testing.T) {
	seen := clusterCASeen{published: []string{"ConfigMap a"}, nodes: []nodekeys.Lag{{Node: "w1", Why: "away"}, {Node: "w2", Why: "away, too"}}, moreNodes: 298}
	for name, test := range map[string]struct {
		givenUp []string
		want    []string
	}{
		"nothing is": {nil, []string{"ConfigMap a", "Node w1 (away), Node w2 (away, too) and 298 more; mend or delete each, or go on without it by node/0123456789/<name> in " +
			"spec.keyRotation.completeAnyway, and other-nodes/0123456789 for those that are not named"}},
		"one is, and all others": {[]string{"node/0123456789/w1", "other-nodes/0123456789"}, []string{
			"ConfigMap a", "Node w2 (away, too); mend or delete each, or go on without it by node/0123456789/<name> in spec.keyRotation.completeAnyway"}},
		"all are":                       {[]string{"node/0123456789/w1", "node/0123456789/w2", "other-nodes/0123456789"}, []string{"ConfigMap a"}},
		"nodes of another rotation are": {[]string{"node/9876543210/w1", "node/9876543210/w2", "other-nodes/9876543210"}, seen.behind(needNames{file: "0123456789"})},
	} {
		if got := seen.behind(needNames{"0123456789", test.givenUp}); !slices.Equal(got, test.want) {
			t.Errorf("%s: behind are %q, want %q", name, got, test.want)
		}
	}
	if got := (clusterCASeen{}).behind(needNames{}); len(got) > 0 {
		t.Errorf("behind are %q", got)
	}
}

// Kubernetes refuses a status with a condition whose message is longer than 32,768 bytes.
func TestNoTenantMakesAConditionTooLong(t *testing.T) {
	seen := clusterCASeen{moreNodes: 10000, moreOwners: 10000}
	for range mostNamed {
		seen.nodes = append(seen.nodes, nodekeys.Lag{Node: strings.Repeat("n", 253), Why: strings.Repeat("w", 250)})
		seen.owners = append(seen.owners, strings.Repeat("o", longestOwner))
	}
	names := needNames{file: "0123456789"}
	state := rotation.State{
		Record: rotation.Record{Asked: "2030-01-02T03:04:05Z", Phase: rotation.Trusting}, Complete: "2030-01-02T03:04:05Z", Behind: seen.behind(names), Needs: seen.needs(names, true, true, ""),
	}
	for range mostNamed { // A service account key rotates with it.
		state.Needs = append(state.Needs, rotation.Need{Name: "secret/0123456789/" + strings.Repeat("s", 63+1+253)})
	}
	for _, state.Record.Phase = range []rotation.Phase{rotation.Trusting, rotation.Using, rotation.Prepared, rotation.Dropping} {
		if length := len(rotation.Decide(state).Reason); length < 4000 || length > 20000 {
			t.Errorf("%s: the message has %d bytes", state.Record.Phase, length)
		}
	}
}

// A rotation may be prepared for days. Before the end nothing counts but a look that was made for it.
func TestALookThatNothingWaitsForIsMadeSeldom(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		check clusterCAProbe
		rests bool
	}{
		"the first one":                        {clusterCAProbe{phase: rotation.Prepared}, false},
		"soon after one that found nothing":    {clusterCAProbe{phase: rotation.Prepared, looked: now.Add(-time.Minute)}, true},
		"a while after it":                     {clusterCAProbe{phase: rotation.Prepared, looked: now.Add(-calm)}, false},
		"the end waits for it":                 {clusterCAProbe{phase: rotation.Prepared, looked: now.Add(-time.Minute), due: true}, false},
		"a phase that ends by itself waits":    {clusterCAProbe{phase: rotation.Using, looked: now.Add(-time.Minute)}, false},
		"the end of the rotation waits for it": {clusterCAProbe{phase: rotation.Dropping, looked: now.Add(-time.Minute)}, false},
	} {
		if got := test.check.rests(now); got != test.rests {
			t.Errorf("%s: it rests %t", name, got)
		}
	}
	identity := func(phase rotation.Phase, due bool, givenUp ...string) string {
		check := clusterCAProbe{phase: phase, due: due, names: needNames{givenUp: givenUp}, api: (tenantprobes.Tenants{Guards: &tenantapi.Guards{}}).Of(&controlplanev1.KOKControlPlane{}, &pki.KeyMaterial{})}
		return check.probe(rotation.Record{Asked: "2030-01-02T03:04:05Z", Phase: phase}).Identity
	}
	if identity(rotation.Prepared, false) == identity(rotation.Prepared, true) {
		t.Error("the end does not wait for a look of its own")
	}
	if identity(rotation.Prepared, true, "a") == identity(rotation.Prepared, true, "b") {
		t.Error("a look counts that left out a name which is not given up any more")
	}
	if identity(rotation.Using, false) != identity(rotation.Using, true) {
		t.Error("a phase that ends by itself looks twice")
	}
}

// A look that has not ended may still find something that needs the former CA.
func TestALookThatHasNotEndedIsNotGivenUp(t *testing.T) {
	names := needNames{file: "0123456789"}
	for told, want := range map[bool]rotation.Kind{false: rotation.Wait, true: rotation.Write} {
		state := rotation.State{
			Record: rotation.Record{Asked: "2030-01-02T03:04:05Z", Phase: rotation.Prepared}, Complete: "2030-01-02T03:04:05Z",
			GivenUp: []string{names.unseen()}, Needs: (clusterCASeen{}).needs(names, false, told, "the tenant is being probed"),
		}
		if got := rotation.Decide(state); got.Kind != want {
			t.Errorf("a look of which it is %t that it ended: %+v", told, got)
		}
	}
}
