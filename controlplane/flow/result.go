package flow

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Result is how a step ended. The functions below make one; the zero value is Done. The step itself decides which it
// is, so that nobody has to guess from an error.
type Result struct {
	kind kind
	// text is what is waited for or postponed.
	text, reason string
	err          error
}

type kind int

const (
	done kind = iota
	postponed
	waiting
	blocked
	raced
	failed
)

// Done is the result of a step with nothing left to do.
func Done() Result { return Result{} }

// Postponed lets the steps after it go on, and says what does not happen yet.
func Postponed(what string) Result { return Result{kind: postponed, text: what} }

// Waiting says what a step waits for, which is not empty. A watch wakes the reconcile when it comes.
func Waiting(what string) Result {
	if what == "" {
		panic("a step waits for nothing")
	}
	return Result{kind: waiting, text: what}
}

// DoneOrWaiting is Done where there is nothing to wait for, else Waiting.
func DoneOrWaiting(what string) Result {
	if what == "" {
		return Done()
	}
	return Waiting(what)
}

// Blocked is for what only a person can resolve, which the error says. Another try is of no use before. The reason is
// that of the condition which shows it.
func Blocked(reason string, err error) Result {
	return Result{kind: blocked, reason: reason, err: err}
}

// Failed is for an error that another try may overcome. A conflict with another write, or with a cache that was late, is no
// failure: the next reconcile sees the new state.
func Failed(err error) Result {
	if err == nil {
		panic("a step failed without an error")
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return Result{kind: raced, err: err}
	}
	return Result{kind: failed, err: err}
}

// DoneOrFailed is Done without an error, else Failed.
func DoneOrFailed(err error) Result {
	if err == nil {
		return Done()
	}
	return Failed(err)
}

// Done reports whether the steps after it may start.
func (r Result) Done() bool { return r.kind == done || r.kind == postponed }

// Postponed is what does not happen yet; empty for nothing.
func (r Result) Postponed() string { return r.textOf(postponed) }

// Waiting is what the step waits for; empty when it does not wait.
func (r Result) Waiting() string { return r.textOf(waiting) }

// Err is the error of a step that is blocked, lost a race or failed.
func (r Result) Err() error { return r.err }

// Problem is the error that people are shown: Err, unless the step only lost a race.
func (r Result) Problem() error {
	if r.Raced() {
		return nil
	}
	return r.err
}

// Reason is the reason of a step that is blocked.
func (r Result) Reason() string { return r.reason }

// Blocked reports whether only a person can resolve it.
func (r Result) Blocked() bool { return r.kind == blocked }

// Raced reports whether another write was faster.
func (r Result) Raced() bool { return r.kind == raced }

// Failed reports whether another try may overcome it.
func (r Result) Failed() bool { return r.kind == failed }

func (r Result) textOf(k kind) string {
	if r.kind != k {
		return ""
	}
	return r.text
}
