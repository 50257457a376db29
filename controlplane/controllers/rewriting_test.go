package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rewriting"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background/backgroundtest"
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

// What was true once need not hold days later: each step needs a look that began when nothing else held it up.
func TestEachStepNeedsALookOfItsOwn(t *testing.T) {
	backgroundtest.InBubble(t, probe.New, func(t *testing.T, p *probe.Prober, _ *backgroundtest.Woken) {
		of := probe.Key{Object: types.NamespacedName{Namespace: "team", Name: "blue"}, Kind: rewritingProbeKind}
		looks := 0
		etcd := func(context.Context, string, func(string, []byte)) (string, error) {
			looks++
			return "", nil
		}
		for i, step := range []struct {
			phase rotation.Phase
			due   bool
		}{{rotation.Prepared, false}, {rotation.Prepared, true}, {rotation.Dropping, false}, {rotation.Dropping, true}} {
			look := func() (probe.Result, bool) {
				check := &rewritingCheck{rewriter: &rewriting.Rewriter{File: "0123456789", Etcds: []rewriting.Etcd{etcd}}}
				return p.Probe(of, check.probe(rotation.Record{Asked: "a", Since: "b", Phase: step.phase}, step.due))
			}
			if result, told := look(); told {
				t.Errorf("%+v: an earlier look counts: %+v", step, result)
			}
			backgroundtest.After(time.Hour)
			if result, told := look(); !told || result.Problem != "" {
				t.Errorf("%+v: %+v, %t", step, result, told)
			}
			if looks != i+1 {
				t.Errorf("%+v: etcd was looked at %d times, want %d", step, looks, i+1)
			}
		}
	})
}
