package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// labHosts are a lab's hosts as up made them, and more.
func labHosts(t *testing.T, more ...string) []*host.Host {
	t.Helper()
	var hosts []*host.Host
	for _, name := range append([]string{"cloud-1", "idc-1", "idc-2", "idc-3"}, more...) {
		h, err := host.New(host.DefaultNetwork(), t.TempDir(), name)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, h)
	}
	return hosts
}

// nodesOf are the nodes of hosts, all ready; those of the data centre are host nodes.
func nodesOf(hosts []*host.Host, change func(map[string]*corev1.Node)) []corev1.Node {
	byName := map[string]*corev1.Node{}
	for _, h := range hosts {
		if h.Worker() {
			continue
		}
		node := &corev1.Node{}
		node.Name = h.Name
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if h.Site == host.SiteIDC {
			node.Labels = map[string]string{controlplanev1.HostNodeLabel: "true"}
		}
		byName[h.Name] = node
	}
	if change != nil {
		change(byName)
	}
	var nodes []corev1.Node
	for _, node := range byName {
		nodes = append(nodes, *node)
	}
	return nodes
}

func TestControlPlanesAreMeasuredOnThreeHostNodesWhateverElseThereIs(t *testing.T) {
	for name, test := range map[string]struct {
		more   []string
		change func(map[string]*corev1.Node)
		want   string
		others bool
		err    string
	}{
		"a new lab":                      {want: "idc-1 idc-2 idc-3"},
		"the workers of a tenant":        {more: []string{"worker-1", "worker-2"}, want: "idc-1 idc-2 idc-3"},
		"more host nodes are kept out":   {more: []string{"idc-4", "idc-5", "worker-1"}, want: "idc-1 idc-2 idc-3", others: true},
		"a cordoned one has a successor": {more: []string{"idc-4"}, change: func(n map[string]*corev1.Node) { n["idc-2"].Spec.Unschedulable = true }, want: "idc-1 idc-3 idc-4", others: true},
		"a host that joins has no node yet": {more: []string{"idc-4"}, change: func(n map[string]*corev1.Node) { delete(n, "idc-4") },
			want: "idc-1 idc-2 idc-3"},
		"one that is no host node is left alone": {more: []string{"idc-4"}, change: func(n map[string]*corev1.Node) { n["idc-1"].Labels = nil },
			want: "idc-2 idc-3 idc-4"},
		"the cloud's node may be a host node too": {change: func(n map[string]*corev1.Node) {
			n["cloud-1"].Labels = map[string]string{controlplanev1.HostNodeLabel: "true"}
		}, want: "idc-1 idc-2 idc-3", others: true},
		"a taint that only advises": {change: func(n map[string]*corev1.Node) {
			n["idc-1"].Spec.Taints = []corev1.Taint{{Key: "slow", Effect: corev1.TaintEffectPreferNoSchedule}}
		}, want: "idc-1 idc-2 idc-3"},
		"too few: one is cordoned": {change: func(n map[string]*corev1.Node) { n["idc-2"].Spec.Unschedulable = true },
			err: "2 can be used:\n  idc-2 is cordoned: kubectl uncordon idc-2"},
		"too few: one is tainted": {change: func(n map[string]*corev1.Node) {
			n["idc-3"].Spec.Taints = []corev1.Taint{{Key: "mine", Value: "yes", Effect: corev1.TaintEffectNoExecute}}
		}, err: "idc-3 has a taint: kubectl taint node idc-3 mine:NoExecute-"},
		"too few: one is not ready": {change: func(n map[string]*corev1.Node) { n["idc-1"].Status.Conditions = nil },
			err: "idc-1 is not ready: kubectl describe node idc-1"},
		"too few: one is no node": {change: func(n map[string]*corev1.Node) { delete(n, "idc-1") },
			err: "idc-1 is no node of the host cluster"},
		"too few: one is no host node": {change: func(n map[string]*corev1.Node) { n["idc-1"].Labels[controlplanev1.HostNodeLabel] = "false" },
			err: "idc-1 is no host node: kubectl label node idc-1 --overwrite kok.cluster.x-k8s.io/host-node=true"},
	} {
		t.Run(name, func(t *testing.T) {
			hosts := labHosts(t, test.more...)
			chosen, others, err := choose(hosts, nodesOf(hosts, test.change), 3)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, h := range chosen {
				names = append(names, h.Name)
			}
			if got := strings.Join(names, " "); got != test.want || others != test.others {
				t.Errorf("chosen are %s, others: %t; want %s, %t", got, others, test.want, test.others)
			}
		})
	}
}

func TestHostNodesAreAsBeforeOnceTheyAreGivenBack(t *testing.T) {
	hosts := labHosts(t, "idc-4")
	nodes := nodesOf(hosts, func(n map[string]*corev1.Node) { n["idc-4"].Labels[apartLabel] = "left" })
	objects := fake.NewClientBuilder().WithScheme(scheme.Scheme())
	for i := range nodes {
		objects = objects.WithObjects(&nodes[i])
	}
	b := &bench{client: objects.Build(), hosts: hosts[1:4], apart: map[string]string{apartLabel: "true"}}
	labelled := func() (names []string) {
		list := &corev1.NodeList{}
		if err := b.client.List(t.Context(), list, client.MatchingLabels(b.apart)); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names
	}
	if err := b.giveBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.setApart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(labelled(), " "); got != "idc-1 idc-2 idc-3" {
		t.Errorf("set apart are %s", got)
	}
	if err := b.giveBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := &corev1.NodeList{}
	if err := b.client.List(t.Context(), list, client.HasLabels{apartLabel}); err != nil || len(list.Items) > 0 {
		t.Errorf("%d nodes have the label still, %v", len(list.Items), err)
	}
}
