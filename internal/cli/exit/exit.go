// Package exit says with which status kok ends, so that scripts can tell bad news from a command that failed.
package exit

import (
	"context"
	"errors"
)

const (
	// OK is that of a command which did its work and has no bad news.
	OK = 0
	// Bad is that of a command which did its work, and what it was asked about is not as it should be.
	Bad = 1
	// Failed is that of a command which could not do its work, or was called wrongly.
	Failed = 2
	// Interrupted is that of a command which a person ended, as shells have it.
	Interrupted = 130
)

// BadNews is the answer of a command that did its work.
type BadNews struct {
	// Message is told on standard error; empty when all was said.
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
