//go:build envtest

package templates

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// auditPolicy has the API server log who wrote what, or tried to in a dry run, before the answer.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

// auditWrites has the API server that is not started yet keep a log of requests that write.
func (m *management) auditWrites(t *testing.T) {
	t.Helper()
	policy := m.path("audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	m.server.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).Set("audit-log-path", m.path("audit.log"))
}

// request is one that Cluster API's manager sent to write an object of the test's namespace.
type request struct {
	dryRun bool
	// object is its resource and name, and text the whole.
	resource, text string
}

// requests are those of Cluster API's manager up to now, but for events, which say what it did.
func (m *management) requests(t *testing.T) []request {
	t.Helper()
	log, err := os.ReadFile(m.path("audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	log = log[:bytes.LastIndexByte(log, '\n')+1] // The API server may be writing the last line.
	var found []request
	for line := range bytes.Lines(log) {
		event := auditv1.Event{}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("%v in the audit log's line %s", err, line)
		}
		object := event.ObjectRef
		if object == nil || object.Namespace != needed["NAMESPACE"] || object.Resource == "events" ||
			!strings.Contains(event.UserAgent, " cluster-api-controller-manager ") {
			continue
		}
		found = append(found, request{
			dryRun: strings.Contains(event.RequestURI, "dryRun=All"), resource: object.Resource,
			text: event.Verb + " " + event.RequestURI,
		})
	}
	return found
}
