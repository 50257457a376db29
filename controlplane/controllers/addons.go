package controllers

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
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/services"
)

const (
	// addonsProbeKind is the kind of the probe that brings the addons.
	addonsProbeKind = "addons"
	// addonsTimeout is that of kube-apiserver for its own work. A creation of a Service that is cut
	// before leaves the Service's address taken until kube-apiserver's next repair, minutes later.
	addonsTimeout = time.Minute
)

// applyAddons is done when the tenant held its addons, and none that is switched off, when it was last
// probed. It comes last and nothing waits for it: machines join without, and the API is of use.
func (r *Reconciler) applyAddons(ctx context.Context, s *scope) flow.Result {
	if s.unsupported != nil {
		return flow.Waiting(s.unsupported.Error())
	}
	dns, err := services.DNS(s.input.Network.ServiceCIDRs)
	if err != nil {
		return flow.Failed(err)
	}
	pullSecret, missing, err := r.imagePullSecret(ctx, s.controlPlane)
	if err != nil {
		return flow.Failed(err)
	}
	if missing != "" {
		return flow.Waiting(missing)
	}
	input := &addon.Input{
		Version:         s.input.Version,
		CoreDNSTag:      s.release.CoreDNS,
		KonnectivityTag: s.release.Konnectivity,
		ImageRepository: s.input.Spec.ImageRepository,
		ImagePullSecret: pullSecret,
		Spec:            s.controlPlane.Spec.Addons,
		PodCIDRs:        s.input.Network.PodCIDRs,
		DNSDomain:       s.input.Network.DNSDomain,
		DNSAddress:      dns,
		Server:          tenant.LocalServer,
		Patches:         s.controlPlane.Spec.Patches,
	}
	check := r.tenantProbe(s)
	check.what = "the addons"
	check.objects = func() (wanted, unwanted []client.Object, err error) { return addons.Objects(input) }
	probing, err := check.probe()
	if err != nil {
		return renderingFailed(err)
	}
	probing.Timeout, probing.Settled = addonsTimeout, s.settled()
	result, ok := r.prober.Probe(probe.Key{Object: client.ObjectKeyFromObject(s.controlPlane), Kind: addonsProbeKind}, probing)
	if !ok && !status.InstalledBefore(s.controlPlane) {
		return flow.Waiting("the addons are being written to the tenant")
	}
	return flow.Waiting(result.Problem)
}

// imagePullSecret is what the Secret of spec.imagePullSecret has, or says what a person has to do to it. The Secret has no
// label of its Cluster and is in no cache. Only one of this type, with the label for it, reaches the tenant, whose
// administrators read it there.
func (r *Reconciler) imagePullSecret(ctx context.Context, controlPlane *controlplanev1.KOKControlPlane) (content []byte, missing string, err error) {
	name := controlPlane.Spec.ImagePullSecret
	if name == "" {
		return nil, "", nil
	}
	secret := &corev1.Secret{}
	err = r.APIReader.Get(ctx, client.ObjectKey{Namespace: controlPlane.Namespace, Name: name}, secret)
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
	return secret.Data[corev1.DockerConfigJsonKey], "", giveaway.TakeAlong(ctx, r.Client, secret)
}
