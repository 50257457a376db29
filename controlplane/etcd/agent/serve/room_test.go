package serve

import (
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
)

func TestEachAgentTakesItsOwnSteps(t *testing.T) {
	state := space.State{Members: []space.Member{{Name: "one-0"}, {Name: "one-1", Leader: true}, {Name: "one-2"}}}
	for name, test := range map[string]struct {
		action space.Action
		want   string
	}{
		"old versions are dropped by the leader's":         {space.Action{Kind: space.Compact}, "one-1"},
		"the alarm is ended by the leader's":               {space.Action{Kind: space.Disarm}, "one-1"},
		"a file is written anew by its member's":           {space.Action{Kind: space.Defragment, Member: "one-2"}, "one-2"},
		"the leader's file, too":                           {space.Action{Kind: space.Defragment, Member: "one-1"}, "one-1"},
		"nobody does what waits":                           {space.Action{Kind: space.Wait}, ""},
		"nobody does what a person has to decide":          {space.Action{Kind: space.NeedsDecision}, ""},
		"nobody does anything while etcd takes writes":     {space.Action{}, ""},
		"a file of a member that is not there is nobody's": {space.Action{Kind: space.Defragment, Member: "one-3"}, ""},
	} {
		for _, m := range state.Members {
			if got := isOwn(test.action, state, m.Name); got != (m.Name == test.want) {
				t.Errorf("%s: %s takes it: %t", name, m.Name, got)
			}
		}
	}
}

func TestAnAgentIsAloneWhenTheManagerHasNotAsked(t *testing.T) {
	now := time.Now()
	a := newAgent(t.Context(), Options{Now: func() time.Time { return now }})
	for _, step := range []struct {
		passes time.Duration
		asks   bool
		want   bool
	}{
		{0, false, false}, {aloneAfter - time.Second, false, false}, {time.Second, false, true}, {0, true, false}, {time.Minute, false, false}, {aloneAfter, false, true},
	} {
		now = now.Add(step.passes)
		if step.asks {
			a.heardOf()
		}
		if got := a.alone(); got != step.want {
			t.Errorf("%+v: %t", step, got)
		}
	}
}
