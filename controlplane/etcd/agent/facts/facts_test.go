package facts

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

// The text is what agents of other releases write and managers of other releases read.
func TestTheTextStays(t *testing.T) {
	for want, f := range map[string]Facts{
		`{"state":"Empty","freeBytes":5,"needBytes":3}`: {State: Empty, FreeBytes: 5, NeedBytes: 3},
		`{"state":"Empty","freeBytes":5,"needBytes":3,"seed":"Foreign: it is of another tenant"}`: {
			State: Empty, FreeBytes: 5, NeedBytes: 3, Seed: "Foreign: it is of another tenant",
		},
		`{"state":"NoSpace","message":"full","freeBytes":0,"needBytes":3}`:                                {State: NoSpace, Message: "full", NeedBytes: 3},
		`{"state":"Unreadable","reason":"LogTooShort","message":"a<b \"c\"","freeBytes":0,"needBytes":0}`: {State: Unreadable, Reason: LogTooShort, Message: "a<b \"c\""},
		`{"state":"Present","clusterID":"d1cfaf999eb97a2a","memberID":"bdae9bbc11dd390d","term":2,"index":41,"commit":40,"applied":39,` +
			`"revision":37,"storageVersion":"3.6","tornTail":true,"checked":true,"databaseBytes":24576,"freeBytes":5,"needBytes":3}`: {
			State: Present, ClusterID: "d1cfaf999eb97a2a", MemberID: "bdae9bbc11dd390d", Term: 2, Index: 41, Commit: 40, Applied: 39,
			Revision: 37, StorageVersion: "3.6", TornTail: true, Checked: true, DatabaseBytes: 24576, FreeBytes: 5, NeedBytes: 3,
		},
	} {
		got, err := f.Encode()
		if err != nil || string(got) != want+"\n" {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
		if again, err := Decode(string(got)); err != nil || again != f {
			t.Errorf("%s is read as %#v: %v", got, again, err)
		}
	}
}

func TestALongMessageIsCutOff(t *testing.T) {
	all := Facts{
		State: Unreadable, Reason: DatabaseDamaged, ClusterID: strings.Repeat("f", 16), MemberID: strings.Repeat("f", 16),
		Term: math.MaxUint64, Index: math.MaxUint64, Commit: math.MaxUint64, Applied: math.MaxUint64, Revision: math.MinInt64,
		StorageVersion: "999.999", TornTail: true, Checked: true, DatabaseBytes: math.MinInt64, FreeBytes: math.MinInt64, NeedBytes: math.MinInt64,
	}
	for _, message := range []string{"", "short", strings.Repeat("é", 2000), strings.Repeat("\x00\xff\n", 2000), strings.Repeat(`"\`, 2000), strings.Repeat("\u2028<", 3000)} {
		all.Message = message
		text, err := all.Encode()
		if err != nil || len(text) > MaxBytes || strings.Count(string(text), "\n") != 1 {
			t.Errorf("%v: %d bytes: %s", err, len(text), text)
		}
		again, err := Decode(string(text))
		if err != nil || !utf8.ValidString(again.Message) || message != "" && len(again.Message) < 5 {
			t.Errorf("%v: %q", err, again.Message)
		}
		if again.Message = message; again != all {
			t.Errorf("%s is read as %#v", text, again)
		}
	}
}

// Its beginning, which has the reason, is there however long the rest is.
func TestWhatIsSaidOfASeedIsBounded(t *testing.T) {
	for _, seed := range []string{strings.Repeat("é", 2000), strings.Repeat("\x00\xff\n", 2000), strings.Repeat(`"\`, 2000)} {
		for _, message := range []string{"", "short", strings.Repeat(`"\`, 2000)} {
			f := Facts{State: Empty, Message: message, Seed: "KeyMissing: " + seed, FreeBytes: math.MinInt64, NeedBytes: math.MinInt64}
			text, err := f.Encode()
			if err != nil || len(text) > MaxBytes || strings.Count(string(text), "\n") != 1 {
				t.Errorf("%v: %d bytes: %s", err, len(text), text)
			}
			again, err := Decode(string(text))
			if err != nil || !strings.HasPrefix(again.Seed, "KeyMissing: ") || len(again.Seed) > maxSeed || !strings.HasSuffix(again.Seed, "…") || !utf8.ValidString(again.Seed) {
				t.Errorf("%v: %q", err, again.Seed)
			}
			if strings.ContainsAny(again.Seed, "\n\x00") {
				t.Errorf("people would see %q", again.Seed)
			}
		}
	}
	// One that does not keep to it is cut off by the reader.
	if f, err := Decode(`{"state":"Empty","seed":"` + strings.Repeat("x", 900) + `"}`); err != nil || len(f.Seed) != maxSeed {
		t.Errorf("it reads %d bytes: %v", len(f.Seed), err)
	}
}

func TestWhatIsNoFactIsRefused(t *testing.T) {
	for message, want := range map[string]string{
		"":                       "unexpected end of JSON input",
		"panic: oh":              "invalid character",
		`{}`:                     `the state "" is not known`,
		`{"state":"Fine"}`:       `the state "Fine" is not known`,
		`{"state":"Unreadable"}`: "there is no reason",
		`{"state":"Empty","reason":"LogDamaged"}`:           "for which there is no reason",
		`{"state":"Present","memberID":"0x1"}`:              "memberID is not of the form",
		`{"state":"Present","clusterID":"<b>"}`:             "clusterID is not of the form",
		`{"state":"Present","storageVersion":"3.6.0"}`:      "storageVersion is not of the form",
		`{"state":"Unreadable","reason":"It is broken."}`:   "reason is not of the form",
		`{"state":"Present","index":-1}`:                    "cannot unmarshal",
		strings.Repeat(" ", MaxBytes) + `{"state":"Empty"}`: "1024 is the most",
	} {
		if f, err := Decode(message); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: read as %#v: %v", message, f, err)
		}
	}
	// What newer agents may say.
	if f, err := Decode(`{"state":"Unreadable","reason":"EatenByRats","holes":7}`); err != nil || f.Reason != "EatenByRats" || f.Damaged() || f.Unnoticed() {
		t.Errorf("%#v: %v", f, err)
	}
}

func TestOnlyBadDataAreDamage(t *testing.T) {
	for reason, want := range map[Reason]struct{ damaged, unnoticed bool }{
		LogDamaged: {true, false}, LogTooShort: {true, true}, LogMissing: {true, true}, DatabaseDamaged: {true, false}, DatabaseTooOld: {true, false},
		DatabaseMissing: {true, false}, NotPermitted: {}, InUse: {}, DiskFails: {}, NotFinished: {}, Unknown: {},
	} {
		if f := (Facts{State: Unreadable, Reason: reason}); f.Damaged() != want.damaged || f.Unnoticed() != want.unnoticed {
			t.Errorf("%s: damaged %t, unnoticed %t", reason, f.Damaged(), f.Unnoticed())
		}
	}
	for _, state := range []State{Empty, Present, NoSpace} {
		if f := (Facts{State: state}); f.Damaged() || f.Unnoticed() {
			t.Errorf("%s is damaged", state)
		}
	}
}

func TestPeopleReadOneLine(t *testing.T) {
	for want, f := range map[string]Facts{
		"Empty": {State: Empty},
		"Present; member b of cluster c, revision 3, log up to term 1 and index 5, applied up to 4": {
			State: Present, MemberID: "b", ClusterID: "c", Revision: 3, Term: 1, Index: 5, Applied: 4, Checked: true,
		},
		"Present; not every page of the database was checked": {State: Present},
		"Unreadable (InUse): it is open":                      {State: Unreadable, Reason: InUse, Message: "it is open"},
	} {
		if got := f.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// FuzzDecode reads what a host cluster says that an agent said: what is accepted can be written again, and shown to people.
func FuzzDecode(f *testing.F) {
	f.Add(`{"state":"Empty"}`)
	f.Add(`{"state":"Empty","seed":"Truncated: \"oh\""}`)
	f.Add(`{"state":"Unreadable","reason":"LogDamaged","message":"oh\u0000"}`)
	f.Add(`{"state":"Present","memberID":"a","index":7,"revision":-1}`)
	f.Fuzz(func(t *testing.T, message string) {
		read, err := Decode(message)
		if err != nil {
			return
		}
		if strings.ContainsAny(read.String(), "\n\r\x00\x1b") || !utf8.ValidString(read.String()) {
			t.Errorf("people would see %q", read)
		}
		text, err := read.Encode()
		if err != nil {
			t.Fatalf("%#v cannot be written: %v", read, err)
		}
		again, err := Decode(string(text))
		if err != nil {
			t.Fatalf("%s cannot be read: %v", text, err)
		}
		if !strings.HasSuffix(again.Message, "…") {
			again.Message = read.Message
		}
		if strings.HasSuffix(again.Seed, "…") {
			again.Seed = read.Seed
		}
		if again.Message = read.Message; again != read {
			t.Errorf("%#v is read as %#v", read, again)
		}
	})
}
