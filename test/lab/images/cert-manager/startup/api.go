// Package startup holds back a program until the API answers: after a power failure of the whole cluster, a container
// that ends and is restarted loses ten seconds and more.
package startup

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// WaitAPI returns when the API answers, or with its last error after a minute.
func WaitAPI(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.Timeout = 2 * time.Second
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		_, last = client.ServerVersion()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the API: %w: %w", err, last)
	}
	return nil
}
