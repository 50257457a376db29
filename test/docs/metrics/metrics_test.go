package metrics

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

func TestMetricsThatNobodyCountedWithAreRegisteredToo(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		prometheus.NewCounter(prometheus.CounterOpts{Name: "plain_total"}),
		prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vector_total"}, []string{"b", "a"}),
		prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "level"}, []string{"a"}),
		prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "seconds"}, []string{"a"}),
		prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: "summary"}, []string{"a", "b", "c"}),
		collectors.NewBuildInfoCollector(),
	)
	registered, err := Registered(registry)
	if err != nil {
		t.Fatal(err)
	}
	delete(registered, "go_build_info")
	if diff := cmp.Diff(map[string]Metric{
		"plain_total": {Type: "counter"}, "vector_total": {Type: "counter", Labels: []string{"a", "b"}},
		"level": {Type: "gauge", Labels: []string{"a"}}, "seconds": {Type: "histogram", Labels: []string{"a"}},
		"summary": {Type: "summary", Labels: []string{"a", "b", "c"}},
	}, registered); diff != "" {
		t.Error(diff)
	}
}

func TestAMetricIsDocumentedForItsPrograms(t *testing.T) {
	page := markdown.Parse("| metric | type | labels | of | meaning |\n|---|---|---|---|---|\n" +
		"| `one`, `two` | counter | `b`, `a` | `bootstrap` | |\n| `managers` | gauge | | all managers | |\n| `go_*` | any | any | all | |\n")
	for program, want := range map[string][]string{
		Bootstrap: {"go_*", "managers", "one", "two"}, ControlPlane: {"go_*", "managers"}, LoadBalancer: {"go_*"},
	} {
		documented := Documented(page, program)
		if got := slices.Sorted(maps.Keys(documented)); !slices.Equal(got, want) {
			t.Errorf("%s has %v", program, got)
		}
		if two, ok := documented["two"]; ok && !slices.Equal(two.Labels, []string{"a", "b"}) {
			t.Errorf("labels are %v", two.Labels)
		}
	}
}

var (
	inExpression = regexp.MustCompile(`\b((?:kok|capi|controller_runtime|workqueue|leader_election|certwatcher|rest_client|informer|process|go)_\w+?)(_bucket|_sum|_count)?\b`)
	selected     = regexp.MustCompile(`(\w+)=~?"`)
	grouped      = regexp.MustCompile(`by \(([^)]*)\)`)
)

func TestAlertsAreOfMetricsAndLabelsThatThereAre(t *testing.T) {
	page := Read(t)
	all := map[string]Metric{}
	for _, program := range append([]string{LoadBalancer}, managers...) {
		maps.Copy(all, Documented(page, program))
	}
	alerts := page.Rows("alert", "expression")
	if len(alerts) < 5 {
		t.Fatalf("only %d alerts were found", len(alerts))
	}
	var expressions []string
	for _, alert := range alerts {
		for _, alternative := range strings.Split(alert["expression"], " or ") {
			expressions = append(expressions, strings.Split(alternative, " / ")...)
		}
	}
	for _, expression := range expressions {
		found := inExpression.FindAllStringSubmatch(expression, -1)
		if len(found) != 1 {
			t.Errorf("%s names %d metrics; want one", expression, len(found))
			continue
		}
		metric, ok := all[found[0][1]]
		if !ok || (found[0][2] != "") != (metric.Type == "histogram") {
			t.Errorf("%s: there is no metric %s", expression, found[0][0])
		}
		labels := strings.Split(strings.Join(append(matches(grouped, expression), matches(selected, expression)...), ","), ",")
		for _, label := range labels {
			label = strings.TrimSpace(label)
			given := label == "" || label == "instance" || label == "le" && metric.Type == "histogram"
			if !given && !slices.Contains(metric.Labels, label) {
				t.Errorf("%s: %s has no label %s", expression, found[0][0], label)
			}
		}
		if strings.Count(expression, "(") != strings.Count(expression, ")") {
			t.Errorf("%s: parentheses do not match", expression)
		}
	}
}

func matches(of *regexp.Regexp, text string) []string {
	var all []string
	for _, found := range of.FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	return all
}
