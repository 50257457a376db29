package rebuild

import (
	"strings"
	"testing"
	"time"
)

func TestChoose(t *testing.T) {
	has := func(name string, changes ...func(*Former)) Former {
		m := Former{Name: name, Votes: true, Reached: true}
		for _, change := range changes {
			change(&m)
		}
		return m
	}
	lost := func(m *Former) { m.Lost = true }
	silent := func(m *Former) { m.Reached = false }
	learns := func(m *Former) { m.Votes = false }
	ends := func(term, index uint64) func(*Former) {
		return func(m *Former) { m.LogTerm, m.LogIndex = term, index }
	}
	ready := func(m *Former) { m.Ready = true }
	for name, test := range map[string]struct {
		members  []Former
		snapshot string
		want     Ask
		says     string
	}{
		"nobody is known":                         {nil, "s", Ask{}, ""},
		"all have their data":                     {[]Former{has("a"), has("b"), has("c")}, "s", Ask{}, ""},
		"one of three is lost":                    {[]Former{has("a", lost), has("b"), has("c")}, "s", Ask{}, ""},
		"one of two is lost":                      {[]Former{has("a", lost), has("b")}, "s", Ask{Survivor: "b"}, ""},
		"two of three are lost":                   {[]Former{has("a", lost), has("b", lost), has("c")}, "s", Ask{Survivor: "c"}, ""},
		"two are only not heard from":             {[]Former{has("a", silent), has("b", silent), has("c")}, "s", Ask{}, ""},
		"the one that is left is silent":          {[]Former{has("a", lost), has("b", lost), has("c", silent)}, "s", Ask{}, "members c may have their data, and are not heard from"},
		"all are lost":                            {[]Former{has("a", lost), has("b", lost), has("c", lost)}, "s", Ask{Snapshot: "s"}, ""},
		"all are lost, without a snapshot":        {[]Former{has("a", lost), has("b", lost), has("c", lost)}, "", Ask{}, "no verified snapshot"},
		"the only one is lost":                    {[]Former{has("a", lost)}, "s", Ask{Snapshot: "s"}, ""},
		"a learner neither votes nor survives":    {[]Former{has("a", lost), has("b", lost), has("c", ends(2, 7)), has("d", learns, ends(2, 9))}, "s", Ask{Survivor: "c"}, ""},
		"a learner alone is left":                 {[]Former{has("a", lost), has("d", learns, ends(2, 9))}, "s", Ask{Snapshot: "s"}, ""},
		"one is ready, so that there is a quorum": {[]Former{has("a", lost), has("b", lost), has("c", ready)}, "s", Ask{}, ""},
		"a log of a later term is further":        {[]Former{has("a", lost), has("b", lost), has("c", lost), has("d", ends(3, 7)), has("e", ends(2, 9))}, "s", Ask{Survivor: "d"}, ""},
		"a longer log of one term":                {[]Former{has("a", lost), has("b", lost), has("c", lost), has("d", ends(2, 7)), has("e", ends(2, 9))}, "s", Ask{Survivor: "e"}, ""},
		"the end of a log is not known":           {[]Former{has("a", lost), has("b", lost), has("c", lost), has("d", ends(2, 7)), has("e")}, "s", Ask{}, "where the logs of members e end"},
		"one of two that are left is away":        {[]Former{has("a", lost), has("b", lost), has("c", lost), has("d", ends(2, 7)), has("e", silent)}, "s", Ask{}, "members e may have their data"},
	} {
		t.Run(name, func(t *testing.T) {
			ask, reason := Choose(test.members, test.snapshot, false)
			if ask != test.want || !strings.Contains(reason, test.says) || (test.says == "") != (reason == "") {
				t.Errorf("got %+v, %q", ask, reason)
			}
		})
	}
}

func TestAnEmptyEtcdTakesThePlaceOfOneThatLostItsQuorum(t *testing.T) {
	has := Former{Name: "h", Votes: true, Reached: true}
	silent, lost, ready, learner := has, has, has, has
	silent.Name, silent.Reached = "s", false
	lost.Lost, ready.Ready, learner.Votes = true, true, false
	for name, test := range map[string]struct {
		members []Former
		founds  bool
		says    string
	}{
		"nobody is known":                         {nil, false, ""},
		"all have their data":                     {[]Former{has, has, has}, false, ""},
		"one of three is lost":                    {[]Former{lost, has, has}, false, ""},
		"one is lost, and two are silent":         {[]Former{lost, silent, silent}, false, ""},
		"two are only silent":                     {[]Former{silent, silent, has}, false, ""},
		"all are only silent":                     {[]Former{silent, silent, silent}, false, ""},
		"two of three are lost":                   {[]Former{lost, lost, has}, true, ""},
		"the one that is left is silent":          {[]Former{lost, lost, silent}, false, "members s may have their data, and are not heard from"},
		"one of two that are left is silent":      {[]Former{lost, lost, lost, has, silent}, false, "members s may have their data"},
		"all are lost":                            {[]Former{lost, lost, lost}, true, ""},
		"the only one is lost":                    {[]Former{lost}, true, ""},
		"the only one is silent":                  {[]Former{silent}, false, ""},
		"a learner makes no quorum":               {[]Former{lost, lost, has, learner}, true, ""},
		"one is ready, so that there is a quorum": {[]Former{lost, lost, ready}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			founds, reason := ChooseEmpty(test.members)
			if founds != test.founds || !strings.Contains(reason, test.says) || (test.says == "") != (reason == "") {
				t.Errorf("got %t, %q", founds, reason)
			}
		})
	}
}

// Data that go with their pods do not outlive the restore.
func TestNoMemberWithVolatileDataSurvives(t *testing.T) {
	members := []Former{{Name: "a", Votes: true, Lost: true}, {Name: "b", Votes: true, Lost: true}, {Name: "c", Votes: true, Reached: true}}
	if ask, reason := Choose(members, "s", true); ask != (Ask{Snapshot: "s"}) || reason != "" {
		t.Errorf("got %+v, %q", ask, reason)
	}
	if ask, reason := Choose(members, "", true); ask != (Ask{}) || reason == "" {
		t.Errorf("without a snapshot got %+v, %q", ask, reason)
	}
}

func TestNoRestoreBeginsByItselfSoonAfterAnother(t *testing.T) {
	at, err := time.Parse(time.RFC3339, first)
	if err != nil {
		t.Fatal(err)
	}
	for passed, pauses := range map[time.Duration]bool{-time.Minute: true, time.Second: true, time.Hour - time.Second: true, time.Hour: false} {
		if until := PausedUntil(first, at.Add(passed)); until.IsZero() == pauses {
			t.Errorf("%v later it pauses until %v", passed, until)
		}
	}
	if until := PausedUntil("", at); !until.IsZero() {
		t.Errorf("without a restore it pauses until %v", until)
	}
}

func TestWhatIsTriedAfterASnapshotThatCannotBeRestored(t *testing.T) {
	shared := func(names ...string) (all []Candidate) {
		for _, name := range names {
			all = append(all, Candidate{Snapshot: name, Shared: true})
		}
		return all
	}
	own := []Candidate{{Snapshot: "new", Members: []string{"a", "b"}}, {Snapshot: "old", Members: []string{"b"}}}
	for name, test := range map[string]struct {
		tried      []Try
		snapshot   string
		member     string
		candidates []Candidate
		want       Ask
		at         string
	}{
		"the next older one":                       {nil, "new", "a", shared("new", "old", "oldest"), Ask{Snapshot: "old"}, ""},
		"the one after that":                       {[]Try{{"new", "a"}}, "old", "a", shared("new", "old", "oldest"), Ask{Snapshot: "oldest"}, ""},
		"no other member reads a shared store":     {nil, "new", "a", shared("new"), Ask{}, ""},
		"what was tried was deleted":               {nil, "new", "a", shared("old"), Ask{Snapshot: "old"}, ""},
		"all were tried":                           {[]Try{{"new", "a"}}, "old", "a", shared("new", "old"), Ask{}, ""},
		"there is no other":                        {nil, "new", "a", nil, Ask{}, ""},
		"another member keeps the same one":        {nil, "new", "a", own, Ask{Snapshot: "new"}, "b"},
		"no other member keeps it":                 {[]Try{{"new", "a"}}, "new", "b", own, Ask{Snapshot: "old"}, "b"},
		"all members were tried":                   {[]Try{{"new", "a"}, {"new", "b"}}, "old", "b", own, Ask{}, ""},
		"no member that keeps it can begin by now": {nil, "new", "a", []Candidate{{Snapshot: "new"}, {Snapshot: "old"}}, Ask{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			record := Record{Seed: test.member, Begins: &Ask{Snapshot: test.snapshot}, Tried: test.tried}
			if ask, at := record.Another(test.candidates); ask != test.want || at != test.at {
				t.Errorf("got %+v at %q", ask, at)
			}
		})
	}
}

func TestARestoreThatFollowsAnotherOneIsLater(t *testing.T) {
	at, err := time.Parse(time.RFC3339, first)
	if err != nil {
		t.Fatal(err)
	}
	for passed, want := range map[time.Duration]time.Duration{-time.Hour: time.Second, 0: time.Second, 900 * time.Millisecond: time.Second, time.Minute: time.Minute} {
		if got := (Record{Restore: first}).NextRequest(at.Add(passed)); got != Stamp(at.Add(want)) {
			t.Errorf("%v later it is %s", passed, got)
		}
	}
}
