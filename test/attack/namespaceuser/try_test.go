//go:build attack

package namespaceuser

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// try is one attempt to get what is not the attacker's.
type try struct {
	// control does what is permitted and most like the attack: where it failed, the attack would show nothing.
	control func(*attacker) error
	// attack gives the error of who refused it at once, or the object that says what became of it.
	attack func(*attacker) (client.Object, error)
	// stoppedBy are words of what has to stop it.
	stoppedBy string
}

// once is a control that several tries share.
func once(control func(*attacker) error) func(*attacker) error {
	done := false
	var err error
	return func(a *attacker) error {
		if !done {
			err = control(a)
			done = true
		}
		return err
	}
}

// trial is a try that was made.
type trial struct{ name, stopped, harm string }

func (t trial) String() string {
	if t.harm != "" {
		return fmt.Sprintf("try %-120s SUCCEEDED: %s", t.name, t.harm)
	}
	return fmt.Sprintf("try %-120s stopped by: %s", t.name, t.stopped)
}

// trials are all that were made, in their order.
var trials []trial

// attempt makes all tries, each after its control.
func (a *attacker) attempt(t *testing.T, tries map[string]try) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(tries)) {
		t.Run(name, func(t *testing.T) {
			outer := a.t
			a.t = t
			defer func() { a.t = outer }()
			a.one(t, tries[name])
		})
	}
}

func (a *attacker) one(t *testing.T, tried try) {
	t.Helper()
	if err := tried.control(a); err != nil {
		t.Fatalf("what is permitted does not work: %v", err)
	}
	before := elsewhere(t)
	said := ""
	object, err := tried.attack(a)
	if err != nil {
		said = err.Error()
	} else {
		said = a.outcome(t, object, tried.stoppedBy)
	}
	harm := a.harm(t, before)
	trials = append(trials, trial{t.Name(), line(said, tried.stoppedBy), harm})
	if harm != "" {
		t.Errorf("it succeeded: %s; it was said: %s", harm, said)
	}
	if !strings.Contains(said, tried.stoppedBy) {
		t.Errorf("it should be stopped by %q, and was told: %s", tried.stoppedBy, said)
	}
}

// outcome waits for an object to say what stopped the try, and gives what it says last.
func (a *attacker) outcome(t *testing.T, object client.Object, words string) (said string) {
	t.Helper()
	_ = wait.PollUntilContextTimeout(t.Context(), pollInterval, patience, true, func(ctx context.Context) (bool, error) {
		told, err := a.told(ctx, object)
		if err != nil {
			return false, nil //nolint:nilerr // It is asked again.
		}
		said = told
		return strings.Contains(told, words), nil
	})
	return said
}

// line is the line of a text with some words, or its first.
func line(text, words string) string {
	lines := strings.Split(text, "\n")
	for _, l := range lines {
		if strings.Contains(l, words) {
			return l
		}
	}
	return lines[0]
}
