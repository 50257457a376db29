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
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, last = h.Exec(ctx, nil, "ctr", "version")
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for containerd on %s: %w", h.Name, errors.Join(err, last))
	}
	return nil
}
