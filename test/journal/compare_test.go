package journal

import (
	"slices"
	"testing"
)

func TestWhatWasAcknowledgedAndIsNotThereIsLost(t *testing.T) {
	acknowledged := map[string]string{"a": "1", "b": "2", "c": "3"}
	for name, test := range map[string]struct {
		found map[string]string
		want  []string
	}{
		"all is there":                        {map[string]string{"a": "1", "b": "2", "c": "3"}, nil},
		"one that nobody acknowledged is too": {map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}, nil},
		"one is gone":                         {map[string]string{"a": "1", "c": "3"}, []string{"b is not there"}},
		"one is another":                      {map[string]string{"a": "1", "b": "0", "c": "3"}, []string{`b is "0", "2" was acknowledged`}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lost(acknowledged, test.found); !slices.Equal(got, test.want) {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestLostKeysOfAJournalAreOlderThanANumber(t *testing.T) {
	j := &Journal{options: Options{Name: "node-1"}, acknowledged: map[string]string{"node-1-9": "a", "node-1-30": "b", "node-1-2": "c"}}
	if newest := j.Newest(); newest != 30 {
		t.Errorf("the newest key is %d", newest)
	}
	lost := []string{"node-1-2 is not there", `node-1-19 is "a", "b" was acknowledged`, "node-1-20 is not there", "node-11-3 is not there", "node-1-1-3 is not there"}
	if before := j.Before(20, lost); !slices.Equal(before, lost[:2]) {
		t.Errorf("before 20 are %q", before)
	}
	if newest := (&Journal{}).Newest(); newest != -1 {
		t.Errorf("the newest key of a journal that has none is %d", newest)
	}
}
