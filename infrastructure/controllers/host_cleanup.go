package controllers

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
)

// waitForCleanUp handles a host whose last machine was deleted without a clean-up while a person had the host in quarantine.
// Once the person ends that quarantine, it begins one that lasts until the host is clean.
func (r *HostReconciler) waitForCleanUp(ctx context.Context, host *infrav1.IDCHost) error {
	c := claims{Client: r.Client, live: r.APIReader}
	changed := host.DeepCopy()
	if err := c.patchHost(ctx, changed, func() {
		changed.Spec.Quarantine = &infrav1.HostQuarantine{
			Reason: "its last machine went without a clean-up while the host was away", Since: metav1.Now(), InstanceID: host.Spec.UncleanInstanceID,
		}
		changed.Spec.UncleanInstanceID = ""
	}); err != nil {
		return ignoreRace(ctx, fmt.Errorf("write the quarantine of IDCHost %s: %w", host.Name, err))
	}
	return nil
}

// cleanLate cleans up a host whose machine was deleted while the host was away. Once it is clean, the host is free. When the
// clean-up fails although the host answers, a person must act. It reports whether it changed the IDCHost.
func (r *HostReconciler) cleanLate(ctx context.Context, host *infrav1.IDCHost) (bool, error) {
	if host.Spec.UncleanInstanceID != "" && host.Spec.Claim == nil && host.Spec.Quarantine == nil {
		return true, r.waitForCleanUp(ctx, host)
	}
	if !waitsForCleanUp(host) {
		return false, nil
	}
	quarantine := host.Spec.Quarantine
	key := background.Key{Object: client.ObjectKeyFromObject(host), Kind: "clean-up"}
	seen := cleanUp(r.probes, key, r.Hosts, host, quarantine.InstanceID, probeRetry)
	if seen == nil {
		return false, nil
	}
	var left *infrav1.HostQuarantine
	switch {
	case seen.err == nil:
	case seen.tries >= cleanUpTries:
		left = &infrav1.HostQuarantine{Since: quarantine.Since, Reason: shorten(fmt.Sprintf("the host is back, but its clean-up failed: %v", seen.err))}
	default:
		return false, nil
	}
	c := claims{Client: r.Client, live: r.APIReader}
	changed := host.DeepCopy()
	if err := c.patchHost(ctx, changed, func() { changed.Spec.Quarantine = left }); err != nil {
		return false, ignoreRace(ctx, fmt.Errorf("write the quarantine of IDCHost %s: %w", host.Name, err))
	}
	return true, nil
}
