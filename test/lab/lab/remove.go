package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// RemoveHost takes a host that AddHost added away for good: its power, its node in the host cluster, its disk. What
// lay on its disk is lost; the first hosts of the lab stay.
func (l *Lab) RemoveHost(ctx context.Context, name string) error {
	if slices.Contains(firstHosts, name) {
		return fmt.Errorf("host %s belongs to every lab and cannot be removed: use power-off", name)
	}
	return l.locked(ctx, func() error {
		h, err := l.Host(name)
		if err != nil {
			return err
		}
		return l.removeHost(ctx, h)
	})
}

// RemoveOwned removes the hosts that were added for an owner, all that it can, also those that an interrupted one left.
func (l *Lab) RemoveOwned(ctx context.Context, owner string) error {
	hosts, err := l.Hosts()
	failed := []error{err}
	for _, h := range hosts {
		if h.Owner == owner && h.Owner != "" {
			failed = append(failed, l.RemoveHost(ctx, h.Name))
		}
	}
	return errors.Join(failed...)
}

// removeHost is RemoveHost by the holder of the lock, also of a host of which not all is there.
func (l *Lab) removeHost(ctx context.Context, h *host.Host) error {
	config, err := l.RESTConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := h.PowerOff(ctx); err != nil {
		return err
	}
	err = client.CoreV1().Nodes().Delete(ctx, h.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove node %s from the host cluster: %w", h.Name, err)
	}
	if err := ignoreMissing(os.Remove(l.hostKey(h))); err != nil {
		return err
	}
	return h.Remove(ctx)
}
