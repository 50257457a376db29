package audit

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

func TestNextGivesWholeLinesOnce(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	write := func(text string) {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = file.WriteString(text)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(file.Close()).To(Succeed())
	}
	verbs := func(log *Log) []string {
		events, err := log.Next()
		g.Expect(err).NotTo(HaveOccurred())
		var list []string
		for _, event := range events {
			list = append(list, event.Verb)
		}
		return list
	}
	write("{\"verb\":\"before\"}\n")
	log, err := Open(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(verbs(log)).To(BeEmpty())
	write("{\"verb\":\"create\"}\n{\"verb\":")
	g.Expect(verbs(log)).To(Equal([]string{"create"}))
	write("\"patch\"}\n")
	g.Expect(verbs(log)).To(Equal([]string{"patch"}))
	g.Expect(verbs(log)).To(BeEmpty())

	g.Expect(os.Rename(path, path+".old")).To(Succeed())
	write("{\"verb\":\"create\"}\n")
	_, err = log.Next()
	g.Expect(err).To(MatchError(ContainSubstring("rotated")))
}

func TestIsWrite(t *testing.T) {
	write := func(change func(*auditv1.Event)) *auditv1.Event {
		event := &auditv1.Event{
			Stage: auditv1.StageResponseComplete, Verb: "patch", RequestURI: "/api/v1/namespaces/a/secrets/b?fieldManager=x",
			ObjectRef:      &auditv1.ObjectReference{Resource: "secrets", Namespace: "a", Name: "b"},
			ResponseStatus: &metav1.Status{Code: 200},
		}
		change(event)
		return event
	}
	for name, test := range map[string]struct {
		event *auditv1.Event
		want  bool
	}{
		"an accepted patch":      {write(func(*auditv1.Event) {}), true},
		"a read":                 {write(func(e *auditv1.Event) { e.Verb = "watch" }), false},
		"a refused write":        {write(func(e *auditv1.Event) { e.ResponseStatus.Code = 409 }), false},
		"a dry run":              {write(func(e *auditv1.Event) { e.RequestURI += "&dryRun=All" }), false},
		"a path, not an object":  {write(func(e *auditv1.Event) { e.ObjectRef = nil }), false},
		"an earlier stage of it": {write(func(e *auditv1.Event) { e.Stage = auditv1.StageRequestReceived }), false},
		"a review": {write(func(e *auditv1.Event) {
			e.Verb, e.ObjectRef = "create", &auditv1.ObjectReference{APIGroup: "authentication.k8s.io", Resource: "tokenreviews"}
		}), false},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(IsWrite(test.event)).To(Equal(test.want)) })
	}
}
