package serve

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
)

func TestOneMemberIsOnDuty(t *testing.T) {
	good := func(name string) peer { return peer{name: name, voter: true, healthy: true} }
	leads := func(p peer) peer { p.leader = true; return p }
	ill := func(p peer) peer { p.healthy = false; return p }
	learns := func(p peer) peer { p.voter = false; return p }
	for name, test := range map[string]struct {
		peers []peer
		want  string
	}{
		"the first follower":                 {[]peer{good("c"), good("b"), leads(good("a"))}, "b"},
		"whoever leads":                      {[]peer{leads(good("c")), good("b"), good("a")}, "a"},
		"not one that is ill":                {[]peer{ill(good("a")), good("c"), leads(good("b"))}, "c"},
		"not one that learns":                {[]peer{learns(good("a")), good("c"), leads(good("b"))}, "c"},
		"not one that never started":         {[]peer{{voter: true, healthy: true}, good("c"), leads(good("b"))}, "c"},
		"the leader, where none follows":     {[]peer{ill(good("a")), leads(good("b"))}, "b"},
		"the only one":                       {[]peer{leads(good("a"))}, "a"},
		"nobody where all are ill":           {[]peer{ill(good("a")), ill(leads(good("b")))}, ""},
		"a follower before a leader by name": {[]peer{leads(good("a")), good("b")}, "b"},
		"nobody of nobody":                   {nil, ""},
	} {
		if got := onDuty(test.peers); got != test.want {
			t.Errorf("%s: it is %q, not %q", name, got, test.want)
		}
	}
}

// All members repeat the alarms of all.
func TestAnAlarmConcernsItsMember(t *testing.T) {
	const id = 10276657743932975437
	for text, want := range map[string]bool{
		"etcdserver: no leader":                        true,
		"memberID:10276657743932975437 alarm:CORRUPT ": true,
		"memberID:10276657743932975437 alarm:CORRUPT":  true,
		"alarm:CORRUPT memberID:10276657743932975437":  true,
		"memberID:7 alarm:CORRUPT ":                    false,
		"memberID:1027665774393297543 alarm:CORRUPT ":  false,
		"memberID:10276657743932975437 alarm:NOSPACE ": false,
	} {
		if got := concerns(text, id); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// made is a snapshot of a slot that this member took.
func made(slot time.Time) snapshot.Entry {
	return snapshot.Entry{Slot: slot, Manifest: archive.Manifest{Slot: slot, Member: "me", Taken: slot.Add(time.Second)}}
}

func verified(e snapshot.Entry) snapshot.Entry {
	e.Verification = &archive.Verification{Verified: e.Slot.Add(time.Minute)}
	return e
}

func bad(e snapshot.Entry) snapshot.Entry { e.Err = errors.New("oh"); return e }

func others(e snapshot.Entry) snapshot.Entry { e.Manifest.Member = "other"; return e }

func TestTheNextStep(t *testing.T) {
	eleven, now, later := noon.Add(-time.Hour), noon.Add(7*time.Minute), noon.Add(30*time.Minute)
	asked := noon.Add(3 * time.Minute)
	names := func(slots ...time.Time) map[string]bool {
		all := map[string]bool{}
		for _, slot := range slots {
			all[archive.SlotName(slot)] = true
		}
		return all
	}
	waits := func(slot, until time.Time) map[string]time.Time {
		return map[string]time.Time{archive.SlotName(slot): until}
	}
	for name, test := range map[string]struct {
		view
		do   doing
		slot time.Time
	}{
		"a slot without a snapshot is taken":                    {view{onDuty: true}, take, noon},
		"by the one on duty":                                    {view{}, nothing, time.Time{}},
		"an older snapshot is not it":                           {view{onDuty: true, entries: []snapshot.Entry{verified(made(eleven))}}, take, noon},
		"a snapshot is verified":                                {view{onDuty: true, entries: []snapshot.Entry{made(noon)}}, verify, noon},
		"one that is verified is left alone":                    {view{onDuty: true, entries: []snapshot.Entry{verified(made(noon)), made(eleven)}}, nothing, time.Time{}},
		"one that others took is theirs at first":               {view{onDuty: true, entries: []snapshot.Entry{others(made(noon))}}, nothing, time.Time{}},
		"and is not after a while":                              {view{onDuty: true, now: later, entries: []snapshot.Entry{others(made(noon))}}, verify, noon},
		"one whose trial refused it is not tried again":         {view{onDuty: true, refused: names(noon), entries: []snapshot.Entry{made(noon)}}, nothing, time.Time{}},
		"but the one before it":                                 {view{onDuty: true, refused: names(noon), entries: []snapshot.Entry{made(noon), made(eleven)}}, verify, eleven},
		"one in the future is not tried":                        {view{onDuty: true, entries: []snapshot.Entry{made(noon.Add(48 * time.Hour)), made(noon)}}, verify, noon},
		"one that is refused is no reason to take another":      {view{onDuty: true, entries: []snapshot.Entry{bad(made(noon))}}, nothing, time.Time{}},
		"and the one before it is verified":                     {view{onDuty: true, entries: []snapshot.Entry{bad(made(noon)), made(eleven)}}, verify, eleven},
		"after a failure it waits":                              {view{onDuty: true, waits: waits(noon, now.Add(time.Second))}, nothing, time.Time{}},
		"and not for ever":                                      {view{onDuty: true, waits: waits(noon, now)}, take, noon},
		"a failure of the slot before is over":                  {view{onDuty: true, waits: waits(eleven, later)}, take, noon},
		"a trial waits, too":                                    {view{onDuty: true, waits: waits(noon, later), entries: []snapshot.Entry{made(noon)}}, nothing, time.Time{}},
		"what is asked for is taken by whoever is asked":        {view{asked: []time.Time{asked}}, take, asked},
		"and verified":                                          {view{asked: []time.Time{asked}, entries: []snapshot.Entry{made(asked)}}, verify, asked},
		"and then it is done":                                   {view{asked: []time.Time{asked}, entries: []snapshot.Entry{verified(made(asked))}}, nothing, time.Time{}},
		"also when it is refused":                               {view{asked: []time.Time{asked}, refused: names(asked), entries: []snapshot.Entry{made(asked)}}, nothing, time.Time{}},
		"it comes before the slot":                              {view{onDuty: true, asked: []time.Time{asked}}, take, asked},
		"one that nobody wants is deleted":                      {view{unwanted: []time.Time{eleven}, entries: []snapshot.Entry{verified(made(noon)), verified(made(eleven))}}, remove, eleven},
		"not before a newer one is verified":                    {view{unwanted: []time.Time{eleven}, entries: []snapshot.Entry{made(noon), verified(made(eleven))}}, nothing, time.Time{}},
		"and never the newest one":                              {view{unwanted: []time.Time{noon}, entries: []snapshot.Entry{verified(made(noon)), verified(made(eleven))}}, nothing, time.Time{}},
		"nor what nobody can read":                              {view{unwanted: []time.Time{eleven}, entries: []snapshot.Entry{verified(made(noon)), bad(made(eleven))}}, nothing, time.Time{}},
		"but that on a volume of its own":                       {view{own: true, unwanted: []time.Time{eleven}, entries: []snapshot.Entry{verified(made(noon)), bad(made(eleven))}}, remove, eleven},
		"nor what is not there":                                 {view{unwanted: []time.Time{eleven}, entries: []snapshot.Entry{verified(made(noon))}}, nothing, time.Time{}},
		"a deletion that failed waits":                          {view{unwanted: []time.Time{eleven}, waits: waits(eleven, later), entries: []snapshot.Entry{verified(made(noon)), verified(made(eleven))}}, nothing, time.Time{}},
		"what is asked for comes before deletions":              {view{asked: []time.Time{asked}, unwanted: []time.Time{eleven}, entries: []snapshot.Entry{verified(made(noon)), verified(made(eleven))}}, take, asked},
		"but does not keep it from being taken":                 {view{onDuty: true, asked: []time.Time{asked}, waits: waits(asked, later)}, take, noon},
		"one of its own volume is verified, whoever is on duty": {view{own: true, entries: []snapshot.Entry{made(noon)}}, verify, noon},
		"on its own volume it takes none off duty":              {view{own: true}, nothing, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			v := test.view
			v.every, v.member = time.Hour, "me"
			if v.now.IsZero() {
				v.now = now
			}
			if got := next(v); got.do != test.do || !got.slot.Equal(test.slot) || got.do == verify && !got.entry.Slot.Equal(test.slot) {
				t.Errorf("it does %q of %s", got.do, got.slot)
			}
		})
	}
}

func TestWaitsBecomeLongerAndNotForEver(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: 30 * time.Second, 2: time.Minute, 3: 2 * time.Minute, 4: 4 * time.Minute, 5: 5 * time.Minute, 500: 5 * time.Minute} {
		if got := waitAfter(failures); got != want {
			t.Errorf("after %d failures it waits %s", failures, got)
		}
	}
}

func TestTenantsTakeTheirSnapshotsAtDifferentTimes(t *testing.T) {
	different := map[time.Duration]bool{}
	for i := range 100 {
		cluster := backup.Cluster{Namespace: "team", Name: strings.Repeat("a", i)}
		for every, most := range map[time.Duration]time.Duration{5 * time.Minute: 75 * time.Second, 24 * time.Hour: 10 * time.Minute} {
			offset := offsetOf(cluster, every)
			if offset < 0 || offset >= most || offset != offsetOf(cluster, every) {
				t.Fatalf("of %v it is %v", every, offset)
			}
			different[offset.Truncate(time.Second)] = true
		}
	}
	if len(different) < 50 {
		t.Errorf("there are only %d", len(different))
	}
	v := view{now: noon.Add(time.Minute), every: time.Hour, offset: 2 * time.Minute, member: "me", onDuty: true}
	if got := next(v); got.do != take {
		t.Errorf("a tenant without a snapshot waits: %+v", got)
	}
	v.entries = []snapshot.Entry{verified(made(noon.Add(-time.Hour)))}
	if got := next(v); got.do != nothing {
		t.Errorf("it does not wait: %+v", got)
	}
	v.now = noon.Add(2 * time.Minute)
	if got := next(v); got.do != take || !got.slot.Equal(noon) {
		t.Errorf("it waits too long: %+v", got)
	}
}
