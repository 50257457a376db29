package node_test

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/csr"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/internal/nodetest"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/node"
)

func TestDecide(t *testing.T) {
	former, next := nodetest.NewCA(t), nodetest.NewCA(t)
	list := func(cas ...nodetest.CA) (all []*x509.Certificate) {
		for _, ca := range cas {
			all = append(all, ca.Certificate)
		}
		return all
	}
	both := list(next, former)
	goal := node.Goal{Hash: "using", Trusted: list(former, next), Signer: next.Certificate}
	anySigner := node.Goal{Hash: "trusting", Trusted: list(former, next)}
	files := func(ca, kubeconfig []*x509.Certificate) []node.Trust {
		return []node.Trust{{Path: "kubelet.conf", Kubeconfig: true, AtStart: true, CAs: kubeconfig}, {Path: "ca.crt", CAs: ca}}
	}
	pair := func(by nodetest.CA) []node.Pair {
		return []node.Pair{{Purpose: csr.Client, Current: "current.pem", Leaf: by.Leaf(t, nodetest.Node)}}
	}
	ofFormer, ofNext := pair(former), pair(next)
	strange := pair(former)
	strange[0].Problem = "do it yourself"
	started := time.Now()
	begun, complete := node.Mark{Hash: "using"}, node.Mark{Hash: "using", Complete: true, Before: "1/1"}
	for name, test := range map[string]struct {
		goal node.Goal
		seen node.Seen
		want node.Step
	}{
		"what programs read again is written first, without a mark": {
			goal, node.Seen{Trust: files(list(former), list(former)), Pairs: ofFormer, Kubelet: "1/1"},
			node.Step{Do: node.WriteTrust, Trust: node.Trust{Path: "ca.crt", CAs: list(former)}},
		},
		"a CA that is not wanted is taken away": {
			node.Goal{Hash: "dropping", Trusted: list(next)}, node.Seen{Trust: files(both, both), Kubelet: "1/1"},
			node.Step{Do: node.WriteTrust, Trust: node.Trust{Path: "ca.crt", CAs: both}},
		},
		"the mark is written before what kubelet reads when it starts": {
			goal, node.Seen{Trust: files(both, list(former)), Pairs: ofFormer, Mark: complete, Kubelet: "1/1"},
			node.Step{Do: node.WriteMark, Mark: begun},
		},
		"then the kubeconfig": {
			goal, node.Seen{Trust: files(both, list(former)), Pairs: ofFormer, Mark: begun, Kubelet: "1/1"},
			node.Step{Do: node.WriteTrust, Trust: files(nil, list(former))[0]},
		},
		"the mark is written before a certificate is replaced": {
			goal, node.Seen{Trust: files(both, both), Pairs: ofFormer, Kubelet: "1/1"},
			node.Step{Do: node.WriteMark, Mark: begun},
		},
		"a certificate by the former CA is replaced": {
			goal, node.Seen{Trust: files(both, both), Pairs: ofFormer, Mark: begun, Kubelet: "1/1"},
			node.Step{Do: node.Renew, Pair: ofFormer[0]},
		},
		"a certificate that cannot be replaced is waited for": {
			goal, node.Seen{Trust: files(both, both), Pairs: strange, Kubelet: "1/1"},
			node.Step{Do: node.Wait, Why: "do it yourself"},
		},
		"without a signer any certificate is good": {
			anySigner, node.Seen{Trust: files(both, both), Pairs: strange, Mark: node.Mark{Hash: "trusting", Complete: true}, Kubelet: "1/1"},
			node.Step{},
		},
		"once all is written the kubelet that runs is the one from before": {
			goal, node.Seen{Trust: files(both, both), Pairs: ofNext, Mark: begun, Kubelet: "1/1", Started: started, Changed: started.Add(-time.Hour)},
			node.Step{Do: node.WriteMark, Mark: complete},
		},
		"that kubelet is restarted": {
			goal, node.Seen{Trust: files(both, both), Pairs: ofNext, Mark: complete, Kubelet: "1/1"},
			node.Step{Do: node.Restart, Mark: complete},
		},
		"the next kubelet has read all": {
			goal, node.Seen{Trust: files(both, both), Pairs: ofNext, Mark: complete, Kubelet: "2/9"},
			node.Step{},
		},
		"while none runs it is waited for": {
			goal, node.Seen{Trust: files(both, both), Pairs: ofNext, Mark: complete},
			node.Step{Do: node.Wait, Why: "kubelet does not run: its service manager has to start it"},
		},
		"while none runs the next one is good": {
			goal, node.Seen{Trust: files(both, both), Pairs: ofNext, Mark: begun},
			node.Step{Do: node.WriteMark, Mark: node.Mark{Hash: "using", Complete: true}},
		},
		"a node that joined with all of it keeps its kubelet": {
			goal, node.Seen{Trust: files(both, both), Pairs: ofNext, Kubelet: "1/1", Started: started, Changed: started.Add(-2 * time.Second)},
			node.Step{Do: node.WriteMark, Mark: node.Mark{Hash: "using", Complete: true}},
		},
		"a kubelet that may have started before others wrote is restarted": {
			goal, node.Seen{Trust: files(both, both), Pairs: ofNext, Kubelet: "1/1", Started: started, Changed: started.Add(-time.Second / 2)},
			node.Step{Do: node.WriteMark, Mark: complete},
		},
		"the mark of another phase says nothing of this one": {
			goal, node.Seen{Trust: files(both, both), Pairs: ofNext, Mark: node.Mark{Hash: "trusting", Complete: true}, Kubelet: "1/1", Started: started, Changed: started},
			node.Step{Do: node.WriteMark, Mark: complete},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, node.Decide(test.goal, test.seen)); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}
