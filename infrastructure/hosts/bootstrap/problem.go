package bootstrap

import (
	"context"
	"errors"
	"fmt"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
)

// ProblemError says that work on a host failed because of a problem that a probe found.
type ProblemError struct {
	Problem probe.Problem
	// Err is what went wrong.
	Err error
}

func (e *ProblemError) Error() string { return fmt.Sprintf("%s (%v)", e.Problem.Message, e.Err) }

// Unwrap returns what went wrong.
func (e *ProblemError) Unwrap() error { return e.Err }

// explain probes the host after a command failed: the cause may be a problem that came up since the last probe.
func explain(ctx context.Context, h *hosts.Host, err error) error {
	var failed *hosts.CommandError
	if !errors.As(err, &failed) {
		return err
	}
	if _, problem, probeErr := probe.Run(ctx, h); probeErr == nil && problem != nil {
		return &ProblemError{Problem: *problem, Err: err}
	}
	return err
}
