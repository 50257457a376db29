package registers

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// put and get are operations of register 0 between two moments.
func put(client int, value string, called, returned time.Duration) Operation {
	return Operation{Client: client, Write: true, Value: value, Called: called, Returned: returned}
}

func get(client int, value string, called, returned time.Duration) Operation {
	return Operation{Client: client, Value: value, Called: called, Returned: returned}
}

// open is a write that failed.
func open(client int, value string, called time.Duration) Operation {
	return Operation{Client: client, Write: true, Value: value, Called: called, Open: true}
}

func TestAHistoryIsLinearizableWhenEveryReadBringsTheWriteBeforeIt(t *testing.T) {
	for name, test := range map[string]struct {
		history []Operation
		want    Outcome
	}{
		"nothing was asked":                                    {nil, NotJudged},
		"it has its first value":                               {[]Operation{get(0, "", 1, 2)}, Yes},
		"a read brings what was written":                       {[]Operation{put(0, "a", 1, 2), get(1, "a", 3, 4)}, Yes},
		"a read during a write brings the value before":        {[]Operation{put(0, "a", 1, 4), get(1, "", 2, 3)}, Yes},
		"a read during a write brings that":                    {[]Operation{put(0, "a", 1, 4), get(1, "a", 2, 3)}, Yes},
		"a read after a write brings the value before":         {[]Operation{put(0, "a", 1, 2), get(1, "", 3, 4)}, No},
		"a read after a read brings an older value":            {[]Operation{put(0, "a", 1, 9), get(1, "a", 2, 3), get(2, "", 4, 5)}, No},
		"a write is lost":                                      {[]Operation{put(0, "a", 1, 2), put(0, "b", 3, 4), get(1, "b", 5, 6), get(1, "a", 7, 8)}, No},
		"two writes at a time have an order":                   {[]Operation{put(0, "a", 1, 4), put(1, "b", 1, 4), get(2, "a", 5, 6), get(3, "a", 7, 8)}, Yes},
		"two writes at a time change their order":              {[]Operation{put(0, "a", 1, 4), put(1, "b", 1, 4), get(2, "a", 5, 6), get(3, "b", 7, 8)}, No},
		"a read brings what nobody wrote":                      {[]Operation{get(0, "a", 1, 2)}, No},
		"an open write never appears":                          {[]Operation{open(0, "a", 1), get(1, "", 2, 3), put(1, "b", 4, 5), get(1, "b", 6, 7)}, Yes},
		"an open write appears later":                          {[]Operation{open(0, "a", 1), put(1, "b", 2, 3), get(1, "b", 4, 5), get(1, "a", 6, 7)}, Yes},
		"an open write appears, and is gone again":             {[]Operation{open(0, "a", 1), get(1, "a", 2, 3), get(1, "", 4, 5)}, No},
		"an open write appears twice":                          {[]Operation{open(0, "a", 1), get(1, "a", 2, 3), put(1, "b", 4, 5), get(1, "b", 6, 7), get(1, "a", 8, 9)}, No},
		"an open write appears before its call":                {[]Operation{get(1, "a", 1, 2), open(0, "a", 3)}, No},
		"an open write appears before its call, and after too": {[]Operation{get(1, "a", 1, 2), open(0, "a", 3), get(1, "a", 4, 5)}, No},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Judge(test.history, time.Minute); got.Outcome != test.want {
				t.Errorf("%s", got)
			}
		})
	}
}

func TestEachRegisterIsJudgedByItself(t *testing.T) {
	stale := []Operation{put(0, "a", 1, 2), get(1, "", 3, 4)}
	for i := range stale {
		stale[i].Register = 1
	}
	history := append([]Operation{put(0, "b", 1, 2), get(1, "b", 3, 4), open(0, "c", 5)}, stale...)
	want := Verdict{Outcome: No, Register: 1, Writes: 2, Open: 1, Reads: 2}
	if got := Judge(history, time.Minute); got != want {
		t.Errorf("%s", got)
	}
}

func TestAHistoryWithoutTimeToJudgeItIsNotJudged(t *testing.T) {
	if got := Judge(long(2000, 50), 0); got.Outcome != NotJudged || got.Writes == 0 {
		t.Errorf("%s", got)
	}
}

// What is kept of open writes is what makes the difference: as they are, each may happen at any later time.
func TestManyOpenWritesAreJudgedSoon(t *testing.T) {
	if got := Judge(long(5000, 10), time.Minute); got.Outcome != Yes || got.Open < 100 {
		t.Errorf("%s", got)
	}
}

// long is a history of clients that take turns, in which one of so many writes is open: half of those happened, some of them later.
func long(operations, openEvery int) []Operation {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // It is the same each time.
	var history []Operation
	var late []string
	now := ""
	for i := range operations {
		client, at := i%6, time.Duration(10*i)
		value := strconv.Itoa(i)
		switch {
		case random.IntN(2) == 0:
			history = append(history, get(client, now, at, at+25))
		case random.IntN(openEvery) > 0:
			now = value
			history = append(history, put(client, value, at, at+5))
		default:
			late = append(late, value)
			history = append(history, open(client, value, at))
		}
		if len(late) > 0 && random.IntN(10) == 0 {
			if now = late[0]; random.IntN(2) == 0 {
				history = append(history, get(client, now, at+6, at+9))
			}
			late = late[1:]
		}
	}
	return history
}
