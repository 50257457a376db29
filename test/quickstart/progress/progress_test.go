package progress

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestAWaitThatEndsPrintsEveryState(t *testing.T) {
	var out bytes.Buffer
	began := time.Now()
	look := func(context.Context) (bool, string, error) {
		if time.Since(began) < pause/2 {
			return false, "no pod", nil
		}
		return time.Since(began) > 2*pause, "pod starts", nil
	}
	if err := New(&out, time.Now()).Wait(t.Context(), "the manager", time.Minute, nil, look); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "no pod"); got != 1 {
		t.Errorf("an unchanged state was printed %d times:\n%s", got, out.String())
	}
	for _, want := range []string{"pod starts", "the manager: done"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
}

func TestAWaitInVainSaysWhatForAndWhatToLookAt(t *testing.T) {
	var out bytes.Buffer
	look := func(context.Context) (bool, string, error) { return false, "", errors.New("connection refused") }
	err := New(&out, time.Now()).Wait(t.Context(), "the manager", 0, []string{"kubectl logs"}, look)
	if !IsStuck(err) {
		t.Fatalf("error %v is no *Stuck", err)
	}
	for _, want := range []string{"for the manager", "last state: connection refused", "look next at:\n    kubectl logs"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
}

func TestAnInterruptedWaitEndsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	look := func(context.Context) (bool, string, error) { return false, "not yet", nil }
	err := New(&bytes.Buffer{}, time.Now()).Wait(ctx, "the manager", time.Hour, nil, look)
	if !errors.Is(err, context.Canceled) || IsStuck(err) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestStagesStopAtTheFirstFailure(t *testing.T) {
	var out bytes.Buffer
	stages := Stages{Log: New(&out, time.Now())}
	ran := 0
	fail := errors.New("no such host")
	err := stages.Run(t.Context(),
		Stage{"lab", func(context.Context) error { ran++; return nil }},
		Stage{"providers", func(context.Context) error { ran++; return fail }},
		Stage{"tenant", func(context.Context) error { ran++; return nil }},
	)
	if ran != 2 || !errors.Is(err, fail) || !strings.HasPrefix(err.Error(), "providers: ") {
		t.Errorf("ran %d stages, error %v", ran, err)
	}
	if err := stages.Table(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "total") {
		t.Errorf("no table:\n%s", out.String())
	}
}
