package rollout

import (
	"fmt"
	"strings"
	"testing"
)

// cluster is one of members that are fine and outdated, of which the first leads, after changes.
func cluster(members int, changes ...func(*State)) State {
	s := State{}
	for i := range members {
		s.Members = append(s.Members, Member{
			Name: name(i), Ordinal: i, Exists: true, Outdated: true, Ready: true, Host: fmt.Sprintf("host-%d", i), Answers: true, InQuorum: true, Leader: i == 0,
		})
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func name(ordinal int) string { return fmt.Sprintf("blue-etcd-data-%d", ordinal) }

func of(ordinal int, changes ...func(*Member)) func(*State) {
	return func(s *State) {
		for _, change := range changes {
			change(&s.Members[ordinal])
		}
	}
}

func updated(m *Member)  { m.Outdated = false }
func cordoned(m *Member) { m.Cordoned = true }
func unready(m *Member)  { m.Ready = false }
func silent(m *Member)   { m.Answers, m.InQuorum = false, false }
func alone(m *Member)    { m.Ready, m.InQuorum = false, false }
func down(m *Member)     { m.Ready, m.Answers, m.InQuorum = false, false, false }
func stopping(m *Member) { m.Stopping, m.Ready, m.Answers, m.InQuorum = true, false, false, false }

// told is a member that was told to stop a moment ago, and still works.
func told(m *Member) { m.Stopping = true }

func missing(m *Member) {
	*m = Member{Name: m.Name, Ordinal: m.Ordinal}
}

// lost is a member on a host that is away.
func lost(m *Member) { m.Lost, m.Ready, m.Answers, m.InQuorum = true, false, false, false }

// cut is a member of which only the host cluster does not hear.
func cut(m *Member) { m.Lost, m.Ready = true, false }

func leads(s *State) {
	for i := range s.Members {
		s.Members[i].Leader = i == len(s.Members)-1
	}
}

func unsettled(s *State) { s.Unsettled = "its members change" }
func volatile(s *State)  { s.Volatile = true }

func TestDecide(t *testing.T) {
	for what, test := range map[string]struct {
		state   State
		replace string
		// lead is the member that takes the lead first.
		lead string
		// waits is a part of the reason to wait.
		waits string
	}{
		"all are up to date":                          {state: cluster(3, of(0, updated), of(1, updated), of(2, updated))},
		"all are up to date and one is down":          {state: cluster(3, of(0, updated), of(1, updated), of(2, updated, down))},
		"the last outdated one is stopping":           {state: cluster(3, of(0, updated), of(1, updated), of(2, stopping))},
		"there is no pod at all":                      {state: cluster(1, of(0, missing))},
		"all are outdated and fine":                   {state: cluster(3), replace: name(2)},
		"the last is up to date":                      {state: cluster(3, of(2, updated)), replace: name(1)},
		"the leader is left":                          {state: cluster(3, of(1, updated), of(2, updated)), lead: name(1)},
		"... and a host node takes no pods":           {state: cluster(3, of(1, updated, cordoned), of(2, updated)), lead: name(2)},
		"... and has given its lead away":             {state: cluster(3, leads, of(1, updated), of(2, updated)), replace: name(0)},
		"the leader takes part, and is not ready":     {state: cluster(3, of(0, unready), of(1, updated)), lead: name(1)},
		"the leader has lost the others":              {state: cluster(3, of(0, alone), of(1, updated), of(2, updated)), replace: name(0)},
		"the last leads":                              {state: cluster(3, leads), replace: name(1)},
		"a single member":                             {state: cluster(1), replace: name(0)},
		"one of four would leave three":               {state: cluster(4), replace: name(3)},
		"one of two would leave no quorum":            {state: cluster(2), waits: "one of two"},
		"what they know would go with their pods":     {state: cluster(3, volatile), waits: "would lose it"},
		"what one that is down knows would go too":    {state: cluster(3, volatile, of(1, down)), waits: "would lose it"},
		"volatile members are up to date":             {state: cluster(1, volatile, of(0, updated))},
		"its members change":                          {state: cluster(3, unsettled), waits: "its members change"},
		"nothing is to do while its members change":   {state: cluster(1, unsettled, of(0, updated))},
		"one is restarting":                           {state: cluster(3, of(2, updated, down)), waits: name(2) + " is not ready"},
		"one is stopping":                             {state: cluster(3, of(2, stopping)), waits: name(2) + " is stopping"},
		"one was told to stop, and still answers":     {state: cluster(3, of(2, told)), waits: name(2) + " is stopping"},
		"one has no pod yet":                          {state: cluster(3, of(2, missing)), waits: name(2) + " has no pod"},
		"one is ready and does not answer yet":        {state: cluster(3, of(2, updated, silent)), waits: name(2) + " does not answer"},
		"one answers and is not ready yet":            {state: cluster(3, of(2, updated, unready)), waits: name(2) + " is not ready"},
		"a second change comes while one restarts":    {state: cluster(3, of(1, updated, down)), waits: name(1) + " is not ready"},
		"the host of one died a moment ago":           {state: cluster(3, of(0, silent)), waits: name(0) + " does not answer"},
		"the host of one is away":                     {state: cluster(3, of(0, lost)), waits: "does not hear from host-0, where member " + name(0)},
		"the host of one goes away in the middle":     {state: cluster(3, of(2, updated), of(0, lost)), waits: "host-0"},
		"the host of the only outdated one is away":   {state: cluster(3, of(0, lost), of(1, updated), of(2, updated)), waits: "host-0"},
		"the host of the only member is away":         {state: cluster(1, of(0, lost)), waits: "host-0"},
		"one has lost the others, which are away":     {state: cluster(3, of(1, updated, down), of(0, silent), of(2, alone)), waits: "member " + name(0) + " does not answer"},
		"one knows no leader":                         {state: cluster(3, of(0, func(m *Member) { m.InQuorum = false })), waits: name(0) + " knows no leader"},
		"all hosts are away":                          {state: cluster(3, of(0, lost), of(1, lost), of(2, lost)), waits: "host-0"},
		"the host cluster alone does not hear of one": {state: cluster(3, of(0, cut)), waits: "host-0"},

		"the host node of one takes no pods":               {state: cluster(3, of(2, cordoned)), replace: name(1)},
		"... and all others are up to date":                {state: cluster(3, of(0, updated), of(1, updated), of(2, cordoned)), waits: "member " + name(2) + " is on host node host-2, which is cordoned, and its new pod might not start: uncordon the host node"},
		"... and it leads":                                 {state: cluster(3, of(0, cordoned), of(1, updated), of(2, updated)), waits: "uncordon the host node"},
		"... and its pod is not ready":                     {state: cluster(3, of(0, updated), of(1, updated), of(2, cordoned, unready)), waits: "uncordon the host node"},
		"... and it does not work":                         {state: cluster(3, of(0, updated), of(1, updated), of(2, cordoned, down)), replace: name(2)},
		"... and it is not heard from":                     {state: cluster(3, of(0, updated), of(1, updated), of(2, cordoned, lost)), waits: "does not hear from host-2"},
		"the host node of the only member takes no pods":   {state: cluster(1, of(0, cordoned)), waits: "uncordon the host node"},
		"... and it does not work anyway":                  {state: cluster(1, of(0, cordoned, down)), replace: name(0)},
		"... and it is up to date":                         {state: cluster(1, of(0, cordoned, updated))},
		"the host nodes of all take no pods":               {state: cluster(3, of(0, cordoned), of(1, cordoned), of(2, cordoned)), waits: "host-2"},
		"a change that broke one is taken back":            {state: cluster(3, of(0, updated), of(1, updated), of(2, down)), replace: name(2)},
		"one is broken, and another follows on the change": {state: cluster(3, of(2, down)), replace: name(2)},
		"the first one is broken":                          {state: cluster(3, of(0, down)), replace: name(0)},
		"all are broken":                                   {state: cluster(3, of(0, down), of(1, down), of(2, down)), replace: name(2)},
		"all were broken, and the last is made anew":       {state: cluster(3, of(0, down), of(1, down), of(2, updated, down)), replace: name(1)},
		"all were broken, and the last still stops":        {state: cluster(3, of(0, down), of(1, down), of(2, stopping)), waits: name(2) + " is stopping"},
		"one is broken while the host of another is away":  {state: cluster(3, of(0, lost), of(2, down)), replace: name(2)},
		"one is broken, another stops on a host that is off": {
			state: cluster(3, of(0, stopping, lost), of(2, down)), replace: name(2)},
		"one is broken while its members change": {state: cluster(3, unsettled, of(1, down)), replace: name(1)},

		"one takes part, though its pod is not ready":                 {state: cluster(3, of(1, unready)), replace: name(1)},
		"two take part, though their pods are not ready":              {state: cluster(3, of(1, unready), of(2, unready)), waits: name(1) + " is not ready"},
		"one takes part, is not ready, and another is down":           {state: cluster(3, of(1, unready), of(0, updated, down)), waits: name(0) + " is not ready"},
		"one takes part, is not ready, and its members change":        {state: cluster(3, unsettled, of(1, unready)), waits: "its members change"},
		"one of two takes part and is not ready":                      {state: cluster(2, of(1, unready)), waits: "one of two"},
		"a broken one comes before one that takes part, later though": {state: cluster(3, of(1, down), of(2, unready)), replace: name(1)},
	} {
		t.Run(what, func(t *testing.T) {
			got := Decide(test.state)
			if got.Replace != test.replace || got.Lead != test.lead || (got.Reason == "") != (test.waits == "") || !strings.Contains(got.Reason, test.waits) {
				t.Errorf("it decides %+v", got)
			}
		})
	}
}

// In every state that members can be in, a step leaves a quorum of those that work, or may, unseen; or
// takes away none of them.
func TestAQuorumOutlivesEveryStep(t *testing.T) {
	states := []func(*Member){
		func(*Member) {}, updated, unready, silent, alone, down, stopping, told, missing, lost, cut,
		func(m *Member) { updated(m); down(m) }, func(m *Member) { updated(m); unready(m) }, func(m *Member) { updated(m); lost(m) },
		func(m *Member) { lost(m); m.Stopping = true }, cordoned,
	}
	counts := func(m Member) bool { return m.Exists && !m.Stopping && (m.Ready && m.InQuorum) }
	broken := func(m Member) bool { return !m.Ready && !m.Answers && !m.Lost }
	steps := 0
	for _, size := range []int{1, 2, 3, 4} {
		for combination := range power(len(states), size) {
			s := cluster(size)
			for i := range s.Members {
				states[combination%len(states)](&s.Members[i])
				combination /= len(states)
			}
			action := Decide(s)
			if action.Replace == "" {
				continue
			}
			steps++
			left := 0
			var gone Member
			for _, m := range s.Members {
				if m.Name == action.Replace {
					gone = m
				} else if counts(m) {
					left++
				}
			}
			if !gone.Exists || !gone.Outdated || gone.Stopping || gone.Lost {
				t.Errorf("%+v: it replaces %+v", s.Members, gone)
			}
			if gone.Cordoned && !broken(gone) {
				t.Errorf("%+v: it replaces %s, which works on a cordoned host node", s.Members, gone.Name)
			}
			if !broken(gone) && left < size/2+1 && size > 1 {
				t.Errorf("%+v: it replaces %s, and %d are left", s.Members, gone.Name, left)
			}
		}
	}
	if steps == 0 {
		t.Error("there was no step")
	}
}

func power(base, exponent int) int {
	result := 1
	for range exponent {
		result *= base
	}
	return result
}
