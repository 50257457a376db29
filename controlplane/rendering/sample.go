package rendering

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// Sample is what a control plane of a spec would be rendered from, with made up names and addresses in place of
// what only a cluster knows. The spec may be that of a template: unset fields count with their defaults. The
// table gives the image tags for the version; a version that the table lacks counts as its newest.
func Sample(spec controlplanev1.KOKControlPlaneSpec, table *versions.Table) (*components.Input, *addon.Input, error) {
	spec = withDefaults(spec, table)
	release, err := table.Release(spec.Version)
	if err != nil {
		release = table.Newest()
	}
	in := &components.Input{
		Cluster:   client.ObjectKey{Namespace: "namespace", Name: "cluster"},
		Version:   spec.Version,
		Spec:      components.Reduce(spec),
		Network:   components.NetworkOf(&clusterv1.Cluster{}),
		Ports:     ports.Of(spec.Hosting.Ports.First),
		Addresses: map[string]string{},

		EtcdImageTag:         release.Etcd,
		EtcdAgentImage:       "kok-etcd-agent",
		KonnectivityImageTag: release.Konnectivity,
	}
	if in.OnPodNetwork() {
		in.Exposure = components.Exposure{Address: "192.0.2.1", Port: components.DefaultAPIServerPort}
		in.Ports = ports.OnPodNetwork(in.Exposure.Port)
	}
	for _, component := range registry.Components {
		services, err := servicesOf(component, in)
		if err != nil {
			return nil, nil, err
		}
		for _, service := range services {
			in.Addresses[service.Name] = fmt.Sprintf("192.0.2.%d", len(in.Addresses)+1)
		}
	}
	return in, &addon.Input{
		Version: spec.Version, CoreDNSTag: release.CoreDNS, KonnectivityTag: release.Konnectivity,
		ImageRepository: spec.ImageRepository, Spec: spec.Addons,
		DNSDomain: in.Network.DNSDomain, DNSAddress: "192.0.2.53", Server: "127.0.0.1:6443",
	}, nil
}

func servicesOf(component components.Component, in *components.Input) ([]*corev1.Service, error) {
	if component.Services == nil {
		return nil, nil
	}
	return component.Services(in)
}

// ObjectsOf returns all objects of a component except Secrets, without patches.
func ObjectsOf(component components.Component, in *components.Input) ([]client.Object, error) {
	objects, err := component.Objects(component.Inputs(in))
	if err != nil {
		return nil, err
	}
	services, err := servicesOf(component, in)
	if err != nil {
		return nil, err
	}
	for _, service := range services {
		objects = append(objects, service)
	}
	if component.Files != nil {
		files, err := component.Files(in)
		if err != nil {
			return nil, err
		}
		objects = append(objects, files)
	}
	return objects, nil
}

// withDefaults has what rendering needs where a template leaves it out.
func withDefaults(spec controlplanev1.KOKControlPlaneSpec, table *versions.Table) controlplanev1.KOKControlPlaneSpec {
	spec = *spec.DeepCopy()
	spec.Version = cmp.Or(versions.Normalize(spec.Version), table.Newest().Minor+".0")
	spec.ImageRepository = cmp.Or(spec.ImageRepository, "registry.k8s.io")
	spec.Hosting.Ports.First = cmp.Or(spec.Hosting.Ports.First, ports.DefaultRange.First)
	// A template may leave the exposure to its Clusters.
	if spec.Hosting.OnPodNetwork() {
		spec.Hosting.Exposure.Type = cmp.Or(spec.Hosting.Exposure.Type, controlplanev1.ExposureNone)
	}
	konnectivity := &spec.Addons.Konnectivity
	konnectivity.Mode = cmp.Or(konnectivity.Mode, controlplanev1.DefaultKonnectivityMode(spec.Hosting.Exposure.Type))
	if spec.Hosting.NodeSelector == nil {
		spec.Hosting.NodeSelector = map[string]string{controlplanev1.HostNodeLabel: "true"}
	}
	spec.Addons.CoreDNS.Replicas = cmp.Or(spec.Addons.CoreDNS.Replicas, ptr.To[int32](2))
	for _, component := range registry.Components.WithSettings() {
		if component.Settings.Replicas != nil {
			replicas := component.Settings.Replicas(&spec)
			*replicas = cmp.Or(*replicas, ptr.To[int32](2))
		}
	}
	for _, cluster := range []*controlplanev1.EtcdClusterSpec{&spec.Etcd.Data, &spec.Etcd.Events.EtcdClusterSpec} {
		cluster.Replicas = cmp.Or(cluster.Replicas, ptr.To[int32](3))
		cluster.QuotaBackendSize = cmp.Or(cluster.QuotaBackendSize, ptr.To(resource.MustParse("2Gi")))
		cluster.Storage.Size = cmp.Or(cluster.Storage.Size, ptr.To(resource.MustParse("8Gi")))
	}
	return spec
}
