// Package exit has the exit statuses of kok, by which scripts tell bad news from a command that failed.
package exit

import (
	"context"
	"errors"
)

const (
	// OK means that the command did its work and has no bad news.
	OK = 0
	// Bad means that the command did its work, and that something it looked at is not as it should be.
	Bad = 1
	// Failed means that the command could not do its work, or was called wrongly.
	Failed = 2
	// Interrupted means that a person ended the command. Shells use the same status.
	Interrupted = 130
)

// BadNews is the error of a command that did its work and ends with Bad.
type BadNews struct {
	// Message is printed to standard error; empty when the output has it already.
	Message string
}

// Error is the message.
func (b *BadNews) Error() string { return b.Message }

// Status is the exit status of a command that ended with an error.
func Status(err error) int {
	var bad *BadNews
	switch {
	case err == nil:
		return OK
	case errors.As(err, &bad):
		return Bad
	case errors.Is(err, context.Canceled):
		return Interrupted
	default:
		return Failed
	}
}
