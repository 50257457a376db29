package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rewriting"
)

func TestWhatIsLeftToRewriteIsToldByResource(t *testing.T) {
	left := map[string]int{}
	for i := range mostResources + 3 {
		left[fmt.Sprintf("resource-%02d", i)] = i + 1
	}
	told := leftObjectsOf(left)
	if len(told) != mostResources+1 {
		t.Fatalf("it tells of %d", len(told))
	}
	if first, last := told[0], told[mostResources]; first != (leftObjects{"resource-00", "1 are encrypted by the former key"}) ||
		last != (leftObjects{"others", "36 of 3 other resources are encrypted by the former key"}) {
		t.Errorf("it tells %+v and %+v", first, last)
	}
	if told := leftObjectsOf(nil); len(told) > 0 {
		t.Errorf("of nothing it tells %v", told)
	}
}

// The text is for the condition: it tells how far it came, and what keeps it from more. Another text wakes the control plane.
func TestARewritingTellsHowFarItCame(t *testing.T) {
	values, failed := 2, errors.New("no member answers")
	etcd := func(_ context.Context, _ string, do func(string, []byte)) (string, error) {
		for i := range values {
			do(fmt.Sprintf("/registry/nodes/%d", i), []byte("k8s\x00"))
		}
		return "/registry/nodes/2", failed
	}
	check := &rewritingCheck{rewriter: &rewriting.Rewriter{File: "0123456789", Etcds: []rewriting.Etcd{etcd}}}
	result := check.do(t.Context())
	for _, part := range []string{"0 objects were written by the new key", "2 values of etcd were looked at", "no member answers"} {
		if !strings.Contains(result.Problem, part) {
			t.Errorf("it says %q, want %q", result.Problem, part)
		}
	}
	failed, values = nil, 0
	result = check.do(t.Context())
	if progress, known := result.Value.(rewriting.Progress); result.Problem != "" || !known || !progress.Done {
		t.Errorf("in the end it says %+v", result)
	}
}
