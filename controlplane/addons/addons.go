// Package addons renders what a tenant needs before it is of use and which runs in the tenant itself:
// kube-proxy, CoreDNS and konnectivity's agents. Each addon is a folder with readable YAML and a small typed adapter, and can
// be switched off; then its objects are to be removed.
//
// Rendering is pure. Package tenant makes a tenant hold the objects.
package addons

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/coredns"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/konnectivity"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/kubeproxy"
)

// all are the addons that there are.
var all = []addon.Addon{kubeproxy.Addon, coredns.Addon, konnectivity.Addon}

// Objects are the objects that a tenant shall hold, and those of addons that are switched off, which
// it shall not.
func Objects(in *addon.Input) (wanted, unwanted []client.Object, err error) {
	for _, a := range all {
		objects, err := a.Objects(in)
		if err != nil {
			return nil, nil, fmt.Errorf("render addon %s: %w", a.Name, err)
		}
		for _, object := range objects {
			addon.Label(object, a.Name)
		}
		if a.Mode(&in.Spec) == controlplanev1.AddonManaged {
			wanted = append(wanted, objects...)
		} else {
			unwanted = append(unwanted, objects...)
		}
	}
	return wanted, unwanted, nil
}
