package backup

import "testing"

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
