package tenantprobes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
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

// Tenants is how the APIs of tenants are reached.
type Tenants struct {
	Clock clock.PassiveClock
	// Guards stand before tenants.
	Guards *tenantapi.Guards
}

// Of is the way to a tenant's API. It keeps nothing but the cluster CA of the keys. Every probe needs one of its own.
func (t Tenants) Of(controlPlane *controlplanev1.KOKControlPlane, keys *pki.KeyMaterial) *API {
	return &API{
		address: addresses.HostPort(controlPlane.Spec.ControlPlaneEndpoint), issuer: certificates.Issuer{Keys: keys.Only(pki.ClusterCA), Clock: t.Clock},
		guard: t.Guards.Of(client.ObjectKeyFromObject(controlPlane)),
	}
}

// API is the way to one tenant's API. Not more than one goroutine may use it at the same time.
type API struct {
	address string
	// issuer has only the cluster CA.
	issuer certificates.Issuer
	// guard stands before the tenant.
	guard *tenantapi.Guard

	client client.Client
	health rest.Interface
}

// Address is the host and port of the API.
func (a *API) Address() string { return a.address }

// Identity differs for another address, and for other cluster CAs that are trusted or in use.
func (a *API) Identity() string {
	return fmt.Sprintf("%s\n%s", a.address, certificates.ClientIdentity(a.issuer.Keys, pki.ClusterCA))
}

// Config is the configuration of clients of the tenant, behind the guard.
func (a *API) Config() (*rest.Config, error) {
	config, err := a.issuer.RESTConfig("https://"+a.address, names.ManagerUser, []string{"system:masters"})
	if err != nil {
		return nil, fmt.Errorf("connect to the tenant: %w", err)
	}
	config.Wrap(a.guard.Wrap)
	return config, nil
}

// Client is a client of the tenant, which is made once.
func (a *API) Client() (client.Client, error) {
	err := a.connect()
	return a.client, err
}

// connect makes the clients, once.
func (a *API) connect() error {
	if a.client != nil {
		return nil
	}
	config, err := a.Config()
	if err != nil {
		return err
	}
	config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	if a.health, err = rest.UnversionedRESTClientFor(config); err != nil {
		return fmt.Errorf("connect to the tenant: %w", err)
	}
	c, err := tenant.NewClient(config)
	if err != nil {
		return err
	}
	a.client = writes.Tell(c, writes.Tenant)
	return nil
}

// Guard stands before the tenant.
func (a *API) Guard() *tenantapi.Guard { return a.guard }

// EachSecret calls do for each Secret of a type, page by page.
func (a *API) EachSecret(ctx context.Context, of corev1.SecretType, do func(*corev1.Secret)) error {
	if err := a.connect(); err != nil {
		return err
	}
	return tenantapi.EachSecret(ctx, a.guard, a.client, of, do)
}

// EachPod calls do for each pod, page by page.
func (a *API) EachPod(ctx context.Context, do func(*corev1.Pod)) error {
	if err := a.connect(); err != nil {
		return err
	}
	return tenantapi.EachPod(ctx, a.guard, a.client, do)
}

// eachNode calls do for each Node, page by page.
func (a *API) eachNode(ctx context.Context, do func(*corev1.Node)) error {
	if err := a.connect(); err != nil {
		return err
	}
	return tenantapi.EachNode(ctx, a.guard, a.client, do)
}

// UID is a probe of the UID of the tenant's namespace kube-system.
func (a *API) UID() *probe.Probe {
	return &probe.Probe{Identity: a.Identity(), Do: a.uid}
}

func (a *API) uid(ctx context.Context) probe.Result {
	if err := a.connect(); err != nil {
		return probe.Result{Problem: errortext.Steady(err)}
	}
	namespace := &corev1.Namespace{}
	if err := a.client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return probe.Result{Problem: errortext.Steady(err)}
	}
	return probe.Result{Value: string(namespace.UID)}
}
