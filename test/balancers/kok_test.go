package balancers

import (
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/status"
)

func TestBackendsAreKnownWhenAllAreReadyAndNoOtherIsListed(t *testing.T) {
	ready := func(address string) status.Backend {
		return status.Backend{Address: address, State: "ready", Reason: "answers /readyz", Listed: true}
	}
	suspect, seed, unprobed := ready("b"), ready("c"), ready("b")
	suspect.Suspect, seed.Listed, unprobed.Reason = true, false, "not probed yet"
	for name, test := range map[string]struct {
		backends  []status.Backend
		confirmed bool
		want      bool
	}{
		"both are ready":                       {[]status.Backend{ready("a"), ready("b")}, true, true},
		"a seed is there that is not listed":   {[]status.Backend{ready("a"), ready("b"), seed}, true, true},
		"the EndpointSlice was not read":       {[]status.Backend{ready("a"), ready("b")}, false, false},
		"one is missing":                       {[]status.Backend{ready("a")}, true, false},
		"another is listed":                    {[]status.Backend{ready("a"), ready("b"), ready("c")}, true, false},
		"one is suspect":                       {[]status.Backend{ready("a"), suspect}, true, false},
		"one is believed and was never probed": {[]status.Backend{ready("a"), unprobed}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			report := &status.Report{Backends: test.backends, Discovery: status.Discovery{Confirmed: test.confirmed}}
			if got := Known(report, []string{"a", "b"}); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
