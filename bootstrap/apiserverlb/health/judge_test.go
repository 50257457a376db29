package health

import (
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
)

func TestJudge(t *testing.T) {
	serving := Answer{Kind: Serving}
	refused := Answer{Kind: Refused, Problem: "connection refused"}
	for name, test := range map[string]struct {
		evidence Evidence
		state    backends.State
		suspect  bool
		answers  bool
	}{
		"a member that was never probed is worth a try": {Evidence{Listed: true}, backends.Ready, false, false},
		"a member that answers is ready":                {Evidence{Listed: true, Last: serving}, backends.Ready, false, true},
		"one silent probe makes it suspect":             {Evidence{Listed: true, Last: serving, Silent: 1, Unanswered: 1}, backends.Ready, true, true},
		"two silent probes make it suspect":             {Evidence{Listed: true, Last: serving, Silent: 2, Unanswered: 2}, backends.Ready, true, true},
		"three silent probes drain":                     {Evidence{Listed: true, Last: serving, Silent: 3, Unanswered: 3, Connections: 9}, backends.Draining, true, true},
		"seven silent probes drain":                     {Evidence{Listed: true, Last: serving, Silent: 7, Unanswered: 7, Connections: 9}, backends.Draining, true, true},
		"eight silent probes are death":                 {Evidence{Listed: true, Last: serving, Silent: 8, Unanswered: 8, Connections: 9}, backends.Dead, true, true},
		"any number of probes that do not count as silent leave the state": {
			Evidence{Listed: true, Last: serving, Unanswered: 99}, backends.Ready, true, true,
		},
		"another answer than success drains":                     {Evidence{Listed: true, Last: Answer{Kind: NotReady}}, backends.Draining, false, false},
		"what was draining when all fell silent stays so":        {Evidence{Listed: true, Last: Answer{Kind: NotReady}, Unanswered: 9}, backends.Draining, true, false},
		"a server with a foreign certificate gets no connection": {Evidence{Listed: true, Last: Answer{Kind: Foreign}}, backends.Draining, false, false},
		"leaving the list drains":                                {Evidence{Last: serving}, backends.Draining, false, true},
		"refusing with connections drains":                       {Evidence{Listed: true, Last: refused, Connections: 1}, backends.Draining, false, false},
		"refusing without connections is death":                  {Evidence{Listed: true, Last: refused}, backends.Dead, false, false},
		"a hanging /readyz of a living server drains":            {Evidence{Listed: true, Last: serving, Slow: 3}, backends.Draining, false, false},
		"one slow /readyz changes nothing":                       {Evidence{Listed: true, Last: serving, Slow: 1}, backends.Ready, false, true},
		"one that cannot be probed stays ready":                  {Evidence{Listed: true, Last: serving, NotProbed: "no CA"}, backends.Ready, false, true},
		"one that cannot be probed stays dead":                   {Evidence{Listed: true, Last: serving, Silent: 8, Unanswered: 8, NotProbed: "no CA"}, backends.Dead, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := Judge(test.evidence)
			if notProbed := test.evidence.NotProbed; notProbed != "" && got.Reason != notProbed {
				t.Errorf("the reason is %q", got.Reason)
			}
			if got.State != test.state || got.Suspect != test.suspect || got.Answers != test.answers {
				t.Errorf("got %+v", got)
			}
			if got.Reason == "" && test.evidence.Last.Kind != NotReady && test.evidence.Last.Kind != Foreign {
				t.Error("no reason")
			}
		})
	}
}
