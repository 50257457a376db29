package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/pki"
)

const (
	// tenantQuestion is the kind of the question to a tenant's API.
	tenantQuestion = "tenant"
	// tenantInterval is how often the objects in a settled tenant are looked at.
	tenantInterval = 5 * time.Minute
	// managerUser is who the controller is in a tenant, by a certificate that lives an hour and never
	// leaves its memory.
	managerUser = "kok-control-plane"
)

// applyTenantObjects is done when the tenant's API answered at its endpoint and held what joining
// machines need, when it was last asked. It is asked in the background, and at once when the number
// of ready API servers changes.
func (r *Reconciler) applyTenantObjects(_ context.Context, s *scope) (string, error) {
	objects, unwanted, err := tenantObjects(s)
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal([][]client.Object{objects, unwanted})
	if err != nil {
		return "", fmt.Errorf("hash the tenant's objects: %w", err)
	}
	visit := &tenantVisit{r: r, keys: s.keys, address: endpointAddress(s.controlPlane), objects: objects, unwanted: unwanted}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n%s\n%s", visit.address, s.keys.ClusterCA.Bundle, raw)
	prompt := ""
	if state := stateOf(s.applied(names.KubeAPIServer)); state != nil {
		prompt = fmt.Sprintf("%d are ready", state.ready)
	}
	answer, ok := r.questions.Ask(probe.Key{Object: client.ObjectKeyFromObject(s.controlPlane), Kind: tenantQuestion},
		probe.Question{Identity: hex.EncodeToString(hash.Sum(nil)), Prompt: prompt, Ask: visit.ask})
	if !ok {
		s.asking = true
		return fmt.Sprintf("the tenant's API at %s is being asked", visit.address), nil
	}
	return answer.Problem, nil
}

// tenantObjects are the objects that a tenant shall hold, and those that it shall not.
func tenantObjects(s *scope) (wanted, unwanted []client.Object, err error) {
	wanted, err = tenant.Objects(tenant.Settings{
		ClusterName:               s.key.Name,
		Version:                   s.input.Version,
		PodCIDRs:                  s.input.Network.PodCIDRs,
		ServiceCIDRs:              s.input.Network.ServiceCIDRs,
		DNSDomain:                 s.input.Network.DNSDomain,
		CABundle:                  s.keys.ClusterCA.Bundle,
		ImageRepository:           s.input.Spec.ImageRepository,
		KubeletServerTLSBootstrap: true,
	})
	if err != nil || s.unsupported != nil {
		return wanted, nil, err
	}
	dns, err := tenant.DNSAddress(s.input.Network.ServiceCIDRs)
	if err != nil {
		return nil, nil, err
	}
	addonObjects, unwanted, err := addons.Objects(&addon.Input{
		Version:         s.input.Version,
		CoreDNSTag:      s.coreDNSTag,
		ImageRepository: s.input.Spec.ImageRepository,
		Spec:            s.controlPlane.Spec.Addons,
		PodCIDRs:        s.input.Network.PodCIDRs,
		DNSDomain:       s.input.Network.DNSDomain,
		DNSAddress:      dns,
		Server:          tenant.LocalServer,
	})
	return append(wanted, addonObjects...), unwanted, err
}

// tenantVisit is one question to a tenant's API, asked again and again.
type tenantVisit struct {
	r       *Reconciler
	keys    *pki.KeyMaterial
	address string
	objects []client.Object
	// unwanted are objects of addons that are switched off.
	unwanted []client.Object

	client client.Client
	probe  rest.Interface
	// applied is when the objects were last found or made right.
	applied time.Time
}

// ask proves that the tenant's API answers, and writes what is missing there; in a settled tenant it
// looks for that every tenantInterval.
func (v *tenantVisit) ask(ctx context.Context) probe.Answer {
	if err := v.connect(); err != nil {
		return probe.Answer{Problem: err.Error()}
	}
	if err := v.probe.Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return probe.Answer{Problem: fmt.Sprintf("the tenant's API does not answer at %s: %v", v.address, err)}
	}
	if !v.applied.IsZero() && v.r.Clock.Since(v.applied) < tenantInterval {
		return probe.Answer{}
	}
	_, err := tenant.Apply(ctx, v.client, v.objects)
	if err = errors.Join(err, tenant.Remove(ctx, v.client, v.unwanted)); err != nil {
		v.applied = time.Time{}
		return probe.Answer{Problem: fmt.Sprintf("the tenant's API at %s does not take the objects that machines need to join: %v", v.address, err)}
	}
	v.applied = v.r.Clock.Now()
	return probe.Answer{}
}

// connect makes the clients, once.
func (v *tenantVisit) connect() error {
	if v.client != nil {
		return nil
	}
	config, err := v.keys.RESTConfig(v.r.Clock, "https://"+v.address, managerUser, []string{"system:masters"})
	if err != nil {
		return fmt.Errorf("connect to the tenant: %w", err)
	}
	config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	if v.probe, err = rest.UnversionedRESTClientFor(config); err != nil {
		return fmt.Errorf("connect to the tenant: %w", err)
	}
	v.client, err = tenant.NewClient(config)
	return err
}
