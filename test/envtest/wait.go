package envtest

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const (
	pollInterval = 20 * time.Millisecond
	pollTimeout  = 30 * time.Second
)

// waitForWebhooks returns when the webhook server accepts TLS connections.
func (e *Environment) waitForWebhooks(ctx context.Context, server webhook.Server) error {
	check := server.StartedChecker()
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, pollTimeout, true, func(context.Context) (bool, error) {
		last = check(nil)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the webhook server: %w (last: %w)", err, last)
	}
	return nil
}
