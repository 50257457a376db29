// Package addon is what every addon of a tenant is made with.
package addon

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
)

// NameLabel names the addon that an object in a tenant belongs to.
const NameLabel = "kok.cluster.x-k8s.io/addon"

// Input is everything that addons depend on.
type Input struct {
	// Version is the tenant's Kubernetes version, with "v".
	Version string
	// CoreDNSTag is the tag of the CoreDNS image that goes with Version.
	CoreDNSTag string
	// KonnectivityTag is the tag of the konnectivity agent's image that goes with Version.
	KonnectivityTag string
	// ImageRepository is the registry and path that images come from.
	ImageRepository string
	// ImagePullSecret is what .dockerconfigjson has in a Secret for the registry of images; empty for none.
	ImagePullSecret []byte
	Spec            controlplanev1.AddonsSpec
	// PodCIDRs may be empty.
	PodCIDRs  []string
	DNSDomain string
	// DNSAddress is the address of the DNS Service.
	DNSAddress string
	// Server is the host and port where workers reach the tenant's API.
	Server string
	// Patches are those of the control plane, for addons and for others.
	Patches []controlplanev1.Patch
}

// Addon is one addon.
type Addon struct {
	Name string
	// Mode is the addon's mode in spec.
	Mode func(*controlplanev1.AddonsSpec) controlplanev1.AddonMode
	// ImageField is its field in spec with the image of its pods.
	ImageField string
	// Objects are all of its objects, whether it is wanted or not, without patches.
	Objects func(*Input) ([]client.Object, error)
	// ReadOnce are the files in its ConfigMap that the pods of its DaemonSet read once, when they start.
	ReadOnce []string
}

// Target is the addon as a target of patches.
func (a Addon) Target() patches.Target {
	return patches.Target{Name: a.Name, Image: "set spec." + a.ImageField}
}

// Label marks an object as one of an addon.
func Label(object client.Object, name string) {
	labels := map[string]string{names.ManagedByLabel: names.ManagedBy, NameLabel: name}
	for key, value := range object.GetLabels() {
		labels[key] = value
	}
	object.SetLabels(labels)
}

// Decode reads the objects of an embedded asset, strictly. Assets are part of the program: one that
// does not decode panics, in the first test already.
func Decode(asset []byte) []client.Object {
	reader := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(asset)))
	buffer := make([]byte, len(asset)+1)
	var objects []client.Object
	for {
		n, err := reader.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			panic(fmt.Sprintf("read an asset: %v", err))
		}
		decoded, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(buffer[:n], nil, nil)
		if err != nil {
			panic(fmt.Sprintf("decode an asset: %v", err))
		}
		objects = append(objects, decoded.(client.Object))
	}
}

// Find is the only object of a type.
func Find[T client.Object](objects []client.Object) T {
	for _, object := range objects {
		if found, ok := object.(T); ok {
			return found
		}
	}
	panic(fmt.Sprintf("an asset has no %T", *new(T)))
}
