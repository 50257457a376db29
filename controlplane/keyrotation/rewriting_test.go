package keyrotation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
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
	told := leftObjectsOf(rewriting.Progress{Left: left, Unserved: map[string]bool{"resource-01": true}})
	if len(told) != mostResources+1 {
		t.Fatalf("it tells of %d", len(told))
	}
	if first, last := told[0], told[mostResources]; first != (leftObjects{"resource-00", "1 are encrypted by the former key"}) ||
		last != (leftObjects{"others", "36 of 3 other resources are encrypted by the former key"}) {
		t.Errorf("it tells %+v and %+v", first, last)
	}
	if second := told[1].why; second != "2 are encrypted by the former key, and no API that API servers serve has them; docs/keys.md says what to do" {
		t.Errorf("of what no API has it tells %q", second)
	}
	if told := leftObjectsOf(rewriting.Progress{}); len(told) > 0 {
		t.Errorf("of nothing it tells %v", told)
	}
}

// The text is for the condition: it tells how far it came, and what keeps it from more. Another text wakes the control plane.
func TestARewritingTellsHowFarItCame(t *testing.T) {
	values, failed := 2, errors.New("no member answers")
	etcd := func(_ context.Context, _ string, do func(string, []byte) bool) (string, error) {
		for i := range values {
			do(fmt.Sprintf("/registry/nodes/%d", i), []byte("k8s\x00"))
		}
		if failed == nil {
			return "", nil
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
		etcd := func(ctx context.Context, _ string, _ func(string, []byte) bool) (string, error) {
			looks++
			return "", ctx.Err()
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

// A member that is away has former values, with which a restore in place could begin. What others wrote meanwhile needs another look.
func TestALookIsNoProofWhileAVoterLags(t *testing.T) {
	looks, answers := 0, false
	look := func(context.Context, string, func(string, []byte) bool) (string, error) {
		looks++
		return "", nil
	}
	health := func(context.Context) (*etcd.Health, error) {
		return &etcd.Health{Members: []etcd.Member{
			{Name: "blue-etcd-data-0", Listed: true, Answered: true, Follows: true, Leader: true},
			{Name: "blue-etcd-data-1", Listed: true, Answered: answers, Follows: answers},
		}}, nil
	}
	check := &rewritingCheck{
		rewriter: &rewriting.Rewriter{File: "0123456789", Etcds: []rewriting.Etcd{look}},
		healths:  []func(context.Context) (*etcd.Health, error){health},
	}
	for range 3 {
		result := check.do(t.Context())
		if progress, known := result.Value.(rewriting.Progress); !known || progress.Done || !strings.Contains(result.Problem, "member blue-etcd-data-1 does not answer") {
			t.Fatalf("while it is away it is told %+v", result)
		}
	}
	if looks != 1 {
		t.Errorf("while it is away etcd is looked at %d times", looks)
	}
	answers = true
	result := check.do(t.Context())
	if progress, known := result.Value.(rewriting.Progress); result.Problem != "" || !known || !progress.Done || looks != 2 {
		t.Errorf("when it is back it is told %+v after %d looks", result, looks)
	}
}

// All of etcd is read for many tenants at the same time, in pages of several MiB.
func TestFewEtcdsAreReadAtTheSameTime(t *testing.T) {
	var places Reads
	var leave []func()
	for range mostReads {
		left, err := places.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, left)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := places.take(ended); err == nil {
		t.Errorf("more than %d are read", mostReads)
	}
	leave[0]()
	if _, err := places.take(t.Context()); err != nil {
		t.Error(err)
	}
}
