package snapshot

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
)

// entries are snapshots that are so old; those with an apostrophe are not verified, those with an exclamation mark are refused.
func entries(t testing.TB, now time.Time, ages string) []Entry {
	t.Helper()
	var all []Entry
	for text := range strings.FieldsSeq(ages) {
		old, err := time.ParseDuration(strings.TrimRight(text, "'!"))
		must(t, err)
		e := Entry{Slot: now.Add(-old), Verification: &archive.Verification{}}
		switch {
		case strings.HasSuffix(text, "'"):
			e.Verification = nil
		case strings.HasSuffix(text, "!"):
			e.Err, e.Verification = archive.Refuse(archive.Tampered, "oh"), nil
		}
		all = append(all, e)
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatExpires(t *testing.T) {
	// A Wednesday.
	now := time.Date(2026, 3, 4, 23, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		ages string
		keep Keep
		want string
	}{
		"nothing is there":                    {"", Keep{Last: 2}, ""},
		"no more than there shall be":         {"1h 2h", Keep{Last: 2}, ""},
		"the last ones stay":                  {"1h 2h 3h 4h", Keep{Last: 2}, "3h 4h"},
		"one stays always":                    {"1h 2h", Keep{}, "2h"},
		"nothing is verified":                 {"1h' 2h' 3h' 4h'", Keep{Last: 2}, ""},
		"the newest is not verified":          {"1h' 2h 3h 4h", Keep{Last: 2}, "4h"},
		"only an old one is verified":         {"1h' 2h' 3h' 4h", Keep{Last: 2}, ""},
		"one that never was verified":         {"1h 2h 3h' 4h", Keep{Last: 2}, "3h' 4h"},
		"one that is newer than the last two": {"1h 2h' 3h", Keep{Last: 2}, ""},
		"one that is refused":                 {"1h 2h 3h! 4h", Keep{Last: 2}, "4h"},
		"of each day the newest":              {"1h 2h 25h 26h 49h 50h 73h", Keep{Last: 1, Daily: 3}, "2h 26h 50h 73h"},
		"days without one do not count":       {"1h 121h 145h 169h", Keep{Last: 1, Daily: 3}, "169h"},
		"of each week the newest":             {"1h 25h 73h 97h 241h 265h", Keep{Last: 1, Weekly: 2}, "25h 97h 241h 265h"},
		"one in the future":                   {"-48h 1h 2h", Keep{Last: 1}, "2h"},
		"only one in the future":              {"-48h 1h' 2h'", Keep{Last: 1}, ""},
		"a clock that is a little ahead":      {"-30m 1h 2h", Keep{Last: 1}, "1h 2h"},
		"a day's newest is not verified":      {"1h 25h' 26h", Keep{Last: 1, Daily: 2}, "25h'"},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := Expired(entries(t, now, test.ages), test.keep, now), entries(t, now, test.want)
			same := func(a, b Entry) bool { return a.Slot.Equal(b.Slot) }
			if !slices.EqualFunc(got, want, same) {
				t.Errorf("expired are %v, not %v", got, want)
			}
		})
	}
}

// Whatever is there: what goes has a newer verified one that stays, and the newest verified one never goes.
func TestNothingExpiresWithoutANewerVerifiedOneThatStays(t *testing.T) {
	now := time.Date(2026, 3, 4, 23, 0, 0, 0, time.UTC)
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		var all []Entry
		for at := now; len(all) < random.IntN(40); at = at.Add(-time.Duration(1+random.IntN(40)) * time.Hour) {
			all = append(all, entries(t, at, "0h"+[]string{"", "", "'", "!"}[random.IntN(4)])...)
		}
		keep := Keep{random.IntN(4), random.IntN(4), random.IntN(4)}
		expired := Expired(all, keep, now)
		goes := func(e Entry) bool {
			return slices.ContainsFunc(expired, func(x Entry) bool { return x.Slot.Equal(e.Slot) })
		}
		for i, e := range all {
			if goes(e) && (e.Err != nil || !slices.ContainsFunc(all[:i], func(x Entry) bool { return x.Verified() && !goes(x) })) {
				t.Fatalf("seed %d: %v goes", seed, e.Slot)
			}
		}
		// To look again changes nothing.
		if again := Expired(slices.DeleteFunc(slices.Clone(all), goes), keep, now); len(again) != 0 {
			t.Fatalf("seed %d: then %v expire", seed, again)
		}
	}
}
