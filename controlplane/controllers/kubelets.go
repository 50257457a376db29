package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

const (
	// kubeletsProbeKind is the kind of the probe whether kubelets allow an upgrade.
	kubeletsProbeKind = "kubelets"
	// kubeletsTimeout is for all pages of Nodes of a tenant.
	kubeletsTimeout = 30 * time.Second
)

// chooseVersion has everything rendered for the version that runs while kubelets are too old for the wanted minor, or
// nobody knows whether they are: nothing of the upgrade begins, and all else goes on. An upgrade that has begun
// waits for no kubelet: there is no way back, and what mends it may be a part of it.
func (r *Reconciler) chooseVersion(ctx context.Context, s *scope) flow.Result {
	key := probe.Key{Object: client.ObjectKeyFromObject(s.controlPlane), Kind: kubeletsProbeKind}
	from, err := s.leaves(ctx)
	if err != nil {
		return flow.Failed(err)
	}
	if from == "" {
		r.prober.Withdraw(key)
		return flow.Done()
	}
	to := s.input.Version
	check := &kubeletsProbe{api: r.tenantProbe(s), to: to}
	result, ok := r.prober.Probe(key, check.probe())
	if ok && result.Problem == "" {
		return flow.Done()
	}
	if !ok {
		s.probing = true
		result.Problem = "the tenant is being probed for its kubelets"
	}
	s.render(from, r.Versions.Table())
	return flow.Postponed(fmt.Sprintf("spec.version: the upgrade from %s to %s waits: %s", from, to, result.Problem))
}

// leaves is the version before an upgrade to a newer minor of which nothing has begun; empty for no such upgrade. What
// was rendered tells: etcd takes the version first, and its pods do not say which they run. Before the tenant's API
// answered for the first time there are no kubelets.
func (s *scope) leaves(ctx context.Context) (string, error) {
	if !s.upgrading() || !conditions.IsTrue(s.controlPlane, controlplanev1.InitializedCondition) {
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

// kubeletsProbe reads from a tenant's API, until an upgrade begins, whether its kubelets allow that.
type kubeletsProbe struct {
	api tenantProbe
	to  string
}

func (v *kubeletsProbe) probe() probe.Probe {
	return probe.Probe{
		Identity: fmt.Sprintf("%s\n%s\n%s", v.to, v.api.address, v.api.keys.ClusterCA.Bundle),
		Timeout:  kubeletsTimeout,
		Do:       v.do,
	}
}

func (v *kubeletsProbe) do(ctx context.Context) probe.Result {
	kubelets, err := v.kubelets(ctx)
	if err != nil {
		return probe.Result{Problem: fmt.Sprintf("the tenant's API at %s does not tell the versions of kubelets: %s", v.api.address, errortext.Steady(err))}
	}
	if err := versions.ValidateKubelets(v.to, kubelets); err != nil {
		return probe.Result{Problem: err.Error()}
	}
	return probe.Result{}
}

// kubelets are those of all Nodes, of which some may belong to no Machine.
func (v *kubeletsProbe) kubelets(ctx context.Context) ([]versions.Kubelet, error) {
	if err := v.api.connect(); err != nil {
		return nil, err
	}
	var kubelets []versions.Kubelet
	err := tenantapi.EachNode(ctx, v.api.guard, v.api.client, func(node *corev1.Node) {
		kubelets = append(kubelets, versions.Kubelet{Node: strings.Clone(node.Name), Version: strings.Clone(node.Status.NodeInfo.KubeletVersion)})
	})
	return kubelets, err
}
