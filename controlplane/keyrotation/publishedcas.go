package keyrotation

import (
	"context"
	"fmt"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenantprobes"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// frontProxyProbeKind is the kind of the probe that looks which front proxy CAs a tenant publishes.
const frontProxyProbeKind = "front-proxy-ca"

// addPublishedCAs adds the ConfigMap in which a tenant publishes CAs of a signer to what is behind, while it does not have the CAs of the
// phase. Extension API servers trust the CAs in it: they have to trust the new CA before an API server shows a certificate by it, and the
// former CA must be gone before the rotation is over.
func addPublishedCAs(signer pki.Signer, dataKey string) func(*run, context.Context, *rotation.State, look) error {
	return func(u *run, _ context.Context, state *rotation.State, l look) error {
		if len(state.Behind) > 0 {
			u.Prober.Withdraw(l.key) // Such a pod publishes CAs of another phase.
			return nil
		}
		check := &publishedProbe{api: u.Tenants.Of(u.of.ControlPlane, u.keys), dataKey: dataKey}
		former, next := u.keys.RotatingCAs(signer)
		check.wanted, check.dropped = publishedIn(state.Record.Phase, former, next)
		result, told := u.Prober.Probe(l.key, check.probe(state.Record))
		if !told {
			u.step.Probing, result.Problem = true, "the tenant is being probed"
		}
		if is, _ := result.Value.(published); !is {
			state.Behind = append(state.Behind, fmt.Sprintf("ConfigMap %s of the tenant (%s)", tenant.PublishedCAs, result.Problem))
		}
		return nil
	}
}

// publishedIn are the CAs that a tenant has to publish in a phase, and those that it must not.
func publishedIn(phase rotation.Phase, former, next []byte) (wanted, dropped []byte) {
	if phase == rotation.Dropping {
		return next, former
	}
	return next, nil // The former one is there, unless it has expired.
}

// publishedProbe looks which CAs a tenant publishes, and takes away those that it must not publish.
type publishedProbe struct {
	api             *tenantprobes.API
	dataKey         string
	wanted, dropped []byte
}

// published reports whether a tenant publishes the CAs of the phase.
type published bool

func (v *publishedProbe) probe(of rotation.Record) probe.Probe {
	return probe.Probe{
		Identity: fmt.Sprintf("%s\n%s\n%s\n%s", of.Asked, of.Phase, v.api.Identity(), v.wanted),
		Do:       v.do,
	}
}

func (v *publishedProbe) do(ctx context.Context) probe.Result {
	c, err := v.api.Client()
	if err != nil {
		return probe.Result{Problem: errortext.Steady(err)}
	}
	waits, err := tenant.EnsurePublished(ctx, c, v.dataKey, v.wanted, v.dropped)
	if err != nil {
		return probe.Result{Problem: fmt.Sprintf("the tenant's API at %s: %s", v.api.Address(), errortext.Steady(err))}
	}
	return probe.Result{Problem: waits, Value: published(waits == "")}
}
