// Package coredns renders CoreDNS, which answers names of a tenant's Services.
package coredns

import (
	_ "embed"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
)

//go:embed coredns.yaml
var manifests []byte

// Addon is CoreDNS.
var Addon = addon.Addon{
	Name:       "coredns",
	Mode:       func(spec *controlplanev1.AddonsSpec) controlplanev1.AddonMode { return spec.CoreDNS.Mode },
	ImageField: "addons.coreDNS.image",
	Objects:    objects,
}

// corefile answers for the tenant's domain and forwards the rest to the node's resolvers; a change of it
// is read without a restart.
const corefile = `.:53 {
    errors
    health {
        lameduck 5s
    }
    ready
    kubernetes %[1]s in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
        max_concurrent 1000
    }
    cache 30 {
        disable success %[1]s
        disable denial %[1]s
    }
    loop
    reload
    loadbalance
}
`

func objects(in *addon.Input) ([]client.Object, error) {
	all := addon.Decode(manifests)
	addon.Find[*corev1.ConfigMap](all).Data = map[string]string{"Corefile": fmt.Sprintf(corefile, in.DNSDomain)}
	addon.Find[*corev1.Service](all).Spec.ClusterIP = in.DNSAddress

	deployment := addon.Find[*appsv1.Deployment](all)
	deployment.Spec.Replicas = in.Spec.CoreDNS.Replicas
	image := in.Spec.CoreDNS.Image
	if image == "" {
		image = fmt.Sprintf("%s/coredns/coredns:%s", in.ImageRepository, in.CoreDNSTag)
	}
	deployment.Spec.Template.Spec.Containers[0].Image = image
	return all, nil
}
