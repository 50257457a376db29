package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addresses"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

// tenantInterval is how often the objects in a settled tenant are looked at.
const tenantInterval = 5 * time.Minute

// tenantProbe looks again and again whether a tenant's API holds some objects, and writes those that it lacks.
type tenantProbe struct {
	r *Reconciler
	// keys have only the cluster CA.
	keys    *pki.KeyMaterial
	address string
	// guard stands before the tenant.
	guard *tenantapi.Guard
	// what names the objects in messages.
	what string
	// objects renders the objects that the tenant must have, and those that it must not have. It runs each time they are needed, because to
	// keep them would take more memory than the rest of the probe.
	objects func() (wanted, unwanted []client.Object, err error)

	client client.Client
	health rest.Interface
	// applied is when the objects were last found or made right.
	applied time.Time
}

// tenantProbe is a probe of the tenant of a control plane.
func (r *Reconciler) tenantProbe(s *scope) tenantProbe {
	return tenantProbe{
		r: r, keys: s.keys.Only(pki.ClusterCA), address: addresses.HostPort(s.controlPlane.Spec.ControlPlaneEndpoint), guard: r.guards.Of(client.ObjectKeyFromObject(s.controlPlane)),
	}
}

// do proves that the tenant's API answers, and writes what is missing there; in a settled tenant it
// looks for that every tenantInterval.
func (v *tenantProbe) do(ctx context.Context) probe.Result {
	if err := v.connect(); err != nil {
		return probe.Result{Problem: errortext.Steady(err)}
	}
	if err := v.health.Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return probe.Result{Problem: fmt.Sprintf("the tenant's API does not answer at %s: %s", v.address, errortext.Steady(err))}
	}
	if !v.applied.IsZero() && v.r.Clock.Since(v.applied) < tenantInterval {
		return probe.Result{}
	}
	wanted, unwanted, err := v.objects()
	if err != nil {
		return probe.Result{Problem: err.Error()}
	}
	_, err = tenant.Apply(ctx, v.client, wanted)
	if err = errors.Join(err, tenant.Remove(ctx, v.client, unwanted)); err != nil {
		v.applied = time.Time{}
		return probe.Result{Problem: fmt.Sprintf("the tenant's API at %s does not take %s: %s", v.address, v.what, errortext.Steady(err))}
	}
	v.applied = v.r.Clock.Now()
	return probe.Result{}
}

// probe makes the probe for the prober. Its identity covers all that it depends on. It fails if the objects cannot be rendered.
func (v *tenantProbe) probe() (probe.Probe, error) {
	wanted, unwanted, err := v.objects()
	if err != nil {
		return probe.Probe{}, err
	}
	raw, err := json.Marshal([][]client.Object{wanted, unwanted})
	if err != nil {
		return probe.Probe{}, fmt.Errorf("hash %s: %w", v.what, err)
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n%s\n%s", v.address, v.keys.ClusterCA.Bundle, raw)
	return probe.Probe{Identity: hex.EncodeToString(hash.Sum(nil)), Do: v.do}, nil
}

// connect makes the clients, once.
func (v *tenantProbe) connect() error {
	if v.client != nil {
		return nil
	}
	config, err := v.config()
	if err != nil {
		return err
	}
	config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	if v.health, err = rest.UnversionedRESTClientFor(config); err != nil {
		return fmt.Errorf("connect to the tenant: %w", err)
	}
	c, err := tenant.NewClient(config)
	if err != nil {
		return err
	}
	v.client = writes.Tell(c, writes.Tenant)
	return nil
}

// config is the configuration of clients of the tenant, behind the guard.
func (v *tenantProbe) config() (*rest.Config, error) {
	config, err := certificates.Issuer{Keys: v.keys, Clock: v.r.Clock}.RESTConfig("https://"+v.address, names.ManagerUser, []string{"system:masters"})
	if err != nil {
		return nil, fmt.Errorf("connect to the tenant: %w", err)
	}
	config.Wrap(v.guard.Wrap)
	return config, nil
}

// uidProbe asks a tenant for the UID of its namespace kube-system.
func (r *Reconciler) uidProbe(s *scope) *probe.Probe {
	check := r.tenantProbe(s)
	return &probe.Probe{Identity: check.address + string(s.keys.ClusterCA.Bundle), Do: check.uid}
}

func (v *tenantProbe) uid(ctx context.Context) probe.Result {
	if err := v.connect(); err != nil {
		return probe.Result{Problem: errortext.Steady(err)}
	}
	namespace := &corev1.Namespace{}
	if err := v.client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return probe.Result{Problem: errortext.Steady(err)}
	}
	return probe.Result{Value: string(namespace.UID)}
}
