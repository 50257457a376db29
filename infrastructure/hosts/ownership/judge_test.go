package ownership

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

func TestJudgeSaysWhoseAHostIs(t *testing.T) {
	address := netip.MustParseAddr
	theirs := &records.Record{Namespace: "other", Name: "worker-9", InstanceID: "id-9"}
	nodes := []Node{
		{Name: "b", Addresses: []netip.Addr{address("192.0.2.7")}},
		{Name: "a", Addresses: []netip.Addr{address("2001:db8::7"), address("::ffff:192.0.2.7")}},
	}
	const fact = "the host cluster's Node a has the address 192.0.2.7"
	at := Usage{Addresses: []netip.Addr{address("2001:db8::7"), address("192.0.2.7")}}
	for name, test := range map[string]struct {
		usage    Usage
		claimant Claimant
		want     Verdict
	}{
		"a plain host":                                      {Usage{}, Claimant{}, Verdict{Use: Free}},
		"a plain host of a machine":                         {Usage{}, Claimant{InstanceID: "id-1"}, Verdict{Use: Free}},
		"a plain host with a word that nothing needs":       {Usage{}, Claimant{TakeOver: "kubelet runs"}, Verdict{Use: Free}},
		"its machine":                                       {Usage{Record: &records.Record{InstanceID: "id-1"}, Kubelets: []string{onworker.KubeletUnit}, Kubeconfig: true}, Claimant{InstanceID: "id-1"}, Verdict{Use: Ours}},
		"its machine, without its record":                   {Usage{Kubelets: []string{onworker.KubeletUnit}, Kubeconfig: true}, Claimant{InstanceID: "id-1", Bootstrapped: true}, Verdict{Use: Ours}},
		"a machine of others":                               {Usage{Record: theirs}, Claimant{InstanceID: "id-1", Bootstrapped: true}, Verdict{Use: OfOthers, Record: theirs}},
		"a machine of others that a person wants":           {Usage{Record: theirs, Kubelets: []string{onworker.KubeletUnit}}, Claimant{TakeOver: "kubelet runs"}, Verdict{Use: OfOthers, Record: theirs}},
		"a record that names no machine":                    {Usage{Record: &records.Record{}}, Claimant{InstanceID: "id-1"}, Verdict{Use: OfOthers, Record: &records.Record{}}},
		"a record that names no machine, without a machine": {Usage{Record: &records.Record{}}, Claimant{}, Verdict{Use: OfOthers, Record: &records.Record{}}},
		"software of nobody whom we know":                   {Usage{Software: true}, Claimant{}, Verdict{Use: OfOthers, Fact: "/opt/kok-software/state.json is there"}},
		"a kubeconfig that leads nowhere":                   {Usage{Kubeconfig: true}, Claimant{}, Verdict{Use: OfOthers, Fact: "/etc/kubernetes/kubelet.conf is there"}},
		"two Nodes at its addresses":                        {at, Claimant{Nodes: nodes}, Verdict{Use: OfOthers, Fact: fact}},
		"a Node at the address that it is reached at":       {Usage{}, Claimant{Nodes: nodes, Reached: address("192.0.2.7")}, Verdict{Use: OfOthers, Fact: fact}},
		"a host that is reached by its name":                {Usage{}, Claimant{Nodes: []Node{{Name: "a", Addresses: []netip.Addr{{}}}}}, Verdict{Use: Free}},
		"a Node that a person accepts":                      {at, Claimant{Nodes: nodes, TakeOver: fact}, Verdict{Use: TakenOver, Fact: fact}},
		"a Node beside the kubelet that a person accepts": {Usage{Kubelets: []string{onworker.KubeletUnit}, Addresses: at.Addresses}, Claimant{Nodes: nodes, TakeOver: "kubelet runs"},
			Verdict{Use: OfOthers, Fact: "kubelet runs, and " + fact}},
		"a word that is longer than the fact": {at, Claimant{Nodes: nodes, TakeOver: fact + " "}, Verdict{Use: OfOthers, Fact: fact}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Judge(&test.usage, &test.claimant)
			if fmt.Sprintf("%+v", got.Record) != fmt.Sprintf("%+v", test.want.Record) || got.Use != test.want.Use || got.Fact != test.want.Fact {
				t.Errorf("it is %+v", got)
			}
			if refused := got.Err() != nil; refused != (test.want.Use == OfOthers) {
				t.Errorf("refused: %t", refused)
			}
		})
	}
}

// What a host writes goes into conditions, and a person copies it.
func TestAKubeconfigsServerIsPrintedWithoutSecretsAndWithinBounds(t *testing.T) {
	for line, want := range map[string]string{
		"server: https://10.0.0.1:6443\n":                      "https://10.0.0.1:6443",
		`server": "https://API.Example.com/`:                   "https://api.example.com",
		"server: 'http://[2001:DB8::1]:8080/path?token=abc":    "http://[2001:db8::1]:8080",
		"server: https://admin:hunter2@10.0.0.1:6443":          "https://10.0.0.1:6443",
		"server: https://a.example\nserver: https://b.example": "https://a.example",
		"server: https://a\"b":                                 "",
		"server: https://a\x1b[0m":                             "",
		"server: https://ä.example":                            "",
		"server: https://10.0.0.1:99999":                       "",
		"server: https://10.0.0.1:0":                           "",
		"server: https://[fe80::1%25eth0]:6443":                "",
		"server: https://" + strings.Repeat("a", 300):          "",
		"server: https://":                                     "",
		"grep: no such file":                                   "",
		"":                                                     "",
	} {
		if got := serverIn([]byte(line)); got != want {
			t.Errorf("%q became %q, want %q", line, got, want)
		}
	}
}

// The schema has room for every fact.
func TestTheLongestFactCanBeRepeated(t *testing.T) {
	const most = 1024 // MaxLength of spec.takeOver
	name := strings.Repeat("n", 253)
	address := netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5555:6666")
	usage := &Usage{Kubelets: KubeletUnits, Kubeconfig: true, Server: serverIn([]byte("https://" + name + ":65535")), Addresses: []netip.Addr{address}}
	if fact := factOf(usage, &Claimant{Nodes: []Node{{Name: name, Addresses: []netip.Addr{address}}}}); len(fact) > most || strings.Count(fact, name) != 2 {
		t.Errorf("it has %d bytes: %s", len(fact), fact)
	}
}
