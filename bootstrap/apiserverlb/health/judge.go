package health

import (
	"cmp"
	"fmt"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
)

// Kind is how a probe was answered.
type Kind int

const (
	// Unknown is before the first answer.
	Unknown Kind = iota
	// Serving is success of /readyz.
	Serving
	// NotReady is any other answer of /readyz.
	NotReady
	// Alive is an answered HTTP/2 ping; the answer of /readyz may still come.
	Alive
	// Refused is a new connection that the backend's host refused.
	Refused
	// Foreign is a server that cannot prove to be one of the cluster's.
	Foreign
	// NotProbed is a probe that this machine could not send: it says nothing of the backend.
	NotProbed
)

// Answer is what came of a probe.
type Answer struct {
	Kind Kind
	// Problem says what is wrong, for people; empty when nothing is.
	Problem string
}

// Evidence is all that is known of a backend.
type Evidence struct {
	// Listed is true when the backend is a member by the present list.
	Listed bool
	// Connections that the backend carries, without those being opened.
	Connections int
	// Last is the last answer to a probe, without mere signs of life.
	Last Answer
	// Silent is how many probes in a row were silent by the rules of this package.
	Silent int
	// Unanswered is how many probes in a row had no answer, whatever the reason.
	Unanswered int
	// Slow is how many probes in a row had no answer of a backend that lives.
	Slow int
	// NotProbed is why this machine cannot probe the backend now, empty when it can. It changes no state.
	NotProbed string
}

const (
	// enough is how many probes in a row change the state of a backend where one alone must not.
	enough = 3
	// deadly is how many silent probes in a row cost a backend its connections: two seconds.
	// docs/decisions/workers.md#a-hanging-api-server-keeps-its-connections-for-two-seconds.
	deadly = 8
)

// Judge decides the state of a backend from the evidence. Nothing else decides it.
func Judge(e Evidence) backends.Verdict {
	answers := e.Last.Kind == Serving && e.Slow < enough
	verdict := func(state backends.State, format string, args ...any) backends.Verdict {
		reason := cmp.Or(e.NotProbed, fmt.Sprintf(format, args...))
		return backends.Verdict{State: state, Reason: reason, Suspect: e.Unanswered > 0, Answers: answers}
	}
	switch {
	case e.Silent >= deadly:
		return verdict(backends.Dead, "silent for %d probes while another backend answered", deadly)
	case e.Silent >= enough:
		return verdict(backends.Draining, "silent for %d probes while another backend answered; open connections still wait", enough)
	case e.Last.Kind == Refused && e.Connections == 0:
		return verdict(backends.Dead, "refuses connections: %s", e.Last.Problem)
	case e.Last.Kind == Refused:
		return verdict(backends.Draining, "refuses new connections and still has open ones: %s", e.Last.Problem)
	case e.Last.Kind == Foreign, e.Last.Kind == NotReady:
		return verdict(backends.Draining, "%s", e.Last.Problem)
	case e.Slow >= enough:
		return verdict(backends.Draining, "lives, and does not answer /readyz")
	case !e.Listed:
		return verdict(backends.Draining, "not in the EndpointSlice default/kubernetes")
	case e.Last.Kind == Unknown && e.Unanswered > 0:
		return verdict(backends.Ready, "never answered a probe")
	case e.Last.Kind == Unknown:
		return verdict(backends.Ready, "not probed yet")
	case e.Unanswered > 0:
		return verdict(backends.Ready, "no answer to the last %d probes", e.Unanswered)
	}
	return verdict(backends.Ready, "answers /readyz")
}
