package rebuild

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	first  = "2026-03-04T05:06:07Z"
	second = "2026-03-04T06:06:07Z"
)

// three are members on host nodes of their own.
func three() []Member {
	return []Member{{"m-0", "h0", "u0"}, {"m-1", "h1", "u1"}, {"m-2", "h2", "u2"}}
}

// asked is a restore that was just asked for, of three members that run.
func asked(changes ...func(*State)) State {
	s := State{
		Request: first,
		Next:    Record{Seed: "m-0", ClusterID: "new", Former: []string{"old"}, Members: three(), Voters: 3},
		Heard:   map[string]string{"h0": "u0", "h1": "u1", "h2": "u2"},
		Pods:    []Pod{{"m-0", "h0"}, {"m-1", "h1"}, {"m-2", "h2"}, {"api", "h0"}},
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

// at is a restore that has come to a phase.
func at(phase Phase, changes ...func(*State)) State {
	s := asked()
	s.Record = s.Next
	s.Record.Restore, s.Record.Phase = first, phase
	for _, change := range changes {
		change(&s)
	}
	return s
}

func stopped(s *State) { s.Pods = nil }

func unheard(hosts ...string) func(*State) {
	return func(s *State) {
		for _, host := range hosts {
			delete(s.Heard, host)
		}
	}
}

func gone(pods ...string) func(*State) {
	return func(s *State) {
		var left []Pod
		for _, p := range s.Pods {
			if !strings.Contains(strings.Join(pods, " "), p.Name) {
				left = append(left, p)
			}
		}
		s.Pods = left
	}
}

// fromSurvivor is a restore from the data of m-0.
func fromSurvivor(s *State) { s.Record.Begins = &Ask{Survivor: "m-0"} }

// later is a later request than the one of the record, while status lists no members.
func later(s *State) { s.Request, s.Next = second, Record{Seed: "m-1", ClusterID: "newer"} }

func givenUp(members ...string) func(*State) { return func(s *State) { s.GivenUp = members } }

func TestDecide(t *testing.T) {
	for name, test := range map[string]struct {
		state State
		want  Kind
		phase Phase
		says  string
	}{
		"nothing is asked for":                      {asked(func(s *State) { s.Request = "" }), None, "", ""},
		"a request that is over":                    {at(Over), None, "", ""},
		"the request is taken away while it stops":  {at(Stopping, func(s *State) { s.Request = "" }), Wait, "", "spec.etcd.restore was taken away"},
		"the request is taken away when it is over": {at(Over, func(s *State) { s.Request = "" }), None, "", ""},

		"a good request begins":                              {asked(), Write, Stopping, ""},
		"the request is bad":                                 {asked(func(s *State) { s.Problem = "no snapshot" }), Refuse, "", "no snapshot"},
		"it is not known yet whether it can begin":           {asked(func(s *State) { s.Unknown = "members are asked" }), Wait, "", "members are asked"},
		"what is known is bad anyhow":                        {asked(func(s *State) { s.Problem, s.Unknown = "no snapshot", "members are asked" }), Refuse, "", "no snapshot"},
		"one host node is not heard from, with a pod":        {asked(unheard("h1")), Refuse, "", "host nodes h1 are not heard from, and pods m-1 may run there"},
		"its member is given up":                             {asked(unheard("h1"), givenUp("m-1")), Write, Stopping, ""},
		"an API server alone is where nobody hears from":     {asked(func(s *State) { s.Pods = append(s.Pods, Pod{"api-9", "h9"}) }), Refuse, "", "host nodes h9 are not heard from, and pods api-9"},
		"a pod without a host node":                          {asked(func(s *State) { s.Pods[1].Host = "" }), Write, Stopping, ""},
		"one member's pod is gone with its Node":             {asked(unheard("h1"), gone("m-1")), Write, Stopping, ""},
		"two members' pods are gone with their Nodes":        {asked(unheard("h1", "h2"), gone("m-1", "m-2")), Refuse, "", "members m-1, m-2 may run"},
		"a person has given up one of them":                  {asked(unheard("h1", "h2"), gone("m-1", "m-2"), givenUp("m-2")), Write, Stopping, ""},
		"the Node is another one of the same name":           {asked(gone("m-1", "m-2"), func(s *State) { s.Heard["h1"], s.Heard["h2"] = "x", "y" }), Refuse, "", "members m-1, m-2 may run"},
		"a later request than the one that is over":          {at(Over, func(s *State) { s.Request = second }), Write, Stopping, ""},
		"a later request while one stops":                    {at(Stopping, func(s *State) { s.Request = second }), Write, Stopping, ""},
		"an older request than the one that is over":         {at(Over, func(s *State) { s.Request, s.Record.Restore = first, second }), Refuse, "", "before the last restore, of " + second},
		"an older request while one stops":                   {at(Stopping, func(s *State) { s.Request, s.Record.Restore = first, second }), Refuse, "", "set requestedAt to the present time"},
		"a survivor has not answered":                        {at(Founding, stopped, fromSurvivor), Wait, "", "If it cannot begin with them, name another survivor or a snapshot in spec.etcd.restore"},
		"another survivor is named while it is founded":      {at(Founding, stopped, fromSurvivor, later), Write, Stopping, ""},
		"... and is refused":                                 {at(Founding, stopped, fromSurvivor, later, func(s *State) { s.Problem = "its data are lost" }), Refuse, "", "its data are lost"},
		"... and a host node with a majority is off":         {at(Founding, stopped, fromSurvivor, later, unheard("h1", "h2")), Refuse, "", "members m-1, m-2 may run"},
		"... after the first one has answered":               {at(Founding, stopped, fromSurvivor, later, func(s *State) { s.ClusterID = "new" }), Write, Over, ""},
		"the seed has answered, and nothing is asked for":    {at(Founding, stopped, func(s *State) { s.Request, s.ClusterID = "", "new" }), Write, Over, ""},
		"a control plane that never had members":             {asked(func(s *State) { s.Next.Members, s.Next.Voters, s.Pods = nil, 0, nil }), Write, Stopping, ""},
		"pods run yet":                                       {at(Stopping), Stop, "", "pods have yet to stop: m-0, m-1, m-2, api"},
		"a pod has no host node":                             {at(Stopping, stopped, func(s *State) { s.Pods = []Pod{{"m-0", ""}} }), Stop, "", "m-0"},
		"all have stopped":                                   {at(Stopping, stopped), Write, Founding, ""},
		"a host node is lost while a pod stops":              {at(Stopping, gone("m-0", "m-2", "api"), unheard("h1")), Wait, "", "pods m-1 stop when host nodes h1 are heard from"},
		"it is given up then":                                {at(Stopping, gone("m-0", "m-2", "api"), unheard("h1"), givenUp("m-1")), Write, Founding, ""},
		"two Nodes were deleted while their pods ran":        {at(Stopping, stopped, unheard("h1", "h2")), Wait, "", "members m-1, m-2 may run"},
		"a member whose host node nobody knows, and another": {at(Stopping, stopped, func(s *State) { s.Record.Members[0].Host = "" }, unheard("h1")), Wait, "", "members m-0, m-1 may run"},
		"the seed has not answered":                          {at(Founding, stopped), Wait, "", "member m-0 has yet to answer"},
		"the former cluster was the last that answered":      {at(Founding, stopped, func(s *State) { s.ClusterID = "old" }), Wait, "", "member m-0 has yet to answer"},
		"the seed cannot begin":                              {at(Founding, stopped, func(s *State) { s.Refusal = "it is damaged" }), Wait, "", "it is damaged"},
		"the seed could not begin, and has answered":         {at(Founding, stopped, func(s *State) { s.Refusal, s.ClusterID = "it is damaged", "new" }), Write, Over, ""},
		"the seed has answered":                              {at(Founding, stopped, func(s *State) { s.ClusterID = "new" }), Write, Over, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(test.state)
			if got.Kind != test.want || got.Record.Phase != test.phase || !strings.Contains(got.Reason, test.says) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestARecordKeepsWhatMustNeverStartAgain(t *testing.T) {
	another := func(s *State) {
		s.Request, s.ClusterID = second, "seen"
		s.Next = Record{Seed: "m-1", ClusterID: "newer", Members: three()[:1], Voters: 1}
	}
	for name, test := range map[string]struct {
		state State
		want  Record
	}{
		"the first one": {
			asked(func(s *State) { s.ClusterID = "seen" }),
			Record{first, Stopping, "m-0", "new", []string{"old", "seen"}, three(), 3, nil, false, "", nil},
		},
		"another one after it": {
			at(Over, another),
			Record{second, Stopping, "m-1", "newer", []string{"new", "old", "seen"}, three()[:1], 1, nil, false, "", nil},
		},
		// Nobody may have seen the cluster that the first one founded, and its members of before may not have stopped.
		"another one while it founds": {
			at(Founding, another),
			Record{second, Stopping, "m-1", "newer", []string{"new", "old", "seen"}, three(), 3, nil, false, "", nil},
		},
		// What it restored there may be taken for a member's own data.
		"another one while it founds with a snapshot": {
			at(Founding, another, func(s *State) {
				s.Record.Begins, s.Record.Tried = &Ask{Snapshot: "b"}, []Try{{Snapshot: "a", Member: "m-2"}}
			}),
			Record{second, Stopping, "m-1", "newer", []string{"new", "old", "seen"}, three(), 3, nil, false, "", []Try{{"a", "m-2"}, {"b", "m-0"}}},
		},
		"another one while it founds with a survivor": {
			at(Founding, another, func(s *State) { s.Record.Begins = &Ask{Survivor: "m-0"} }),
			Record{second, Stopping, "m-1", "newer", []string{"new", "old", "seen"}, three(), 3, nil, false, "", nil},
		},
	} {
		if diff := cmp.Diff(test.want, Decide(test.state).Record); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
