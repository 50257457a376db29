package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// Down takes the power of every host and removes every process, mount, cgroup, namespace and link of the lab. Disks
// stay, and Up boots from them again, unless purge removes the state directory too.
func (l *Lab) Down(ctx context.Context, purge bool) error {
	return l.locked(ctx, func() error {
		owner, err := host.Owner(l.network)
		if err != nil {
			return err
		}
		if owner != "" && owner != l.state {
			return fmt.Errorf("the lab that is up on this machine lies in %s, not in %s", owner, l.state)
		}
		hosts, err := host.Remnants(l.network, l.state)
		if err != nil {
			return err
		}
		var group errgroup.Group
		for _, h := range hosts {
			group.Go(func() error { return h.PowerOff(ctx) })
		}
		err = errors.Join(group.Wait(), l.endPrograms(ctx), host.RemoveNetwork(l.network), l.restoreLimits())
		if err != nil {
			return err
		}
		if err := l.checkNothingLeft(ctx); err != nil || !purge {
			return err
		}
		if err := os.RemoveAll(l.state); err != nil {
			return fmt.Errorf("remove the lab's state: %w", err)
		}
		return os.Remove(l.lockPath())
	})
}

// checkNothingLeft proves that the lab is down. The kernel takes a moment to forget a namespace's links.
func (l *Lab) checkNothingLeft(ctx context.Context) error {
	var left []string
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 10*time.Second, true, func(context.Context) (done bool, err error) {
		left, err = host.Leftovers(l.network, l.state)
		return err == nil && len(left) == 0, err
	})
	if len(left) > 0 {
		return fmt.Errorf("the lab left behind: %s", strings.Join(left, "; "))
	}
	return err
}
