package tenantprobes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// interval is how often the objects in a settled tenant are looked at.
const interval = 5 * time.Minute

// objectsProbe looks again and again whether a tenant's API holds some objects, and writes those that it lacks.
type objectsProbe struct {
	api *API
	// what names the objects in messages.
	what string
	// objects renders the objects that the tenant must have, and those that it must not have. It runs each time they are needed, because to
	// keep them would take more memory than the rest of the probe.
	objects func() (wanted, unwanted []client.Object, err error)
	// remove removes further objects, which are not known by their names; nil for none.
	remove func(context.Context, client.Client) error
	// removeAgain is true if they are looked for every interval, and false if they are looked for once.
	removeAgain bool

	// applied is when the objects were last found or made right.
	applied time.Time
}

// do proves that the tenant's API answers, and writes what is missing there; in a settled tenant it
// looks for that every interval.
func (v *objectsProbe) do(ctx context.Context) probe.Result {
	if err := v.api.connect(); err != nil {
		return probe.Result{Problem: errortext.Steady(err)}
	}
	if err := v.api.health.Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return probe.Result{Problem: fmt.Sprintf("the tenant's API does not answer at %s: %s", v.api.address, errortext.Steady(err))}
	}
	if !v.applied.IsZero() && v.api.issuer.Clock.Since(v.applied) < interval {
		return probe.Result{}
	}
	wanted, unwanted, err := v.objects()
	if err != nil {
		return probe.Result{Problem: err.Error()}
	}
	_, err = tenant.Apply(ctx, v.api.client, wanted)
	err = errors.Join(err, tenant.Remove(ctx, v.api.client, unwanted))
	if v.remove != nil && (v.removeAgain || v.applied.IsZero()) {
		err = errors.Join(err, v.remove(ctx, v.api.client))
	}
	if err != nil {
		v.applied = time.Time{}
		return probe.Result{Problem: fmt.Sprintf("the tenant's API at %s does not take %s: %s", v.api.address, v.what, errortext.Steady(err))}
	}
	v.applied = v.api.issuer.Clock.Now()
	return probe.Result{}
}

// probe makes the probe for the prober. Its identity covers all that it depends on. It fails if the objects cannot be rendered.
func (v *objectsProbe) probe() (probe.Probe, error) {
	wanted, unwanted, err := v.objects()
	if err != nil {
		return probe.Probe{}, err
	}
	raw, err := json.Marshal([][]client.Object{wanted, unwanted})
	if err != nil {
		return probe.Probe{}, fmt.Errorf("hash %s: %w", v.what, err)
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n%s", v.api.Identity(), raw)
	return probe.Probe{Identity: hex.EncodeToString(hash.Sum(nil)), Do: v.do}, nil
}
