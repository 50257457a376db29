//go:build envtest

package templates

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// first is the version that Clusters of these tests have in the beginning.
const first = "v1.34.3"

// TestAClusterOfTheClass is the life of one Cluster: each part goes on where the one before ended.
func TestAClusterOfTheClass(t *testing.T) {
	m := startManagement(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: needed["NAMESPACE"]}}
	if err := m.client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	blue := &managed{management: m, name: needed["CLUSTER_NAME"]}
	for _, part := range []struct {
		name string
		test func(*testing.T, *managed)
	}{
		{"one Cluster makes what the template without a topology has", createdAsByTheTemplate},
		{"what is set at creation is set where it belongs", variablesAtCreation},
		{"nothing is written while nothing changes", nothingIsWritten},
		{"a variable changes its field and no other", variablesOfARunningCluster},
		{"what cannot be changed is refused at once", refusedVariables},
		{"workers are scaled", scaled},
		{"workers are upgraded after the control plane", upgraded},
		{"another class changes what is another in it", rebased},
		{"minors are upgraded one after the other", upgradedInAChain},
		{"nothing is written in the end either", nothingIsWritten},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.test(t, blue) }) {
			t.FailNow()
		}
	}
}

// objectsOf are the objects of a file, with another version and name of the Cluster.
func objectsOf(t *testing.T, file, name string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, document := range fill(t, file) {
		document = strings.ReplaceAll(document, needed["KUBERNETES_VERSION"], first)
		objects = append(objects, parse(t, strings.ReplaceAll(document, "name: "+needed["CLUSTER_NAME"], "name: "+name)))
	}
	return objects
}

func createdAsByTheTemplate(t *testing.T, blue *managed) {
	blue.create(t, objectsOf(t, class, blue.name)...)
	blue.create(t, objectsOf(t, topology, blue.name)...)
	blue.reconciled(t)
	got := blue.fields(t)
	want := fields{}
	for _, object := range objectsOf(t, "cluster-template.yaml", "plain") {
		object.SetNamespace(needed["NAMESPACE"])
		if err := blue.client.Create(t.Context(), object, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		want.add(t, object)
	}
	for _, kind := range []string{"KOKControlPlane", "IDCCluster", "KOKConfigTemplate", "IDCMachineTemplate"} {
		if part := want.of(kind); len(part) == 0 {
			t.Errorf("no %s is to be compared", kind)
		}
		expect(t, changes(want.of(kind), got.of(kind)), fields{})
	}
	for path, value := range map[string]string{
		"spec.replicas": "2", "spec.template.spec.version": `"` + first + `"`, "spec.clusterName": `"blue"`, "spec.remediation.maxInFlight": "1",
	} {
		if got["MachineDeployment "+path] != value {
			t.Errorf("%s of the MachineDeployment is %s", path, got["MachineDeployment "+path])
		}
	}
	if part := got.of("MachineHealthCheck"); part["MachineHealthCheck spec.remediation.triggerIf.unhealthyLessThanOrEqualTo"] != `"50%"` {
		t.Errorf("the MachineHealthCheck has %q", part)
	}
}

// variablesAtCreation compares Clusters with other values of variables with the one that has none of them.
func variablesAtCreation(t *testing.T, blue *managed) {
	plain := blue.fields(t).of("KOKControlPlane")
	for name, table := range map[string]struct {
		values map[string]string
		want   fields
	}{
		"etcd in pods": {
			values: map[string]string{"etcdReplicas": "5", "etcdEventsReplicas": "1", "etcdStorageType": `"EmptyDir"`},
			want: fields{
				"spec.etcd.data.replicas": "5", "spec.etcd.data.storage.type": `"EmptyDir"`,
				"spec.etcd.events.replicas": "1", "spec.etcd.events.storage.type": `"EmptyDir"`,
			},
		},
		"etcd in volumes": {
			values: map[string]string{"etcdStorageClassName": `"local"`, "etcdStorageSize": `"20Gi"`, "etcdEventsStorageSize": `"10Gi"`},
			want: fields{
				"spec.etcd.data.storage.storageClassName": `"local"`, "spec.etcd.events.storage.storageClassName": `"local"`,
				"spec.etcd.data.storage.size": `"20Gi"`, "spec.etcd.events.storage.size": `"10Gi"`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := &managed{management: blue.management, name: strings.ReplaceAll(name, " ", "-")}
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: needed["NAMESPACE"], Name: other.name}}
			blue.cluster(t).Spec.DeepCopyInto(&cluster.Spec)
			cluster.Spec.ControlPlaneRef, cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{}, clusterv1.ContractVersionedObjectReference{}
			for variable, value := range table.values {
				set(variable, value)(&cluster.Spec.Topology)
			}
			if err := blue.client.Create(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
			other.reconciled(t)
			want := fields{}
			for path, value := range table.want {
				want["KOKControlPlane "+path] = value
			}
			expect(t, changes(plain, other.fields(t).of("KOKControlPlane")), want)
			if err := blue.client.Delete(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func variablesOfARunningCluster(t *testing.T, blue *managed) {
	for _, change := range []struct {
		variable, value string
		want            fields
	}{
		{"imageRepository", `"registry.example.com/kubernetes"`, fields{"KOKControlPlane spec.imageRepository": `"registry.example.com/kubernetes"`}},
		{"hostNodeSelector", `{"kok.cluster.x-k8s.io/host-node": "true", "example.com/site": "north"}`, fields{
			"KOKControlPlane spec.hosting.nodeSelector.example.com/site": `"north"`}},
		{"hostNodeSelector", `{"kok.cluster.x-k8s.io/host-node": "true"}`, fields{
			"KOKControlPlane spec.hosting.nodeSelector.example.com/site": ""}},
		{"controllerManagerReplicas", "3", fields{"KOKControlPlane spec.kubeControllerManager.replicas": "3"}},
		{"schedulerReplicas", "1", fields{"KOKControlPlane spec.kubeScheduler.replicas": "1"}},
		{"kubeProxyConntrack", `"None"`, fields{"KOKControlPlane spec.addons.kubeProxy.conntrack": `"None"`}},
		{"konnectivityMode", `"Managed"`, fields{"KOKControlPlane spec.addons.konnectivity.mode": `"Managed"`}},
		{"workerHostSelector", `{"pool": "large"}`, fields{
			"IDCMachineTemplate spec.template.spec":                               "",
			"IDCMachineTemplate spec.template.spec.hostSelector.matchLabels.pool": `"large"`}},
		{"workerHostSelector", `{"pool": "small"}`, fields{
			"IDCMachineTemplate spec.template.spec.hostSelector.matchLabels.pool": `"small"`}},
		{"registryMirrors", `[{"registry":"registry.k8s.io","endpoints":[{"url":"https://mirror.example.com"}]}]`, fields{
			"KOKConfigTemplate spec.template.spec.registryMirrors": `[{"endpoints":[{"url":"https://mirror.example.com"}],"registry":"registry.k8s.io"}]`}},
	} {
		t.Run(change.variable, func(t *testing.T) {
			before := blue.fields(t)
			if err := blue.edit(t, set(change.variable, change.value)); err != nil {
				t.Fatal(err)
			}
			blue.reconciled(t)
			expect(t, changes(before, blue.fields(t)), change.want)
		})
	}
}

func refusedVariables(t *testing.T, blue *managed) {
	const immutable = "etcd storage is immutable"
	for _, refused := range []struct{ variable, value, want string }{
		{"etcdStorageType", `"EmptyDir"`, immutable},
		{"etcdStorageSize", `"16Gi"`, immutable},
		{"etcdEventsStorageSize", `"16Gi"`, immutable},
		{"etcdStorageSize", `"2Gi"`, "above etcd's quota of 2Gi"},
		{"etcdEventsStorageSize", `"much"`, "must be an amount of bytes"},
		{"etcdReplicas", "2", "Unsupported value"},
		{"etcdEventsReplicas", "4", "Unsupported value"},
		{"imageRepository", `""`, "at least 1 chars"},
		{"hostNodeSelector", "{}", "at least 1"},
		{"workerHostSelector", "{}", "at least 1"},
		{"schedulerReplicas", "0", "greater than or equal to 1"},
		{"kubeProxyConntrack", `"Some"`, "Unsupported value"},
		{"registryMirrors", `[{"registry":"registry.k8s.io"}]`, "endpoints"},
		{"unknown", `1`, "variable is not defined"},
	} {
		t.Run(refused.variable+" "+refused.value, func(t *testing.T) {
			if err := blue.edit(t, set(refused.variable, refused.value)); err == nil || !strings.Contains(err.Error(), refused.want) {
				t.Errorf("not refused with %q: %v", refused.want, err)
			}
		})
	}
}

// scaled leaves no Machines: nobody makes nodes of them here, and those of a version that is left would stay.
func scaled(t *testing.T, blue *managed) {
	for _, replicas := range []int32{3, 0} {
		before := blue.fields(t)
		if err := blue.edit(t, func(topology *clusterv1.Topology) { topology.Workers.MachineDeployments[0].Replicas = ptr.To(replicas) }); err != nil {
			t.Fatal(err)
		}
		blue.reconciled(t)
		expect(t, changes(before, blue.fields(t)), fields{"MachineDeployment spec.replicas": fmt.Sprint(replicas)})
	}
	eventually(t, "the end of all Machines", func() error {
		machines := &clusterv1.MachineList{}
		if err := blue.client.List(t.Context(), machines, client.MatchingLabels{clusterv1.ClusterNameLabel: blue.name}); err != nil {
			return err
		}
		if len(machines.Items) > 0 {
			return fmt.Errorf("there are %d", len(machines.Items))
		}
		return nil
	})
}

const (
	controlPlaneVersion = "KOKControlPlane spec.version"
	workersVersion      = "MachineDeployment spec.template.spec.version"
)

func setVersion(version string) func(*clusterv1.Topology) {
	return func(topology *clusterv1.Topology) { topology.Version = version }
}

// until waits for a version, and checks that nothing else has changed.
func (c *managed) until(t *testing.T, before, want fields) {
	t.Helper()
	eventually(t, fmt.Sprint(want), func() error {
		if got := changes(before, c.fields(t)); !maps.Equal(got, want) {
			return fmt.Errorf("changed are %v", got)
		}
		return nil
	})
}

// reason waits until the topology waits for something.
func (c *managed) reason(t *testing.T, want string) {
	t.Helper()
	eventually(t, want, func() error {
		cluster := c.cluster(t)
		condition := conditions.Get(cluster, clusterv1.ClusterTopologyReconciledCondition)
		if condition == nil || condition.ObservedGeneration < cluster.Generation || condition.Reason != want {
			return fmt.Errorf("it is %+v", condition)
		}
		return nil
	})
}

func upgraded(t *testing.T, blue *managed) {
	const next = "v1.34.4"
	before := blue.fields(t)
	if err := blue.edit(t, setVersion(next)); err != nil {
		t.Fatal(err)
	}
	blue.reason(t, clusterv1.ClusterTopologyReconciledClusterUpgradingReason)
	expect(t, changes(before, blue.fields(t)), fields{controlPlaneVersion: `"` + next + `"`})
	blue.running(t, first, next)
	blue.reason(t, clusterv1.ClusterTopologyReconciledClusterUpgradingReason)
	expect(t, changes(before, blue.fields(t)), fields{controlPlaneVersion: `"` + next + `"`})
	blue.running(t, next)
	blue.reconciled(t)
	expect(t, changes(before, blue.fields(t)), fields{controlPlaneVersion: `"` + next + `"`, workersVersion: `"` + next + `"`})
}

// successor is the class under another name, with other settings, and with the versions that it is for.
func successor(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects := objectsOf(t, class, needed["CLUSTER_NAME"])
	modify := func(object *unstructured.Unstructured, value any, path ...string) {
		if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range objects {
		object.SetName(object.GetName() + "-next")
		switch object.GetKind() {
		case "ClusterClass":
			modify(object, []any{"v1.34.4", "v1.35.4", "v1.36.3"}, "spec", "kubernetesVersions")
			for _, part := range []string{"controlPlane", "infrastructure"} {
				modify(object, "kok-next", "spec", part, "templateRef", "name")
			}
			workers, _, err := unstructured.NestedSlice(object.Object, "spec", "workers", "machineDeployments")
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{"bootstrap", "infrastructure"} {
				if err := unstructured.SetNestedField(workers[0].(map[string]any), "kok-worker-next", part, "templateRef", "name"); err != nil {
					t.Fatal(err)
				}
			}
			modify(object, workers, "spec", "workers", "machineDeployments")
		case "KOKControlPlaneTemplate":
			modify(object, int64(3), "spec", "template", "spec", "addons", "coreDNS", "replicas")
		case "KOKConfigTemplate":
			modify(object, "next", "spec", "template", "spec", "kubelet", "nodeLabels", "example.com/class")
		}
	}
	return objects
}

func rebased(t *testing.T, blue *managed) {
	blue.create(t, successor(t)...)
	eventually(t, "the class", func() error {
		class := &clusterv1.ClusterClass{}
		blue.get(t, "kok-next", class)
		if !conditions.IsTrue(class, clusterv1.ClusterClassVariablesReadyCondition) {
			return errors.New("its variables are not ready")
		}
		return nil
	})
	before := blue.fields(t)
	names := func() []string {
		cluster := blue.cluster(t)
		return []string{cluster.Spec.ControlPlaneRef.Name, cluster.Spec.InfrastructureRef.Name}
	}
	kept := names()
	if err := blue.edit(t, func(topology *clusterv1.Topology) { topology.ClassRef.Name = "kok-next" }); err != nil {
		t.Fatal(err)
	}
	blue.reconciled(t)
	expect(t, changes(before, blue.fields(t)), fields{
		"KOKControlPlane spec.addons.coreDNS.replicas":                              "3",
		"KOKConfigTemplate spec.template.spec.kubelet.nodeLabels.example.com/class": `"next"`,
	})
	if got := names(); !slices.Equal(got, kept) {
		t.Errorf("objects were replaced: %v, before %v", got, kept)
	}
}

// upgradedInAChain goes over a minor by one edit: the class has the versions that lie between.
func upgradedInAChain(t *testing.T, blue *managed) {
	before := blue.fields(t)
	if err := blue.edit(t, setVersion("v1.36.3")); err != nil {
		t.Fatal(err)
	}
	blue.until(t, before, fields{controlPlaneVersion: `"v1.35.4"`})
	blue.running(t, "v1.35.4")
	blue.until(t, before, fields{controlPlaneVersion: `"v1.36.3"`})
	blue.running(t, "v1.36.3")
	blue.reconciled(t)
	expect(t, changes(before, blue.fields(t)), fields{controlPlaneVersion: `"v1.36.3"`, workersVersion: `"v1.36.3"`})
}
