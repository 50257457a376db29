package timeline

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// record is a Timeline with times that a test chose.
func record(times map[string]time.Duration) *Timeline {
	t := Start()
	for instance, at := range times {
		component, _, _ := strings.Cut(instance, "/")
		k := key{Started, component}
		if t.marks[k] == nil {
			t.marks[k] = map[string]time.Duration{}
		}
		t.marks[k][instance] = at
	}
	return t
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []time.Duration
		want   time.Duration
	}{
		{nil, 0},
		{[]time.Duration{7}, 7},
		{[]time.Duration{9, 1, 4}, 4},
		{[]time.Duration{8, 2, 4, 100}, 6},
	} {
		if got := Median(test.values); got != test.want {
			t.Errorf("median of %v is %d, want %d", test.values, got, test.want)
		}
	}
}

func TestAQuantileIsOneOfTheValues(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	for name, test := range map[string]struct {
		values []time.Duration
		part   float64
		want   time.Duration
	}{
		"of nothing":                   {nil, 0.99, 0},
		"of one":                       {[]time.Duration{7}, 0.99, 7},
		"of two, the middle":           {[]time.Duration{9, 1}, 0.5, 1},
		"of three, the middle":         {[]time.Duration{9, 1, 4}, 0.5, 4},
		"all but one in a hundred":     {hundred, 0.99, 99},
		"the longest":                  {hundred, 1, 100},
		"the half":                     {hundred, 0.5, 50},
		"the shortest":                 {hundred, 0, 1},
		"of few, the longest":          {hundred[:10], 0.99, 100},
		"longer than 32 bits can hold": {[]time.Duration{time.Hour, 1}, 1, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(test.values)
			if got := Quantile(test.values, test.part); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
			if !slices.Equal(test.values, before) {
				t.Error("it changes the order of the values")
			}
		})
	}
}

func TestRowsReadFirstLastAndQuorum(t *testing.T) {
	r := record(map[string]time.Duration{"a/0": 1, "a/1": 2, "a/2": 9, "b/0": 3, "b/1": 4, "b/2": 5})
	for _, test := range []struct {
		row  Row
		want time.Duration
	}{
		{First("", Started, "a", "b"), 1},
		{Last("", Started, "a", "b"), 9},
		{Last("", Started, "b"), 5},
		{Quorum("", Started, "a", "b"), 4},
	} {
		if got, ok := test.row.At(r); !ok || got != test.want {
			t.Errorf("got %d, %v; want %d", got, ok, test.want)
		}
	}
	if _, ok := Quorum("", Started, "a", "c").At(r); ok {
		t.Error("a component without any instance has a quorum")
	}
}

func TestOnlyTheFirstMarkCounts(t *testing.T) {
	r := Start()
	r.Mark(Answers, "a", "0")
	first := r.Times(Answers, "a")
	r.Mark(Answers, "a", "0")
	if again := r.Times(Answers, "a"); len(again) != 1 || again[0] != first[0] {
		t.Errorf("%v became %v", first, again)
	}
}

func TestWaitEndsWithTheLastNeedAndNamesWhatIsMissing(t *testing.T) {
	r := Start()
	needs := []Need{{Answers, "a", 2}, {ConfigMapMade, "", 1}}
	missing := func() string { return r.Missing(needs) }
	ended := make(chan error, 1)
	go func() { ended <- r.Wait(t.Context(), missing) }()
	r.Mark(Answers, "a", "0")
	r.Mark(ConfigMapMade, "", "")
	if got := missing(); got != "a: answers its readiness path (1 of 2)" {
		t.Errorf("missing is %q", got)
	}
	r.Mark(Answers, "a", "1")
	if err := <-ended; err != nil {
		t.Error(err)
	}

	over, cancel := context.WithCancel(t.Context())
	cancel()
	err := Start().Wait(over, func() string { return "the moon" })
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the moon") {
		t.Errorf("error is %v", err)
	}
}

func TestPrintShowsEveryRunAndTheMedianWhereThereAreTimes(t *testing.T) {
	var out bytes.Buffer
	rows := []Row{Last("a", Started, "a"), Last("b", Started, "b")}
	err := Print(&out, rows,
		Column{"tenant", []*Timeline{record(map[string]time.Duration{"a/0": time.Second}), record(map[string]time.Duration{"a/0": 2 * time.Second})}},
		Column{"floor", []*Timeline{record(map[string]time.Duration{"b/0": 500 * time.Millisecond})}})
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Fields(line))
	}
	for i, want := range []string{
		"seconds tenant 1 tenant 2 median | floor 1 |",
		"a 1.00 2.00 1.50 | |",
		"b | 0.50 |",
	} {
		if got := strings.Join(lines[i], " "); got != want {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
}

func TestAPictureHasABarForEachPhase(t *testing.T) {
	lanes := []Lane{
		{"first", []Phase{{Row: Last("", Started, "a")}, {"one", Last("", Started, "b")}, {"two", Last("", Started, "c")}}},
		{"second", []Phase{{Row: Last("", Started, "a")}, {"two", Last("", Started, "x")}}},
	}
	whole := record(map[string]time.Duration{"a/0": time.Second, "b/0": 3 * time.Second, "c/0": 4 * time.Second})
	part := record(map[string]time.Duration{"b/0": 3 * time.Second, "c/0": 4 * time.Second})
	var out bytes.Buffer
	if err := Draw(&out, "a <title>", lanes, Column{"tenant", []*Timeline{whole}}, Column{"floor", []*Timeline{part}}); err != nil {
		t.Fatal(err)
	}
	var drawn struct {
		Title string `xml:"title"`
		Bars  []struct {
			Width int    `xml:"width,attr"`
			Says  string `xml:"title"`
		} `xml:"rect"`
		Labels []string `xml:"text"`
	}
	if err := xml.Unmarshal(out.Bytes(), &drawn); err != nil {
		t.Fatal(err)
	}
	var bars []string
	for _, bar := range drawn.Bars {
		if bar.Says != "" {
			bars = append(bars, fmt.Sprintf("%s, %d", bar.Says, bar.Width))
		}
	}
	// Four seconds take 700 pixels. Nobody knows when the first phase of the second column began.
	want := []string{"one: 2.00 s, 350", "two: 1.00 s, 175", "two: 1.00 s, 175"}
	if drawn.Title != "a <title>" || !slices.Equal(bars, want) {
		t.Errorf("%s has %q", drawn.Title, bars)
	}
	for _, label := range []string{"one", "two", "first, tenant", "first, floor", "4 s"} {
		if !slices.Contains(drawn.Labels, label) {
			t.Errorf("%q is not in %q", label, drawn.Labels)
		}
	}
	if slices.Contains(drawn.Labels, "second, tenant") {
		t.Error("a lane without a bar has a label")
	}
}
