package apply

import "testing"

func TestContains(t *testing.T) {
	live := map[string]any{
		"a": "1",
		"b": map[string]any{"c": "2", "d": int64(3)},
		"e": []any{map[string]any{"f": "4", "g": "5"}},
		"h": []any{},
	}
	for name, test := range map[string]struct {
		wanted any
		want   bool
	}{
		"the same":                           {live, true},
		"less":                               {map[string]any{"b": map[string]any{"d": int64(3)}}, true},
		"a list with less in its items":      {map[string]any{"e": []any{map[string]any{"f": "4"}}}, true},
		"an empty map where there is none":   {map[string]any{"z": map[string]any{}}, true},
		"an empty list where there is none":  {map[string]any{"z": []any{}}, true},
		"an empty list where there is one":   {map[string]any{"h": []any{}}, true},
		"an empty map where a text is":       {map[string]any{"a": map[string]any{}}, false},
		"an empty list where a text is":      {map[string]any{"a": []any{}}, false},
		"another value":                      {map[string]any{"a": "2"}, false},
		"a number as text":                   {map[string]any{"b": map[string]any{"d": "3"}}, false},
		"a key that is not there":            {map[string]any{"z": "1"}, false},
		"a map with a key that is not there": {map[string]any{"z": map[string]any{"y": "1"}}, false},
		"a longer list":                      {map[string]any{"e": []any{map[string]any{"f": "4"}, "x"}}, false},
		"a shorter list":                     {map[string]any{"e": []any{}}, false},
		"another type":                       {map[string]any{"b": "2"}, false},
	} {
		if got := Contains(live, test.wanted); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
