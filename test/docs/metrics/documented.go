package metrics

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
)

const path = "docs/reference/metrics.md"

// Programs, as the document names them.
const (
	ControlPlane   = "control-plane"
	Bootstrap      = "bootstrap"
	Infrastructure = "infrastructure"
	LoadBalancer   = "kok-apiserver-lb"
)

var managers = []string{ControlPlane, Bootstrap, Infrastructure}

// Documented are the metrics of a program by their names. A name that ends in * stands for all that begin so.
func Documented(page *markdown.Page, program string) map[string]Metric {
	all := map[string]Metric{}
	for _, row := range page.Rows("metric", "type", "labels", "of") {
		of := markdown.Code(row["of"])
		isManagers := row["of"] == "all managers" && slices.Contains(managers, program)
		if row["of"] != "all" && !isManagers && !slices.Contains(of, program) {
			continue
		}
		labels := markdown.Code(row["labels"])
		slices.Sort(labels)
		for _, name := range markdown.Code(row["metric"]) {
			all[name] = Metric{Type: row["type"], Labels: labels}
		}
	}
	return all
}

// Read reads the document.
func Read(t *testing.T) *markdown.Page {
	t.Helper()
	page, err := markdown.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// Compare fails the test when a program has other metrics than are documented for it.
func Compare(t *testing.T, program string, registered map[string]Metric) {
	t.Helper()
	documented := Documented(Read(t), program)
	for pattern := range documented {
		prefix, ok := strings.CutSuffix(pattern, "*")
		if !ok {
			continue
		}
		delete(documented, pattern)
		found := false
		for name := range registered {
			if strings.HasPrefix(name, prefix) {
				found = true
				delete(registered, name)
			}
		}
		if !found {
			t.Errorf("%s has no metric %s", program, pattern)
		}
	}
	if diff := cmp.Diff(documented, registered); diff != "" {
		t.Errorf("%s: what %s says (-) and what the program has (+) differ:\n%s", program, path, diff)
	}
}
