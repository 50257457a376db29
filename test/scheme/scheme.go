// Package scheme has the kinds that tests and benchmarks work with.
package scheme

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

var builder = runtime.NewSchemeBuilder(
	clientgoscheme.AddToScheme, clusterv1.AddToScheme, kubeadmv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme, infrav1.AddToScheme)

// AddToScheme adds the kinds of Kubernetes, of Cluster API's core and its kubeadm bootstrap provider, and of the three
// providers.
var AddToScheme = builder.AddToScheme

// Scheme knows these kinds, and no others.
var Scheme = sync.OnceValue(func() *runtime.Scheme {
	all := runtime.NewScheme()
	utilruntime.Must(AddToScheme(all)) // they are part of the program
	return all
})
