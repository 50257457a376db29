package monitoring

import (
	"strings"
	"testing"
	"time"
)

func TestEveryAlertSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	groups, err := Groups()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, group := range groups {
		for _, alert := range group.Alerts {
			if seen[alert.Name] || !strings.HasPrefix(alert.Name, "KOK") {
				t.Errorf("%q is the name of another alert, or does not begin with KOK", alert.Name)
			}
			seen[alert.Name] = true
			for what, text := range map[string]string{"summary": alert.Annotations.Summary, "action": alert.Annotations.Action} {
				if !strings.HasSuffix(text, ".") {
					t.Errorf("%s: its %s is no sentence: %q", alert.Name, what, text)
				}
			}
			if severity := alert.Labels["severity"]; severity != "critical" && severity != "warning" {
				t.Errorf("%s: its severity is %q", alert.Name, severity)
			}
			if _, err := time.ParseDuration(alert.For); alert.For != "" && err != nil {
				t.Errorf("%s: %v", alert.Name, err)
			}
			if !strings.Contains(alert.Annotations.Runbook, "/docs/") {
				t.Errorf("%s: it names no page of the documents", alert.Name)
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d alerts were found", len(seen))
	}
}
