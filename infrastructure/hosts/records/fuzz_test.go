package records_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
)

// FuzzRecords: what a host says of its machine is the same when it is written there again.
func FuzzRecords(f *testing.F) {
	for _, seed := range []string{
		`{"namespace":"team","name":"a","instanceID":"1","dataHash":"0a","seeded":true,"images":["a"],"keys":{"/root/.ssh/authorized_keys":["AAAA"]},"podRanges":["10.244.0.0/16"],"routes":["10.244.2.0/24 via 192.0.2.1"],"takenOver":"a kubelet runs"}`,
		`{}`, `null`, `[]`, ``, `{"images":null}`, `{"images":[]}`, `{"name":1}`, "{\"name\":\"\xff\"}", `{"name":"\u001b"}`, `{"name":"` + strings.Repeat("a", 5000) + `"}`, `{"NAME":"a","name":"b"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		host := &hosttest.Liar{Paths: []string{records.File}, Answers: map[string]string{"cat": text}}
		record, err := records.Read(t.Context(), hosts.New(host, "root"))
		if err != nil {
			return
		}
		if record == nil {
			t.Fatal("a record that is there is none")
		}
		if err := record.Write(t.Context(), hosts.New(host, "root")); err != nil {
			t.Fatal(err)
		}
		again := &hosttest.Liar{Paths: []string{records.File}, Answers: map[string]string{"cat": string(host.Written)}}
		read, err := records.Read(t.Context(), hosts.New(again, "root"))
		if diff := cmp.Diff(record, read, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("written again it is another: %v\n%s", err, diff)
		}
		if message := (&ownership.InUseError{Record: record}).Error(); !hosttest.TellableTo(message, 4096) {
			t.Errorf("the message cannot be told: %d bytes, %.200q", len(message), message)
		}
	})
}
