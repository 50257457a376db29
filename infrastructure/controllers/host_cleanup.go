package controllers

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/claims"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
)

// cleanLate cleans up a host whose machine was deleted while the host was away. Once it is clean, the host is free. When the
// clean-up fails although the host answers, a person must act. While a person has the host in quarantine, it waits. It reports
// whether it changed the IDCHost.
func (r *HostReconciler) cleanLate(ctx context.Context, host *infrav1.IDCHost) (bool, error) {
	c := claims.Claims{Client: r.Client, Live: r.APIReader}
	if host.Spec.UncleanInstanceID != "" && host.Spec.Claim == nil && host.Spec.Quarantine == nil {
		return true, ignoreRace(ctx, c.BeginCleanUp(ctx, host.DeepCopy()))
	}
	key := background.Key{Object: client.ObjectKeyFromObject(host), Kind: "clean-up"}
	if !waitsForCleanUp(host) {
		// A person works on the host now, so the clean-up has to end. cleanLate withdraws it only here: earlier, the cache may still
		// have the old quarantine, and the next reconcile would start it anew.
		r.probes.Withdraw(key)
		return false, nil
	}
	seen := cleanUp(r.probes, key, r.Hosts, host, host.Spec.Quarantine.InstanceID, probeRetry)
	if seen == nil || seen.err != nil && seen.tries < cleanUpTries {
		return false, nil
	}
	if err := c.EndCleanUp(ctx, host.DeepCopy(), seen.err); err != nil {
		return false, ignoreRace(ctx, err)
	}
	return true, nil
}
