// Package node brings the keys of one node to what is wanted: it observes, [Decide] says the next step, and the step is taken.
package node

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/csr"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
)

// margin is by how much a file has to be older than kubelet's process to have been there when that started.
const margin = time.Second

// Goal is what the keys of a node have to be.
type Goal struct {
	// Hash names the goal.
	Hash string
	// Trusted are the CAs that the node has to trust.
	Trusted []*x509.Certificate
	// Signer has to have signed kubelet's certificates; nil when any CA is good.
	Signer *x509.Certificate
	// Order says whether the node has come further already.
	Order wanted.Order
}

// Trust is a place with the CAs that some program trusts.
type Trust struct {
	// Path is of the file.
	Path string
	// Kubeconfig is true for a kubeconfig that has CAs in itself.
	Kubeconfig bool
	// AtStart is true for what kubelet reads only when it starts.
	AtStart bool
	// CAs are those that are there.
	CAs []*x509.Certificate
}

// Pair is a certificate of kubelet, which kubelet reads when it starts.
type Pair struct {
	Purpose csr.Purpose
	// Current is the link to its file.
	Current string
	// Leaf is the certificate.
	Leaf *x509.Certificate
	// Problem says why this program cannot replace it; empty when it can.
	Problem string
}

// Mark is what is kept, until the machine boots, of what was done for a goal.
type Mark struct {
	// Hash is that of the goal.
	Hash string `json:"hash"`
	// Complete is true once all files were as the goal has them.
	Complete bool `json:"complete,omitempty"`
	// Before is the process of kubelet that ran at that moment, and may have started before; empty for none.
	Before string `json:"before,omitempty"`
}

// Seen is what was observed on a node, files before the process.
type Seen struct {
	Trust []Trust
	Pairs []Pair
	Mark  Mark
	// Order is that of the last goal that was begun on the node; zero for none.
	Order wanted.Order
	// Kubelet names its process; empty when none runs. Started is when it started.
	Kubelet string
	Started time.Time
	// Changed is when the last of the files changed that kubelet reads when it starts.
	Changed time.Time
}

// Do is what is done.
type Do string

// What is done.
const (
	// Nothing: the node is as it has to be.
	Nothing Do = ""
	// Wait: something must happen first.
	Wait Do = "Wait"
	// WriteOrder keeps Step.Order.
	WriteOrder Do = "WriteOrder"
	// WriteTrust writes the trusted CAs into Step.Trust.
	WriteTrust Do = "WriteTrust"
	// Renew replaces Step.Pair by one of the signer.
	Renew Do = "Renew"
	// WriteMark keeps Step.Mark.
	WriteMark Do = "WriteMark"
	// Restart ends the process of kubelet that Step.Mark names. Its service manager starts it again.
	Restart Do = "Restart"
)

// Step is one step. It is safe to take twice, and to be killed in it.
type Step struct {
	Do    Do
	Trust Trust
	Pair  Pair
	Mark  Mark
	Order wanted.Order
	// Why says what is waited for.
	Why string
}

// Decide says what is done next.
func Decide(goal Goal, seen Seen) Step {
	if why := back(goal, seen); why != "" {
		return Step{Do: Wait, Why: why}
	}
	if seen.Order != goal.Order {
		// Before the first write for the goal: from then on a former goal would undo a part of this one.
		return Step{Do: WriteOrder, Order: goal.Order}
	}
	for _, trust := range seen.Trust {
		if !trust.AtStart && !same(trust.CAs, goal.Trusted) {
			return Step{Do: WriteTrust, Trust: trust}
		}
	}
	if step := atStart(goal, seen); step.Do != Nothing {
		// The mark tells, before the first write, that kubelet has not read what is written.
		if begun := (Mark{Hash: goal.Hash}); seen.Mark != begun && step.Do != Wait {
			return Step{Do: WriteMark, Mark: begun}
		}
		return step
	}
	return restart(goal, seen)
}

// back says why the goal would be a step back for the node. It returns an empty text when the goal is no step back. A node that joined
// later than the goal was made has no order, and does not trust the first CA of the goal: back recognises such a goal by that.
func back(goal Goal, seen Seen) string {
	const unchanged = "nothing is changed here. A restore of etcd may have brought this DaemonSet back: the manager replaces or removes it"
	switch {
	case goal.Order.Before(seen.Order):
		return fmt.Sprintf("this node has come further, to step %d of the rotation of %s, than what is wanted, step %d of the rotation of %s: %s",
			seen.Order.Step, seen.Order.Rotation, goal.Order.Step, goal.Order.Rotation, unchanged)
	case seen.Order == wanted.Order{} && !slices.ContainsFunc(seen.Trust, func(trust Trust) bool { return contains(trust.CAs, goal.Trusted[:1]) }):
		return "this node trusts other CAs than before the rotation that is wanted: " + unchanged
	}
	return ""
}

// atStart brings what kubelet reads when it starts.
func atStart(goal Goal, seen Seen) Step {
	for _, trust := range seen.Trust {
		if trust.AtStart && !same(trust.CAs, goal.Trusted) {
			return Step{Do: WriteTrust, Trust: trust}
		}
	}
	for _, pair := range seen.Pairs {
		switch {
		case goal.Signer == nil:
		case pair.Problem != "":
			return Step{Do: Wait, Why: pair.Problem}
		case pair.Leaf.CheckSignatureFrom(goal.Signer) != nil:
			return Step{Do: Renew, Pair: pair}
		}
	}
	return Step{}
}

// restart decides, once all files are as the goal has them, whether kubelet has read them. It has if its process is not the one
// that the mark names, or if it started after the last change of a file and this program has written nothing for the goal.
func restart(goal Goal, seen Seen) Step {
	complete := Mark{Hash: goal.Hash, Complete: true, Before: seen.Kubelet}
	switch {
	case seen.Mark.Hash != goal.Hash && seen.Changed.Add(margin).Before(seen.Started):
		return Step{Do: WriteMark, Mark: Mark{Hash: goal.Hash, Complete: true}} // Nothing was written for this goal.
	case seen.Mark.Hash != goal.Hash || !seen.Mark.Complete:
		return Step{Do: WriteMark, Mark: complete}
	case seen.Kubelet == "":
		return Step{Do: Wait, Why: "kubelet does not run: its service manager has to start it"}
	case seen.Mark.Before == seen.Kubelet:
		return Step{Do: Restart, Mark: seen.Mark}
	}
	return Step{}
}

// same reports whether two lists have the same certificates, in any order.
func same(a, b []*x509.Certificate) bool {
	return contains(a, b) && contains(b, a)
}

func contains(all, some []*x509.Certificate) bool {
	there := map[string]bool{}
	for _, certificate := range all {
		there[string(certificate.Raw)] = true
	}
	for _, certificate := range some {
		if !there[string(certificate.Raw)] {
			return false
		}
	}
	return true
}

// String names a pair to people.
func (p Pair) String() string {
	if p.Purpose == csr.Client {
		return fmt.Sprintf("kubelet's client certificate %s", p.Current)
	}
	return fmt.Sprintf("kubelet's serving certificate %s", p.Current)
}
