package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
)

const (
	// cleanUpTimeout bounds one clean-up; pods with large volumes take long to be removed.
	cleanUpTimeout = 5 * time.Minute
	// cleanUpRetry is when a clean-up is tried again.
	cleanUpRetry = 5 * time.Second
	// cleanUpTries is how often a host that answers may fail, or not be done in time, before it is put into quarantine.
	cleanUpTries = 3
)

// cleanUpSeen is how a clean-up went.
type cleanUpSeen struct {
	// tries is how often the host itself failed; one that was not reached did not, nor when its Secret could not be read.
	tries int
	err   error
}

// cleanUp has a host cleaned in the background, again and again until it is clean, and returns how it went the last
// time; nil when it has not ended yet. What is not the host's failure is tried again after awayRetry.
func cleanUp(work runner, key background.Key, hostClient HostClient, host *infrav1.IDCHost, instanceID string, awayRetry time.Duration) *cleanUpSeen {
	host = host.DeepCopy()
	tries := 0
	outcome, known := work.Run(key, background.Task{
		Identity: "clean-up/" + instanceID + "/" + host.Name + "/" + accessOf(host),
		Timeout:  cleanUpTimeout,
		Do: func(ctx context.Context) background.Outcome {
			err := hostClient.CleanUp(ctx, host, instanceID)
			switch {
			case err == nil:
				return background.Outcome{Text: "clean", Value: cleanUpSeen{}}
			case !hostFailed(err):
				return background.Outcome{Text: fmt.Sprintf("%d: %v", tries, err), Value: cleanUpSeen{tries, err}, Again: awayRetry}
			}
			tries++
			return background.Outcome{Text: fmt.Sprintf("%d: %v", tries, err), Value: cleanUpSeen{tries, err}, Again: cleanUpRetry}
		},
	})
	if !known {
		return nil
	}
	seen, ok := outcome.Value.(cleanUpSeen)
	if !ok { // It panicked.
		seen = cleanUpSeen{err: &HostError{Err: errors.New(outcome.Text)}, tries: cleanUpTries}
	}
	return &seen
}

// hostFailed reports whether the host itself failed: it was reached, and so is not put right by waiting for it. What
// else goes wrong, such as a host or an API server that is away, or a Secret that is not there, may pass.
func hostFailed(err error) bool {
	var failed *HostError
	return errors.As(err, &failed)
}
