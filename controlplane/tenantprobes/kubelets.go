package tenantprobes

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

const (
	// kubeletsKind is the kind of the probe whether kubelets allow an upgrade.
	kubeletsKind = "kubelets"
	// kubeletsTimeout is for all pages of Nodes of a tenant.
	kubeletsTimeout = 30 * time.Second
)

// Kubelets says what is wrong with an upgrade to a version because of the tenant's kubelets. asked is false until the first result.
func (k *Keeper) Kubelets(of *Facts, to string) (problem string, asked bool) {
	check := &kubeletsProbe{api: k.Tenants.Of(of.ControlPlane, of.Keys), to: to}
	result, asked := k.Prober.Probe(of.probe(kubeletsKind), check.probe())
	if !asked {
		result.Problem = "the tenant is being probed for its kubelets"
	}
	return result.Problem, asked
}

// WithdrawKubelets ends the probe of kubelets, because no upgrade waits for them.
func (k *Keeper) WithdrawKubelets(controlPlane *controlplanev1.KOKControlPlane) {
	k.Prober.Withdraw(probeKey(controlPlane, kubeletsKind))
}

// kubeletsProbe reads from a tenant's API, until an upgrade begins, whether its kubelets allow that.
type kubeletsProbe struct {
	api *API
	to  string
}

func (v *kubeletsProbe) probe() probe.Probe {
	return probe.Probe{
		Identity: fmt.Sprintf("%s\n%s", v.to, v.api.Identity()),
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
	var kubelets []versions.Kubelet
	err := v.api.eachNode(ctx, func(node *corev1.Node) {
		kubelets = append(kubelets, versions.Kubelet{Node: strings.Clone(node.Name), Version: strings.Clone(node.Status.NodeInfo.KubeletVersion)})
	})
	return kubelets, err
}
