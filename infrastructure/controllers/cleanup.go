package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hostclient"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
)

const (
	// cleanUpTimeout bounds one clean-up. The removal of pods with large volumes takes long.
	cleanUpTimeout = 5 * time.Minute
	// cleanUpRetry is how soon a clean-up is tried again.
	cleanUpRetry = 5 * time.Second
	// cleanUpTries is how often the clean-up of a host that answers may fail before the host is put into quarantine.
	cleanUpTries = 3
)

// cleanUpSeen is how a clean-up went.
type cleanUpSeen struct {
	// tries counts the failures of the host itself. It does not count when the host was not reached, or its Secret was not
	// read.
	tries int
	err   error
}

// cleanUp cleans up a host in the background, again and again until it is clean or has failed cleanUpTries times. It returns
// the result of the last try; nil when none has ended yet. A failure that is not the host's own is tried again after awayRetry.
func cleanUp(work runner, key background.Key, hostClient hostclient.Client, host *infrav1.IDCHost, instanceID string, awayRetry time.Duration) *cleanUpSeen {
	host = host.DeepCopy()
	tries := 0
	outcome, known := work.Run(key, background.Task{
		Identity: "clean-up/" + instanceID + "/" + host.Name + "/" + hostclient.Access(host),
		Timeout:  cleanUpTimeout,
		Do: func(ctx context.Context) background.Outcome {
			err := hostClient.CleanUp(ctx, host, instanceID)
			switch {
			case err == nil:
				return background.Outcome{Text: "clean", Value: cleanUpSeen{}}
			case !hostclient.HostFailed(err):
				return background.Outcome{Text: fmt.Sprintf("%d: %v", tries, err), Value: cleanUpSeen{tries, err}, Again: awayRetry}
			}
			tries++
			again := cleanUpRetry
			if tries >= cleanUpTries { // A person works on the host next.
				again = 0
			}
			return background.Outcome{Text: fmt.Sprintf("%d: %v", tries, err), Value: cleanUpSeen{tries, err}, Again: again}
		},
	})
	if !known {
		return nil
	}
	seen, ok := outcome.Value.(cleanUpSeen)
	if !ok { // It panicked.
		seen = cleanUpSeen{err: &hostclient.HostError{Err: errors.New(outcome.Text)}, tries: cleanUpTries}
	}
	return &seen
}
