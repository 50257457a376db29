package controllers

import (
	"context"
	"fmt"

	"sigs.k8s.io/cluster-api/util/conditions"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// chooseVersion keeps the version that runs in all renderings while kubelets are too old for the wanted minor, or while it is not known
// whether they are. The upgrade does not begin then, and all else goes on. An upgrade that has begun does not wait for kubelets: there is
// no way back, and the rest of the upgrade may be what mends them.
func (r *Reconciler) chooseVersion(ctx context.Context, s *scope) flow.Result {
	from, err := s.leaves(ctx)
	if err != nil {
		return flow.Failed(err)
	}
	if from == "" {
		r.tenantKeeper().WithdrawKubelets(s.controlPlane)
		return flow.Done()
	}
	to := s.input.Version
	problem, asked := r.tenantKeeper().Kubelets(tenantFacts(s), to)
	if problem == "" {
		return flow.Done()
	}
	if !asked {
		s.probing = true
	}
	s.render(from, r.Versions.Table())
	return flow.Postponed(fmt.Sprintf("spec.version: the upgrade from %s to %s waits: %s", from, to, problem))
}

// leaves is the version before an upgrade to a newer minor of which nothing has begun; empty for no such upgrade. What
// was rendered tells: etcd takes the version first, and its pods do not say which they run. Before the tenant's API
// answered for the first time there are no kubelets.
func (s *scope) leaves(ctx context.Context) (string, error) {
	if !s.upgrading() || !conditions.IsTrue(s.controlPlane, conditionsv1.InitializedCondition) {
		return "", nil
	}
	newest := ""
	for _, running := range s.controlPlane.Status.Versions {
		newest = newer(newest, running.Version)
	}
	for _, component := range registry.Components.Names() {
		if !isMinorUpgrade(newest, s.input.Version) {
			return "", nil
		}
		rendered, err := s.revisions.RenderedVersion(ctx, s.key, component)
		if err != nil {
			return "", err
		}
		newest = newer(newest, rendered)
	}
	if !isMinorUpgrade(newest, s.input.Version) {
		return "", nil
	}
	return newest, nil
}

// newer is the newer of two versions, of which one may be empty.
func newer(a, b string) string {
	if a == "" || b != "" && versions.Compare(a, b) < 0 {
		return b
	}
	return a
}

func isMinorUpgrade(from, to string) bool {
	return versions.Compare(from, to) < 0 && !versions.SameMinor(from, to)
}
