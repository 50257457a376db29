package hosts

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/exit"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/verdict"
)

// pollInterval is how often the host is read while the command waits.
const pollInterval = time.Second

// wait waits until the host can be used, and prints what the controller found.
func (a *adder) wait(ctx context.Context) error {
	key := client.ObjectKey{Namespace: a.namespace, Name: a.name}
	if a.flags.timeout <= 0 {
		a.cluster.Say("Not waiting; %s hosts check %s shows when it can be used", a.cluster.Program, a.name)
		return nil
	}
	host, told := &infrav1.IDCHost{}, ""
	bounded, cancel := context.WithTimeout(ctx, a.flags.timeout)
	defer cancel()
	err := wait.PollUntilContextCancel(bounded, pollInterval, true, func(context.Context) (bool, error) {
		// The end of the wait does not cut off a request. A request that fails is tried again until then.
		err := a.client.Get(ctx, key, host)
		if apierrors.IsNotFound(err) || ctx.Err() != nil {
			return false, err
		}
		left := verdict.Missing(host)
		if err != nil {
			left = a.cluster.Explain(fmt.Errorf("read IDCHost %s: %w", key, err)).Error()
		}
		if left != "" && left != told {
			a.cluster.Say("Waiting: %s", left)
			told = left
		}
		return left == "", nil
	})
	switch {
	case err == nil:
		return printFound(a.cluster.Out, host)
	case ctx.Err() != nil:
		return fmt.Errorf("IDCHost %s is added; the same command waits again: %w", key, ctx.Err())
	case bounded.Err() != nil:
		return &exit.BadNews{Message: fmt.Sprintf("IDCHost %s is added and cannot be used after %s: %s", key, a.flags.timeout, told)}
	default:
		return fmt.Errorf("read IDCHost %s: %w", key, err)
	}
}
