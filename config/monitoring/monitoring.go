// Package monitoring has what is published for Prometheus and Grafana: rules of alerts, and a dashboard.
package monitoring

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
)

// RulesFile and DashboardFile are the names of the files, in their folder and in a release.
const (
	RulesFile     = "prometheus-rules.yaml"
	DashboardFile = "grafana-dashboard.json"
)

var (
	//go:embed prometheus-rules.yaml
	rules []byte
	//go:embed grafana-dashboard.json
	dashboard []byte
)

// Files are the contents of the published files, by name.
func Files() map[string][]byte { return map[string][]byte{RulesFile: rules, DashboardFile: dashboard} }

// Group is a group of alerts of the file of rules.
type Group struct {
	Name   string  `json:"name"`
	Alerts []Alert `json:"rules"`
}

// Alert is one rule.
type Alert struct {
	Name       string `json:"alert"`
	Expression string `json:"expr"`
	// For is how long the expression has to give something, such as 5m; empty where the alert fires at once.
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations Annotations       `json:"annotations"`
}

// Annotations say what is wrong, what a person does then, and where more of it is written.
type Annotations struct {
	Summary string `json:"summary"`
	Action  string `json:"action"`
	Runbook string `json:"runbook_url"`
}

// Groups are those of the file of rules.
func Groups() ([]Group, error) {
	var file struct {
		Groups []Group `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(rules, &file); err != nil {
		return nil, fmt.Errorf("read %s: %w", RulesFile, err)
	}
	return file.Groups, nil
}

// Panel is what a dashboard shows of some queries.
type Panel struct {
	Title   string `json:"title"`
	Targets []struct {
		Expression string `json:"expr"`
	} `json:"targets"`
}

// Panels are those of the dashboard that have queries.
func Panels() ([]Panel, error) {
	var board struct {
		Panels []Panel `json:"panels"`
	}
	if err := json.Unmarshal(dashboard, &board); err != nil {
		return nil, fmt.Errorf("read %s: %w", DashboardFile, err)
	}
	var found []Panel
	for _, panel := range board.Panels {
		if len(panel.Targets) > 0 {
			found = append(found, panel)
		}
	}
	return found, nil
}
