package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestOnlyWhatTheFailingAPIServerHadIsCut(t *testing.T) {
	const began, done, left = Moment(10 * time.Second), Moment(11 * time.Second), Moment(12 * time.Second)
	reset := &url.Error{Op: "Patch", Err: &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}}
	for name, test := range map[string]struct {
		failure Failure
		cut     bool
	}{
		"a write that was under way":                          {Failure{began - 1, time.Second, true, false, reset}, true},
		"a write whose connection ended without a word":       {Failure{began, time.Second, true, false, &url.Error{Op: "Patch", Err: io.EOF}}, true},
		"a write of which half an answer came":                {Failure{began, time.Second, true, false, fmt.Errorf("read: %w", io.ErrUnexpectedEOF)}, true},
		"a write that could not be sent whole":                {Failure{began, time.Second, true, false, &url.Error{Op: "Patch", Err: syscall.EPIPE}}, true},
		"a write on a connection of before":                   {Failure{left, time.Second, true, true, reset}, true},
		"a write on a new connection after the fault":         {Failure{done + 1, time.Second, true, false, reset}, false},
		"a write on a kept connection when all had left":      {Failure{left + 1, time.Second, true, true, reset}, false},
		"a write that failed before":                          {Failure{began - 2, 1, true, false, reset}, false},
		"a write that was refused":                            {Failure{began, 1, true, false, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, false},
		"a write whose connection was reset as it was opened": {Failure{began, 1, true, false, &net.OpError{Op: "dial", Err: syscall.ECONNRESET}}, false},
		"a write that waited for its limit":                   {Failure{began, Timeout, true, false, &url.Error{Op: "Patch", Err: context.DeadlineExceeded}}, false},
		"a write that was answered with an error":             {Failure{began, 1, true, false, apierrors.NewInternalError(syscall.ECONNRESET)}, false},
		"a read without an answer":                            {Failure{began, 1, false, false, reset}, false},
		"a read of which half an answer came":                 {Failure{began, 1, false, true, fmt.Errorf("read: %w", io.ErrUnexpectedEOF)}, true},
		"a read that was sent after the fault":                {Failure{done + 1, 1, false, true, fmt.Errorf("read: %w", io.ErrUnexpectedEOF)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			failed, cut := Split([]Failure{test.failure}, Fault{}, Fault{Began: began, Done: done, Left: left})
			if got := len(cut) == 1; got != test.cut || len(failed)+len(cut) != 1 {
				t.Errorf("%d failed, %d cut", len(failed), len(cut))
			}
			if failed, _ := Split([]Failure{test.failure}); len(failed) != 1 {
				t.Error("cut without a fault")
			}
		})
	}
}
