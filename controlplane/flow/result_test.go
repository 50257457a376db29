package flow

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	secrets     = schema.GroupResource{Resource: "secrets"}
	errConflict = apierrors.NewConflict(secrets, "a", errors.New("newer"))
	errExists   = apierrors.NewAlreadyExists(secrets, "a")
)

func TestResults(t *testing.T) {
	for name, test := range map[string]struct {
		result Result
		// is the one state that the result has.
		is                         string
		waiting, postponed, reason string
		// err is what failed, problem what of that people are shown.
		err, problem error
	}{
		"nothing said is done":                   {result: Result{}, is: "done"},
		"done":                                   {result: Done(), is: "done"},
		"what is postponed lets others go on":    {result: Postponed("the upgrade waits"), is: "done", postponed: "the upgrade waits"},
		"waiting":                                {result: Waiting("for the moon"), is: "waiting", waiting: "for the moon"},
		"something to wait for":                  {result: DoneOrWaiting("for the moon"), is: "waiting", waiting: "for the moon"},
		"waiting for nothing is done":            {result: DoneOrWaiting(""), is: "done"},
		"blocked":                                {result: Blocked("KeysLost", errBroken), is: "blocked", reason: "KeysLost", err: errBroken, problem: errBroken},
		"a conflict that a person must resolve":  {result: Blocked("KeysLost", errConflict), is: "blocked", reason: "KeysLost", err: errConflict, problem: errConflict},
		"failed":                                 {result: Failed(errBroken), is: "failed", err: errBroken, problem: errBroken},
		"an error that is none is done":          {result: DoneOrFailed(nil), is: "done"},
		"another write was faster":               {result: Failed(errConflict), is: "raced", err: errConflict},
		"a cache was late":                       {result: Failed(errExists), is: "raced", err: errExists},
		"a race that the step says more about":   {result: Failed(fmt.Errorf("apply: %w", errConflict)), is: "raced", err: errConflict},
		"a failure beside a race counts as race": {result: Failed(errors.Join(errBroken, errConflict)), is: "raced", err: errBroken},
	} {
		t.Run(name, func(t *testing.T) {
			r := test.result
			for state, is := range map[string]bool{
				"done": r.Done(), "waiting": r.Waiting() != "", "blocked": r.Blocked(), "raced": r.Raced(), "failed": r.Failed(),
			} {
				if is != (state == test.is) {
					t.Errorf("%s: %t, and it is %s", state, is, test.is)
				}
			}
			if r.Waiting() != test.waiting || r.Postponed() != test.postponed || r.Reason() != test.reason {
				t.Errorf("it waits for %q, postpones %q, and its reason is %q", r.Waiting(), r.Postponed(), r.Reason())
			}
			if !errors.Is(r.Err(), test.err) || !errors.Is(r.Problem(), test.problem) {
				t.Errorf("its error is %v, and people are shown %v", r.Err(), r.Problem())
			}
		})
	}
}

func TestAStepThatWasKeptUpIsNeitherDoneNorWaits(t *testing.T) {
	for name, test := range map[string]struct {
		outcome Outcome
		done    bool
		waiting string
	}{
		"it ran and is done":       {outcome: Outcome{Ran: true}, done: true},
		"it ran and waits":         {outcome: Outcome{Ran: true, Result: Waiting("for the moon")}, waiting: "for the moon"},
		"it ran and postpones":     {outcome: Outcome{Ran: true, Result: Postponed("the moon")}, done: true},
		"it was kept up":           {outcome: Outcome{}},
		"what it was kept up lags": {outcome: Outcome{Result: Waiting("for the moon")}},
	} {
		if done, waiting := test.outcome.Done(), test.outcome.Waiting(); done != test.done || waiting != test.waiting {
			t.Errorf("%s: done %t, waits for %q", name, done, waiting)
		}
	}
}

func TestAResultWithoutWhatItIsAboutIsAMistake(t *testing.T) {
	for name, mistake := range map[string]func(){
		"waiting for nothing": func() { Waiting("") }, "failed without an error": func() { Failed(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it is taken")
				}
			}()
			mistake()
		})
	}
}
