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
