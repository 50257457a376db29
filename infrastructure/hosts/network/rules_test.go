package network

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOnlyANodesRulesGo(t *testing.T) {
	const saved = `# Generated
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:CNI-1a2b - [0:0]
:DOCKER - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -j DOCKER
-A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-SVC-X
-A DOCKER -j RETURN
COMMIT
*filter
:INPUT DROP [0:0]
:cali-INPUT - [0:0]
:CILIUM_INPUT - [0:0]
:FORWARD ACCEPT [0:0]
-A INPUT -p tcp --dport 22 -m comment --comment "not for KUBE-" -j ACCEPT
-A INPUT -m comment --comment "cali:Cz_u1IQiXIMmKD4c" -j cali-INPUT
-A CILIUM_INPUT -j DROP
COMMIT
`
	const want = `*nat
-F KUBE-SERVICES
-F CNI-1a2b
-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-X KUBE-SERVICES
-X CNI-1a2b
COMMIT
*filter
-F cali-INPUT
-F CILIUM_INPUT
-D INPUT -m comment --comment "cali:Cz_u1IQiXIMmKD4c" -j cali-INPUT
-X cali-INPUT
-X CILIUM_INPUT
COMMIT
`
	for saved, want := range map[string]string{saved: want, "*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n": ""} {
		got, err := removal(printed(saved))
		if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	}
}
