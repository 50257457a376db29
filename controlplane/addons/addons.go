// Package addons renders what a tenant needs to be of use and what runs in the tenant itself: kube-proxy, CoreDNS and
// konnectivity's agents. Each addon is a folder with readable YAML and a small typed adapter, and can be switched off. Then
// its objects are removed.
//
// Rendering is pure. Package tenant makes a tenant hold the objects.
package addons

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/coredns"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/konnectivity"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/kubeproxy"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
)

// All lists every addon.
var All = []addon.Addon{kubeproxy.Addon, coredns.Addon, konnectivity.Addon}

// Objects returns the objects of addons that are switched on, with patches applied, and as unwanted
// those of addons that are switched off.
func Objects(in *addon.Input) (wanted, unwanted []client.Object, err error) {
	for _, a := range All {
		objects, err := Render(a, in)
		if err != nil {
			return nil, nil, err
		}
		pullSecret := pullSecret(a, objects, in.ImagePullSecret)
		if a.Mode(&in.Spec) != controlplanev1.AddonManaged {
			unwanted = append(append(unwanted, objects...), pullSecret)
			continue
		}
		if in.ImagePullSecret == nil {
			unwanted = append(unwanted, pullSecret)
		} else {
			wanted = append(wanted, pullSecret)
			usePullSecret(objects, pullSecret.Name)
		}
		objects, err = patches.Apply(a.Target(), objects, in.Patches, nil)
		if err != nil {
			return nil, nil, err
		}
		a.SetConfigHash(objects)
		wanted = append(wanted, objects...)
	}
	return wanted, unwanted, nil
}

// pullSecret is the Secret with which the addon's pods pull their images, in their namespace.
func pullSecret(a addon.Addon, objects []client.Object, content []byte) *corev1.Secret {
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: a.Name + "-image-pull"},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: content},
	}
	for _, object := range objects {
		if patches.PodTemplate(object) != nil {
			secret.Namespace = object.GetNamespace()
		}
	}
	addon.Label(secret, a.Name)
	return secret
}

// usePullSecret has the pods of an addon pull their images with a Secret.
func usePullSecret(objects []client.Object, name string) {
	for _, object := range objects {
		if template := patches.PodTemplate(object); template != nil {
			template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: name}}
		}
	}
}

// Render gives all objects of an addon, whether it is wanted or not, without patches.
func Render(a addon.Addon, in *addon.Input) ([]client.Object, error) {
	objects, err := a.Objects(in)
	if err != nil {
		return nil, fmt.Errorf("render addon %s: %w", a.Name, err)
	}
	for _, object := range objects {
		addon.Label(object, a.Name)
	}
	return objects, nil
}
