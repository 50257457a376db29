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

	"github.com/kube-on-kube/cluster-api-provider-kok/config/monitoring"
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
	selected     = regexp.MustCompile(`(\w+)!?=~?"`)
	grouped      = regexp.MustCompile(`by \(([^)]*)\)`)
)

func TestAlertsAndPanelsAreOfMetricsAndLabelsThatThereAre(t *testing.T) {
	page := Read(t)
	all := map[string]Metric{}
	for _, program := range append([]string{LoadBalancer}, managers...) {
		maps.Copy(all, Documented(page, program))
	}
	for _, expression := range published(t) {
		found := inExpression.FindAllStringSubmatch(expression, -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric", expression)
		}
		labels := strings.Split(strings.Join(append(matches(grouped, expression), matches(selected, expression)...), ","), ",")
		for _, name := range found {
			metric, ok := all[name[1]]
			if !ok || (name[2] != "") != (metric.Type == "histogram") {
				t.Errorf("%s: there is no metric %s", expression, name[0])
			}
			for _, label := range labels {
				label = strings.TrimSpace(label)
				given := label == "" || label == "instance" || label == "le" && metric.Type == "histogram"
				if !given && !slices.Contains(metric.Labels, label) {
					t.Errorf("%s: %s has no label %s", expression, name[0], label)
				}
			}
		}
	}
}

// published are the expressions of alerts and of panels.
func published(t *testing.T) []string {
	t.Helper()
	groups, err := monitoring.Groups()
	if err != nil {
		t.Fatal(err)
	}
	panels, err := monitoring.Panels()
	if err != nil {
		t.Fatal(err)
	}
	var expressions []string
	for _, group := range groups {
		for _, alert := range group.Alerts {
			expressions = append(expressions, alert.Expression)
		}
	}
	for _, panel := range panels {
		for _, target := range panel.Targets {
			expressions = append(expressions, target.Expression)
		}
	}
	if len(groups) < 4 || len(panels) < 10 {
		t.Fatalf("only %d groups of alerts and %d panels were found", len(groups), len(panels))
	}
	return expressions
}

func matches(of *regexp.Regexp, text string) []string {
	var all []string
	for _, found := range of.FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	return all
}
