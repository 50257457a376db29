package load

import (
	"errors"
	"io"
	"net"
	"slices"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Fault is the end of an API server that gives no warning: it is killed, it hangs, or its host loses its power.
type Fault struct {
	// Began is when it was about to fail, Done is when it had failed: no connection that is opened later comes to it.
	Began, Done Moment
	// Left is when clients had no connection to it any more, as watches show that are back.
	Left Moment
}

// Split parts what failed from what was cut by faults: requests that the failing API server had already, which nobody
// who carries them can mend. Those are
//   - writes whose connection broke: the API server may have done them or not, and client-go does not send them again;
//   - reads of which half an answer had come: client-go sends those again that had none.
//
// A request that was answered with an error, that waited for its limit or that could not connect was not cut, and
// neither was one on a new connection that was sent when the API server had failed.
func Split(failures []Failure, faults ...Fault) (failed, cut []Failure) {
	for _, failure := range failures {
		if slices.ContainsFunc(faults, func(f Fault) bool { return f.cut(&failure) }) {
			cut = append(cut, failure)
		} else {
			failed = append(failed, failure)
		}
	}
	return failed, cut
}

func (f *Fault) cut(failure *Failure) bool {
	if failure.Began.Add(failure.Took) < f.Began {
		return false
	}
	if !failure.Write {
		return failure.Began <= f.Done && errors.Is(failure.Err, io.ErrUnexpectedEOF)
	}
	last := f.Done
	if failure.Kept {
		last = f.Left
	}
	return failure.Began <= last && broke(failure.Err)
}

// broke reports whether a request failed because its connection, which was open, broke.
func broke(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return false
	}
	if operation := (*net.OpError)(nil); errors.As(err, &operation) && operation.Op == "dial" {
		return false
	}
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) ||
		utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err)
}
