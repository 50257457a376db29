//go:build envtest

package templates

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// classBefore is the class kok as it was when all workers had their software, and without the variables that came after it.
const classBefore = "testdata/class-without-software.yaml"

const software = "KOKConfigTemplate spec.template.spec.software."

func softwareOfWorkers(t *testing.T, blue *managed) {
	if got := blue.fields(t)[software+"mode"]; got != `"KOKSoftware"` {
		t.Errorf("the template makes workers with %s", got)
	}
	for name, table := range map[string]struct{ values, want fields }{
		"on hosts":        {fields{"softwareMode": `"Preinstalled"`}, fields{"mode": `"Preinstalled"`}},
		"described once":  {fields{"softwareRef": `{"name":"site"}`}, fields{"mode": `"KOKSoftware"`, "ref.name": `"site"`}},
		"by another name": {fields{"softwareByVersion": `"gpu"`}, fields{"mode": `"KOKSoftware"`, "byVersion": `"gpu"`}},
		"packages": {
			fields{
				"softwareMode": `"Packages"`, "softwarePackages": `[{"name":"kubelet"}]`,
				"softwareRepositories": `[{"name":"site","source":"deb https://mirror.example.com /"}]`,
			},
			fields{
				"mode": `"Packages"`, "packages": `[{"name":"kubelet"}]`,
				"repositories": `[{"name":"site","source":"deb https://mirror.example.com /"}]`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := blue.another(t, strings.ReplaceAll(name, " ", "-"), func(cluster *clusterv1.Cluster) {
				for variable, value := range table.values {
					set(variable, value)(&cluster.Spec.Topology)
				}
			})
			want := fields{}
			for path, value := range table.want {
				want[software+path] = value
			}
			got := other.fields(t)
			maps.DeleteFunc(got, func(path, _ string) bool { return !strings.HasPrefix(path, software) })
			expect(t, got, want)
		})
	}
}

// ofTheClassBefore takes a Cluster through what a release does to it: the class in place is another, or there is another beside it.
func ofTheClassBefore(t *testing.T, blue *managed) {
	const name = "kok-before"
	blue.create(t, classOf(t, classBefore, name)...)
	blue.classReady(t, name)
	old := blue.another(t, "old", func(cluster *clusterv1.Cluster) {
		cluster.Spec.Topology.ClassRef.Name, cluster.Spec.Topology.Variables = name, nil
	})
	before, workers := old.fields(t), old.workers(t)
	for _, object := range classOf(t, class, name) {
		object.SetNamespace(needed["NAMESPACE"])
		if err := old.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership, client.FieldOwner("kubectl")); err != nil {
			t.Fatal(err)
		}
	}
	old.classReady(t, name)
	// Cluster API writes the new class' defaults with all variables, and would take back what is edited at that moment.
	old.getsVariable(t, "coreDNSMode")
	if err := old.edit(t, set("schedulerReplicas", "3")); err != nil {
		t.Fatal(err)
	}
	old.reconciled(t)
	expect(t, changes(before, old.fields(t)), fields{"KOKControlPlane spec.kubeScheduler.replicas": "3"})
	old.keptWorkers(t, workers)

	if err := old.edit(t, func(topology *clusterv1.Topology) { topology.ClassRef.Name = "kok" }); err != nil {
		t.Fatal(err)
	}
	old.reconciled(t)
	expect(t, changes(before, old.fields(t)), fields{"KOKControlPlane spec.kubeScheduler.replicas": "3"})
	old.keptWorkers(t, workers)

	// Its control plane has None of the class before, and keeps it also when nobody says so any more.
	old.getsVariable(t, "konnectivityMode")
	if err := old.edit(t, unset("konnectivityMode")); err != nil {
		t.Fatal(err)
	}
	old.reconciled(t)
	if before[konnectivityMode] != `"None"` {
		t.Errorf("the class before made it with %s", before[konnectivityMode])
	}
	expect(t, changes(before, old.fields(t)), fields{"KOKControlPlane spec.kubeScheduler.replicas": "3"})

	if err := old.edit(t, set("softwareMode", `"KOKSoftware"`)); err != nil {
		t.Fatal(err)
	}
	old.reconciled(t)
	expect(t, changes(before, old.fields(t)), fields{
		"KOKControlPlane spec.kubeScheduler.replicas": "3", software + "mode": fmt.Sprintf("%q", bootstrapv1.SoftwareDescribed)})
	if equality.Semantic.DeepEqual(old.workers(t).Spec.Template, workers.Spec.Template) {
		t.Error("workers are not replaced by those that get their software")
	}
}

const konnectivityMode = "KOKControlPlane spec.addons.konnectivity.mode"

// konnectivityOfNewClusters shows Clusters that do not say how API servers reach them.
func konnectivityOfNewClusters(t *testing.T, blue *managed) {
	for name, table := range map[string]struct {
		exposure, want string
	}{
		"host-network": {"", `"Managed"`}, "load-balancer": {`"LoadBalancer"`, `"Managed"`}, "node-port": {`"NodePort"`, `"None"`},
	} {
		t.Run(name, func(t *testing.T) {
			other := blue.another(t, "reached-by-"+name, func(cluster *clusterv1.Cluster) {
				unset("konnectivityMode")(&cluster.Spec.Topology)
				if table.exposure != "" {
					set("exposure", table.exposure)(&cluster.Spec.Topology)
				}
			})
			if got := other.fields(t)[konnectivityMode]; got != table.want {
				t.Errorf("it is made with %s, not %s", got, table.want)
			}
			if err := other.edit(t, set("schedulerReplicas", "3")); err != nil {
				t.Fatal(err)
			}
			other.reconciled(t)
			if got := other.fields(t)[konnectivityMode]; got != table.want {
				t.Errorf("after another change it has %s, not %s", got, table.want)
			}
		})
	}
}

func (c *managed) workers(t *testing.T) *clusterv1.MachineDeployment {
	t.Helper()
	workers := &clusterv1.MachineDeployment{}
	c.get(t, c.name+"-workers", workers)
	return workers
}

// keptWorkers checks that nothing has Machines replaced.
func (c *managed) keptWorkers(t *testing.T, before *clusterv1.MachineDeployment) {
	t.Helper()
	if after := c.workers(t); !equality.Semantic.DeepEqual(after.Spec.Template, before.Spec.Template) {
		t.Errorf("workers are replaced: %+v, before %+v", after.Spec.Template, before.Spec.Template)
	}
}

// getsVariable waits until the Cluster has a variable.
func (c *managed) getsVariable(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the variable "+name+" of "+c.name, func() error {
		variables := c.cluster(t).Spec.Topology.Variables
		if !slices.ContainsFunc(variables, func(v clusterv1.ClusterVariable) bool { return v.Name == name }) {
			return fmt.Errorf("it has %v", variables)
		}
		return nil
	})
}
