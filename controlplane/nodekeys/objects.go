// Package nodekeys has the objects in a tenant that bring its nodes through a rotation of the cluster CA, and tells which nodes are behind.
// On each node a pod of the DaemonSet runs kok-node-keys, whose package bootstrap/nodekeys says what it does. The objects are in the tenant
// while the CA rotates, and not before or after.
//
// [Objects] is pure; package tenant applies what it returns. What is wanted of nodes has a hash, and all that depends on it has the hash in
// its name or in an annotation: another phase has another ConfigMap and other pods, and a pod that is ready says so of its own phase alone.
package nodekeys

import (
	_ "embed"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
)

const (
	// name is that of the DaemonSet, of its ServiceAccount and of its container.
	name = "kok-node-keys"
	// hashAnnotation is on pods: what they want of their nodes.
	hashAnnotation = "kok.cluster.x-k8s.io/node-keys-hash"
)

//go:embed nodekeys.yaml
var manifests []byte

// Wanted is what nodes are brought, and how.
type Wanted struct {
	// Trusted are the certificates of all CAs that nodes have to trust, and of no other, as PEM. The first one is of a CA that they trusted
	// before: by it a node that joined later tells a DaemonSet which a restore of etcd brought back.
	Trusted []byte
	// Signer is the certificate of the CA that has to have signed kubelets' certificates, as PEM; empty when any is good. It has to be
	// among Trusted.
	Signer []byte
	// Order says which of two wants is the later one: nodes take no step back.
	Order wanted.Order
	// Image is that of kok-node-keys.
	Image string
	// ImagePullSecret is what .dockerconfigjson has in a Secret for the registry of the image; empty for none.
	ImagePullSecret []byte
}

func (w Wanted) hash() string { return w.keys().Hash() }

func (w Wanted) keys() wanted.Wanted {
	return wanted.Wanted{Trusted: w.Trusted, Signer: w.Signer, Order: w.Order}
}

// Objects are all objects in the tenant.
func Objects(w Wanted) []client.Object {
	all := addon.Decode(manifests)
	files := addon.Find[*corev1.ConfigMap](all)
	files.Name += "-" + w.hash()
	files.Data = w.keys().Files()

	template := &addon.Find[*appsv1.DaemonSet](all).Spec.Template
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, hashAnnotation, w.hash())
	container := &template.Spec.Containers[0]
	container.Image = w.Image
	container.Args = []string{"run", "--hash=" + w.hash()}
	for i := range template.Spec.Volumes {
		if source := template.Spec.Volumes[i].ConfigMap; source != nil {
			source.Name = files.Name
		}
	}
	if len(w.ImagePullSecret) > 0 {
		secret := pullSecret()
		secret.Data = map[string][]byte{corev1.DockerConfigJsonKey: w.ImagePullSecret}
		template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: secret.Name}}
		all = append(all, secret)
	}
	for _, object := range all {
		addon.Label(object, name)
	}
	return all
}

// pullSecret is the Secret with which the pods pull their image, without its content.
func pullSecret() *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name + "-image-pull"},
		Type:       corev1.SecretTypeDockerConfigJson,
	}
}
