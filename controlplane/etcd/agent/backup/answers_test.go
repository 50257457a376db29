package backup

import (
	"testing"
	"time"
)

func TestALogEndsBeforeAnotherOneByTermAndThenByIndex(t *testing.T) {
	end := func(term, index uint64) Volume { return Volume{LogTerm: term, LogIndex: index} }
	for name, test := range map[string]struct {
		log, other Volume
		want       bool
	}{
		"a later entry":              {end(2, 7), end(2, 8), true},
		"a later term":               {end(2, 900), end(3, 8), true},
		"the same entry":             {end(2, 7), end(2, 7), false},
		"an earlier entry":           {end(2, 8), end(2, 7), false},
		"an earlier term":            {end(3, 8), end(2, 900), false},
		"the other one is not known": {end(2, 7), Volume{}, false},
		"this one is not known":      {Volume{}, end(2, 7), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.log.EndsBefore(test.other); got != test.want {
				t.Errorf("it is %t", got)
			}
		})
	}
}

func TestASnapshotMayGoWhenANewerOneIsVerified(t *testing.T) {
	slot := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	read := func(after time.Duration) Snapshot { return Snapshot{Slot: slot.Add(after), Revision: 7} }
	verified := func(after time.Duration) Snapshot {
		s := read(after)
		s.Verified = s.Slot.Add(time.Minute)
		return s
	}
	tried := read(0)
	tried.Reason = "HashDiffers"
	for name, test := range map[string]struct {
		all  []Snapshot
		want string
		of   time.Duration
		own  bool
	}{
		"a newer one is verified":                         {[]Snapshot{verified(time.Hour), verified(0)}, "", 0, false},
		"and this one is not":                             {[]Snapshot{verified(time.Hour), read(0)}, "", 0, false},
		"a trial refused it":                              {[]Snapshot{verified(time.Hour), tried}, "", 0, false},
		"a newer one is not verified":                     {[]Snapshot{read(time.Hour), verified(0)}, KeptNewest, 0, false},
		"an older one is verified":                        {[]Snapshot{verified(0), verified(-time.Hour)}, KeptNewest, 0, false},
		"it is alone":                                     {[]Snapshot{verified(0)}, KeptNewest, 0, false},
		"it is not read":                                  {[]Snapshot{verified(time.Hour), {Slot: slot, Reason: "Foreign"}}, KeptForeign, 0, false},
		"it is not read, in another order":                {[]Snapshot{{Slot: slot, Reason: "Tampered"}, verified(time.Hour)}, KeptForeign, 0, false},
		"it is not read, on a volume of the tenant's own": {[]Snapshot{verified(time.Hour), {Slot: slot, Reason: "Foreign"}}, "", 0, true},
		"the same, and no newer one is verified":          {[]Snapshot{read(time.Hour), {Slot: slot, Reason: "Foreign"}, verified(-time.Hour)}, KeptNewest, 0, true},
		"a newer one was verified, and is bad":            {[]Snapshot{{Slot: slot.Add(time.Hour), Reason: "Tampered", Verified: slot}, verified(0)}, KeptNewest, 0, false},
		"a newer one is in the future":                    {[]Snapshot{verified(48 * time.Hour), verified(0)}, KeptNewest, 0, false},
		"it is in the future":                             {[]Snapshot{verified(48 * time.Hour), verified(0)}, "", 48 * time.Hour, false},
		"it is in the future, and alone":                  {[]Snapshot{verified(48 * time.Hour), read(0)}, KeptNewest, 48 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := WhyKept(test.all, slot.Add(test.of), slot.Add(2*time.Hour), test.own); got != test.want {
				t.Errorf("it is kept for %q", got)
			}
		})
	}
}
