// Command alerts writes the reference of alerts from the rules for Prometheus.
package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/config/monitoring"
)

// out is where the reference is, relative to the top folder of the repository.
const out = "docs/reference/alerts.md"

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "alerts:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	groups, err := monitoring.Groups()
	if err != nil {
		return err
	}
	return os.WriteFile(root+"/"+out, page(groups), 0o644)
}

const head = `# Alerts

What ` + "[`config/monitoring/prometheus-rules.yaml`](../../config/monitoring/prometheus-rules.yaml)" + ` tells Prometheus to alert of; this page is generated from it.
[monitoring.md](../monitoring.md) says how the rules are loaded, and [metrics.md](metrics.md) has the metrics.
`

func page(groups []monitoring.Group) []byte {
	var page bytes.Buffer
	page.WriteString(head)
	for _, g := range groups {
		fmt.Fprintf(&page, "\n## Group `%s`\n", g.Name)
		for _, a := range g.Alerts {
			fmt.Fprintf(&page, "\n### %s\n\n", a.Name)
			fmt.Fprintf(&page, "%s %s [More](%s).\n\n", named(a.Annotations.Summary), a.Annotations.Action, link(a.Annotations.Runbook))
			fmt.Fprintf(&page, "```promql\n%s\n```\n\n", a.Expression)
			fmt.Fprintf(&page, "Severity %s; it fires %s.\n", a.Labels["severity"], lasting(a.For))
		}
	}
	return page.Bytes()
}

// inTemplate is what Prometheus replaces in an annotation, such as {{ $labels.etcd }}.
var inTemplate = regexp.MustCompile(`\{\{ \$(?:labels\.)?(\w+)[^}]*\}\}`)

// named has the names of labels for their values.
func named(annotation string) string { return inTemplate.ReplaceAllString(annotation, "`$1`") }

// documents is what the URLs of pages of this repository begin with.
const documents = "https://github.com/kube-on-kube/cluster-api-provider-kok/blob/main/docs/"

// link is the page at a URL as this page names it.
func link(runbook string) string {
	target := strings.TrimPrefix(runbook, documents)
	if inFolder, ok := strings.CutPrefix(target, "reference/"); ok {
		return inFolder
	}
	return "../" + target
}

func lasting(duration string) string {
	if duration == "" {
		return "at once"
	}
	return "when this lasts for " + duration
}
