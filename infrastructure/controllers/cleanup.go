package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
)

const (
	// cleanUpTimeout bounds one clean-up; pods with large volumes take long to be removed.
	cleanUpTimeout = 5 * time.Minute
	// cleanUpRetry is when a clean-up is tried again.
	cleanUpRetry = 5 * time.Second
	// cleanUpTries is how often a host that answers may fail before it is put into quarantine.
	cleanUpTries = 3
)

// cleanUpSeen is how a clean-up went.
type cleanUpSeen struct {
	// tries is how often the host itself failed; one that was not reached did not.
	tries int
	err   error
}

// cleanUp has a host cleaned in the background, again and again until it is clean, and returns how it went the last
// time; nil when it has not ended yet. A host that is away is tried again after awayRetry.
func cleanUp(work runner, key background.Key, operator Operator, host *infrav1.IDCHost, instanceID string, awayRetry time.Duration) *cleanUpSeen {
	host = host.DeepCopy()
	tries := 0
	outcome, known := work.Run(key, background.Task{
		Identity: "clean-up/" + instanceID + "/" + host.Name + "/" + accessOf(host),
		Timeout:  cleanUpTimeout,
		Do: func(ctx context.Context) background.Outcome {
			err := operator.CleanUp(ctx, host, instanceID)
			switch {
			case err == nil:
				return background.Outcome{Text: "clean", Value: cleanUpSeen{}}
			case away(err):
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
		seen = cleanUpSeen{err: errors.New(outcome.Text), tries: cleanUpTries}
	}
	return &seen
}

// away reports whether a host was not reached, or its connection ended: trying again may help.
func away(err error) bool {
	var unreached *ssh.Error
	return errors.As(err, &unreached) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
