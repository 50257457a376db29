package controllers

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
)

// softwareName is the name of the KOKSoftware for a config; empty for none.
func softwareName(spec bootstrapv1.SoftwareSpec, version string) string {
	switch {
	case spec.Mode != bootstrapv1.SoftwareDescribed:
		return ""
	case spec.Ref.Name != "":
		return spec.Ref.Name
	default:
		return byVersion(spec) + "-" + version
	}
}

func byVersion(spec bootstrapv1.SoftwareSpec) string {
	return cmp.Or(spec.ByVersion, bootstrapv1.DefaultSoftwareByVersion)
}

// notThereError names an object that the bootstrap data needs and that a person has to make or to label.
type notThereError struct{ reason, message string }

func (e *notThereError) Error() string { return e.message }

// software reads the KOKSoftware that the config names, with the passwords of its mirrors. It is nil when the config names
// none. The error is a *notThereError when a person has to make something.
func (r *Reconciler) software(ctx context.Context, s *scope) (*cloudinit.Software, error) {
	version := s.machine.Spec.Version
	name := softwareName(s.config.Spec.Software, version)
	if name == "" {
		return nil, nil
	}
	described := &bootstrapv1.KOKSoftware{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.config.Namespace, Name: name}, described)
	if apierrors.IsNotFound(err) {
		return nil, &notThereError{bootstrapv1.SoftwareNotFoundReason, missingSoftware(s.config.Namespace, name, version)}
	}
	if err != nil {
		return nil, fmt.Errorf("get KOKSoftware %s: %w", name, err)
	}
	mirrors, err := r.mirrors(ctx, described)
	if err != nil {
		return nil, err
	}
	return &cloudinit.Software{
		Installers: described.Spec.Installers,
		Document: software.Document{
			Name: name, Version: version, Mirrors: mirrors, Components: described.Spec.Components, Kernel: described.Spec.Kernel,
		},
	}, nil
}

func missingSoftware(namespace, name, version string) string {
	return fmt.Sprintf("there is no KOKSoftware %s; make it, for example with: kok software add %s --name %s --namespace %s", name, version, name, namespace)
}

// mirrors are a KOKSoftware's, with the content of their Secrets. It labels the Secrets, so that clusterctl move takes them
// along.
func (r *Reconciler) mirrors(ctx context.Context, described *bootstrapv1.KOKSoftware) ([]software.Mirror, error) {
	var mirrors []software.Mirror
	for i, mirror := range described.Spec.Mirrors {
		read := software.Mirror{Prefix: mirror.Prefix, Exclusive: ptr.Deref(mirror.Exclusive, false)}
		for j, endpoint := range mirror.Endpoints {
			place := software.Endpoint{URL: endpoint.URL, CABundle: endpoint.CABundle}
			if name := endpoint.SecretRef.Name; name != "" {
				secret, err := r.password(ctx, described.Namespace, name)
				if err != nil {
					return nil, fmt.Errorf("spec.mirrors[%d].endpoints[%d].secretRef of KOKSoftware %s: %w", i, j, described.Name, err)
				}
				place.Username, place.Password = string(secret.Data[corev1.BasicAuthUsernameKey]), string(secret.Data[corev1.BasicAuthPasswordKey])
			}
			read.Endpoints = append(read.Endpoints, place)
		}
		mirrors = append(mirrors, read)
	}
	return mirrors, nil
}

// password reads a Secret with a user and a password.
func (r *Reconciler) password(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret, err := r.givenAway(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if secret.Type != corev1.SecretTypeBasicAuth {
		return nil, &notThereError{bootstrapv1.ReferencedSecretNotFoundReason, fmt.Sprintf(
			"Secret %s has the type %s; a password of a mirror is in one of the type %s", name, secret.Type, corev1.SecretTypeBasicAuth)}
	}
	for _, key := range []string{corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey} {
		if len(secret.Data[key]) == 0 {
			return nil, &notThereError{bootstrapv1.ReferencedSecretNotFoundReason, fmt.Sprintf("Secret %s has no key %s; add it", name, key)}
		}
	}
	return secret, giveaway.TakeAlong(ctx, r.Client, secret)
}

// softwareToConfigs wakes the configs that wait for a KOKSoftware.
func (r *Reconciler) softwareToConfigs(ctx context.Context, object client.Object) []reconcile.Request {
	configs := &bootstrapv1.KOKConfigList{}
	if err := r.Client.List(ctx, configs, client.InNamespace(object.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the KOKConfigs that may wait for a KOKSoftware", "KOKSoftware", client.ObjectKeyFromObject(object))
		return nil
	}
	var requests []reconcile.Request
	for i := range configs.Items {
		config := &configs.Items[i]
		if spec := config.Spec.Software; config.Status.DataSecretName == "" && mayName(spec, object.GetName()) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(config)})
		}
	}
	return requests
}

// mayName reports whether a spec names a KOKSoftware for some version.
func mayName(spec bootstrapv1.SoftwareSpec, name string) bool {
	version, _ := strings.CutPrefix(name, byVersion(spec)+"-")
	return softwareName(spec, version) == name
}
