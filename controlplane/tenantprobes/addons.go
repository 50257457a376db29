package tenantprobes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/services"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

const (
	// AddonsKind is the kind of the probe that brings the addons.
	AddonsKind = "addons"
	// addonsTimeout is that of kube-apiserver for its own work. A creation of a Service that is cut
	// before leaves the Service's address taken until kube-apiserver's next repair, minutes later.
	addonsTimeout = time.Minute
)

// Addons has no problem when the tenant held its addons, and none that is switched off, when it was last probed. Before the first
// result, only a tenant that had its addons before has no problem.
func (k *Keeper) Addons(ctx context.Context, of *Facts, release versions.Release) (problem string, err error) {
	in := of.Input
	dns, err := services.DNS(in.Network.ServiceCIDRs)
	if err != nil {
		return "", err
	}
	pullSecret, missing, err := k.imagePullSecret(ctx, of.ControlPlane)
	if missing != "" || err != nil {
		return missing, err
	}
	input := &addon.Input{
		Version:         in.Version,
		CoreDNSTag:      release.CoreDNS,
		KonnectivityTag: release.Konnectivity,
		ImageRepository: in.Spec.ImageRepository,
		ImagePullSecret: pullSecret,
		Spec:            of.ControlPlane.Spec.Addons,
		PodCIDRs:        in.Network.PodCIDRs,
		DNSDomain:       in.Network.DNSDomain,
		DNSAddress:      dns,
		Server:          tenant.LocalServer,
		Patches:         of.ControlPlane.Spec.Patches,
	}
	check := &objectsProbe{api: k.Tenants.Of(of.ControlPlane, of.Keys), what: "the addons"}
	check.objects = func() (wanted, unwanted []client.Object, err error) { return addons.Objects(input) }
	probing, err := check.probe()
	if err != nil {
		return "", err
	}
	probing.Timeout, probing.Settled = addonsTimeout, of.Settled
	result, asked := k.Prober.Probe(of.probe(AddonsKind), probing)
	if !asked && !status.InstalledBefore(of.ControlPlane) {
		return "the addons are being written to the tenant", nil
	}
	return result.Problem, nil
}

// imagePullSecret is what the Secret of spec.imagePullSecret has, or says what a person has to do to it. The Secret has no
// label of its Cluster and is in no cache. Only one of this type, with the label for it, reaches the tenant, whose
// administrators read it there.
func (k *Keeper) imagePullSecret(ctx context.Context, controlPlane *controlplanev1.KOKControlPlane) (content []byte, missing string, err error) {
	name := controlPlane.Spec.ImagePullSecret
	if name == "" {
		return nil, "", nil
	}
	secret := &corev1.Secret{}
	err = k.Live.Get(ctx, client.ObjectKey{Namespace: controlPlane.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Sprintf("spec.imagePullSecret names the Secret %s, which is not in namespace %s: create it there", name, controlPlane.Namespace), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the Secret %s of spec.imagePullSecret: %w", name, err)
	}
	if secret.Type != corev1.SecretTypeDockerConfigJson {
		return nil, fmt.Sprintf("spec.imagePullSecret names the Secret %s, which is of type %s: make it anew with type %s", name, secret.Type,
			corev1.SecretTypeDockerConfigJson), nil
	}
	if refused := giveaway.Refused(secret); refused != "" {
		return nil, "spec.imagePullSecret: " + refused, nil
	}
	return secret.Data[corev1.DockerConfigJsonKey], "", giveaway.TakeAlong(ctx, k.Client, secret)
}
