package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// WaitContainerd waits until the host's containerd answers: then images can be loaded and a kubelet can start.
func (h *Host) WaitContainerd(ctx context.Context) error {
	return h.waitFor(ctx, "containerd", "ctr", "version")
}

// WaitLogin waits until the host is far enough in its boot that users may log in.
func (h *Host) WaitLogin(ctx context.Context) error {
	return h.waitFor(ctx, "the end of the boot", "systemctl", "is-active", "--quiet", "multi-user.target")
}

// waitFor repeats a command on the host until it succeeds.
func (h *Host) waitFor(ctx context.Context, what string, argv ...string) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, last = h.Exec(ctx, nil, argv...)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s on %s: %w", what, h.Name, errors.Join(err, last))
	}
	return nil
}
