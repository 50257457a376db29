package templates

import (
	"maps"
	"slices"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// withWorkers are the templates that have a MachineDeployment.
var withWorkers = []string{"cluster-template.yaml", "cluster-template-pod-network.yaml", "cluster-template-kubeadm.yaml"}

// The class has the same check for pools of a topology: an envtest compares the two.
func TestEveryTemplateWithWorkersHasDeadOnesReplaced(t *testing.T) {
	for _, file := range withWorkers {
		t.Run(file, func(t *testing.T) {
			objects := render(t, file)
			check, workers := one[*clusterv1.MachineHealthCheck](t, objects), one[*clusterv1.MachineDeployment](t, objects)
			// Cluster API gives Machines this label of their MachineDeployment.
			if got := check.Spec.Selector.MatchLabels[clusterv1.MachineDeploymentNameLabel]; got != workers.Name || check.Spec.ClusterName != workers.Spec.ClusterName {
				t.Errorf("the check is of %q, the workers are %q", got, workers.Name)
			}
			if check.Namespace != workers.Namespace || workers.Spec.Remediation.MaxInFlight == nil {
				t.Errorf("%s, %+v", check.Namespace, workers.Spec.Remediation)
			}
		})
	}
}

// filledWith is a template with values of variables.
func filledWith(t *testing.T, file string, values map[string]string) []client.Object {
	t.Helper()
	all := maps.Clone(needed)
	maps.Copy(all, values)
	return decodeAll(t, fillWith(t, file, all))
}

func TestTemplatesTakeLabelsAndAStorageClass(t *testing.T) {
	for _, file := range append([]string{"cluster-template-control-plane.yaml"}, withWorkers...) {
		t.Run(file, func(t *testing.T) {
			objects := filledWith(t, file, map[string]string{
				"HOST_NODE_SELECTOR": "example.com/site: north, example.com/pool: tenants", "PORT_POOL": "north", "ETCD_STORAGE_CLASS_NAME": "local",
				"ETCD_QUOTA_BACKEND_SIZE": "4Gi", "WORKER_HOST_SELECTOR": "pool: workers",
			})
			spec := one[*controlplanev1.KOKControlPlane](t, objects).Spec
			if want := map[string]string{"example.com/site": "north", "example.com/pool": "tenants"}; !maps.Equal(spec.Hosting.NodeSelector, want) {
				t.Errorf("hosts are %v", spec.Hosting.NodeSelector)
			}
			// On the pod network there are no ports of hosts.
			if is := spec.Hosting.PortPool == "north"; is == spec.Hosting.OnPodNetwork() {
				t.Errorf("the port pool is %q", spec.Hosting.PortPool)
			}
			for _, etcd := range []controlplanev1.EtcdClusterSpec{spec.Etcd.Data, spec.Etcd.Events.EtcdClusterSpec} {
				if class := etcd.Storage.StorageClassName; class == nil || *class != "local" {
					t.Errorf("the storage is %+v", etcd.Storage)
				}
			}
			if quota := spec.Etcd.Data.QuotaBackendSize; quota == nil || quota.String() != "4Gi" || spec.Etcd.Events.QuotaBackendSize != nil {
				t.Errorf("the quotas are %v and %v", quota, spec.Etcd.Events.QuotaBackendSize)
			}
			if !slices.Contains(withWorkers, file) {
				return
			}
			if got := one[*infrav1.IDCMachineTemplate](t, objects).Spec.Template.Spec.HostSelector.MatchLabels; !maps.Equal(got, map[string]string{"pool": "workers"}) {
				t.Errorf("workers are %v", got)
			}
		})
	}
}

func TestWorkersOfTemplatesGetTheSoftwareOfTheirVersionUnlessToldOtherwise(t *testing.T) {
	for _, file := range withWorkers[:2] {
		for name, table := range map[string]struct {
			values map[string]string
			want   bootstrapv1.SoftwareSpec
		}{
			"by default":   {nil, bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwareDescribed}},
			"on the hosts": {map[string]string{"SOFTWARE_MODE": "Preinstalled"}, bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwarePreinstalled}},
			"of another name": {map[string]string{"SOFTWARE_BY_VERSION": "gpu"}, bootstrapv1.SoftwareSpec{
				Mode: bootstrapv1.SoftwareDescribed, ByVersion: "gpu",
			}},
			"of every version": {map[string]string{"SOFTWARE_REF": "site"}, bootstrapv1.SoftwareSpec{
				Mode: bootstrapv1.SoftwareDescribed, Ref: bootstrapv1.SoftwareReference{Name: "site"},
			}},
		} {
			t.Run(file+" "+name, func(t *testing.T) {
				got := one[*bootstrapv1.KOKConfigTemplate](t, filledWith(t, file, table.values)).Spec.Template.Spec.Software
				if got.Mode != table.want.Mode || got.ByVersion != table.want.ByVersion || got.Ref != table.want.Ref {
					t.Errorf("it is %+v", got)
				}
			})
		}
	}
}

func TestWorkersOfTemplatesPullFromMirrors(t *testing.T) {
	for _, file := range withWorkers[:2] {
		objects := filledWith(t, file, map[string]string{
			"REGISTRY_MIRRORS": `[{registry: registry.k8s.io, endpoints: [{url: "https://mirror.example.com"}]}]`,
		})
		mirrors := one[*bootstrapv1.KOKConfigTemplate](t, objects).Spec.Template.Spec.RegistryMirrors
		if len(mirrors) != 1 || mirrors[0].Registry != "registry.k8s.io" || mirrors[0].Endpoints[0].URL != "https://mirror.example.com" {
			t.Errorf("%s has %+v", file, mirrors)
		}
	}
}
