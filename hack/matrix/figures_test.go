package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

func TestFiguresAreShownByScenarioAndAddedUpWhereThatMeansSomething(t *testing.T) {
	measured := func(name string, value any, unit, scenario string) figures.Figure {
		f := figures.New(name, value, unit)
		f.Scenario = scenario
		return f
	}
	all, err := withSums([]figures.Figure{
		measured("upgrade_seconds", "83.20", "s", "to v1.35"), measured("upgrade_lost_writes", 1, "writes", "to v1.35"),
		measured("upgrade_seconds", "90", "s", "to v1.36"), measured("upgrade_lost_writes", 2, "writes", "to v1.36"),
		measured("provider_upgrade_pod_restarts", 0, "restarts", "to this release"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeFigures(&out, all); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		if fields := strings.Fields(line); len(fields) > 0 {
			lines = append(lines, strings.Join(fields, " "))
		}
	}
	want := `figure upgrade_seconds 83.20 s to v1.35
figure upgrade_seconds 90 s to v1.36
figure upgrade_lost_writes 1 writes to v1.35
figure upgrade_lost_writes 2 writes to v1.36
figure upgrade_lost_writes 3 writes sum of 2 scenarios
figure provider_upgrade_pod_restarts 0 restarts to this release`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("it shows\n%s\nnot\n%s", got, want)
	}
}

func TestStepsOfAListDoNotShareTheirReports(t *testing.T) {
	for _, l := range lists() {
		seen := map[string]bool{}
		for _, s := range l.steps {
			if seen[s.name] {
				t.Errorf("%s has two steps %s", l.name, s.name)
			}
			seen[s.name] = true
		}
	}
}

func TestAnUnknownListIsRefusedWithThoseThatThereAre(t *testing.T) {
	cmd := command()
	cmd.SetArgs([]string{"run", "test-some"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "test, test-all, bench, bench-quick, bench-upgrade") {
		t.Error(err)
	}
}
