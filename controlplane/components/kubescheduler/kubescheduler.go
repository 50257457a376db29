// Package kubescheduler renders kube-scheduler.
package kubescheduler

import (
	_ "embed"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

//go:embed deployment.yaml
var deployment []byte

// Component describes kube-scheduler.
var Component = components.Component{Name: names.KubeScheduler, Ignore: ignore, Objects: objects}

func ignore(in *components.Input) {
	in.Addresses = nil
	in.Network, in.Exposure = components.Network{}, components.Exposure{}
	in.Spec = controlplanev1.KOKControlPlaneSpec{
		Hosting:         in.Spec.Hosting,
		ImageRepository: in.Spec.ImageRepository,
		ImagePullSecret: in.Spec.ImagePullSecret,
		KubeScheduler:   in.Spec.KubeScheduler,
	}
}

func objects(in *components.Input) ([]client.Object, error) {
	args := map[string]string{"secure-port": strconv.Itoa(int(in.Ports.Scheduler))}
	return components.Replicated(deployment, in, names.KubeScheduler, in.Spec.KubeScheduler, in.Ports.Scheduler, args), nil
}
