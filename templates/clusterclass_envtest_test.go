//go:build envtest

package templates

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/manifests"
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
		{"workers get their software as variables say", softwareOfWorkers},
		{"a Cluster of the class before keeps its workers", ofTheClassBefore},
		{"konnectivity is decided when a control plane is made", konnectivityOfNewClusters},
		{"a class of one's own keeps what is in its templates beside a variable's value", ownClass},
		{"API servers are handed over to an autoscaler and taken back", handedOver},
		{"nothing is written while nothing changes", nothingIsWritten},
		{"a variable changes its field and no other", variablesOfARunningCluster},
		{"what cannot be changed is refused at once", refusedVariables},
		{"what the control plane refuses shows in the Cluster, until it is taken back", addedLater},
		{"a pool of workers has variables of its own", poolOfItsOwn},
		{"workers are scaled", scaled},
		{"a rollout of the control plane is asked for", rolledOut},
		{"workers are upgraded after the control plane", upgraded},
		{"another class changes what is another in it", rebased},
		{"minors are upgraded one after the other", upgradedInAChain},
		{"workers are upgraded when they may be, with what brings their kubelet", upgradedWhenAllowed},
		{"a class that lists versions leads over all of them by one edit", upgradedByTheList},
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
	for _, document := range manifests.Documents(fill(t, file)) {
		document = strings.ReplaceAll(document, needed["KUBERNETES_VERSION"], first)
		objects = append(objects, parse(t, strings.ReplaceAll(document, "name: "+needed["CLUSTER_NAME"], "name: "+name)))
	}
	return objects
}

func createdAsByTheTemplate(t *testing.T, blue *managed) {
	blue.create(t, objectsOf(t, class, blue.name)...)
	blue.create(t, objectsOf(t, topology, blue.name)...)
	blue.reconciled(t)
	if !slices.ContainsFunc(blue.cluster(t).Spec.Topology.Variables, func(v clusterv1.ClusterVariable) bool {
		return v.Name == "schedulerReplicas" && string(v.Value.Raw) == "2"
	}) {
		t.Error("the defaults are not written into the Cluster")
	}
	got := blue.fields(t)
	want := fields{}
	for _, object := range objectsOf(t, "cluster-template.yaml", "plain") {
		object.SetNamespace(needed["NAMESPACE"])
		another := object.DeepCopy()
		// As kubectl apply --server-side does: null is no value.
		if err := blue.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.DryRunAll, client.FieldOwner("test")); err != nil {
			t.Fatal(err)
		}
		want.add(t, object)
		if object.GetKind() != "KOKConfigTemplate" {
			continue
		}
		// Names of software that are empty go with every mode.
		if err := unstructured.SetNestedField(another.Object, "Preinstalled", "spec", "template", "spec", "software", "mode"); err != nil {
			t.Fatal(err)
		}
		if err := blue.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(another), client.DryRunAll, client.FieldOwner("test")); err != nil {
			t.Error(err)
		}
	}
	// What a patch adds to has to be there: the class says what is so without it, too. What a variable without a value is for is
	// empty in the template, and not there by the class.
	said := fields{
		"KOKControlPlane spec.kubeAPIServer.workload":                    `"DaemonSet"`,
		"IDCMachineTemplate spec.template.spec.hostSelector":             "{}",
		"IDCMachineTemplate spec.template.spec.hostSelector.matchLabels": "",
		"KOKConfigTemplate spec.template.spec.registryMirrors":           "",
		"KOKConfigTemplate spec.template.spec.software.byVersion":        "",
		"KOKConfigTemplate spec.template.spec.software.ref.name":         "",
		"KOKControlPlane spec.hosting.portPool":                          "",
		"KOKControlPlane spec.etcd.data.storage.storageClassName":        "",
		"KOKControlPlane spec.etcd.events.storage.storageClassName":      "",
	}
	for _, kind := range []string{"KOKControlPlane", "IDCCluster", "KOKConfigTemplate", "IDCMachineTemplate"} {
		if part := want.of(kind); len(part) == 0 {
			t.Errorf("no %s is to be compared", kind)
		}
		expect(t, changes(want.of(kind), got.of(kind)), said.of(kind))
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
	for path, value := range want.of("MachineHealthCheck") {
		if !strings.Contains(path, ".selector.") && !strings.HasSuffix(path, ".clusterName") && got[path] != value {
			t.Errorf("%s is %s, of the template %s", path, got[path], value)
		}
	}
}

// variablesAtCreation compares Clusters with other values of variables with the one that has none of them.
func variablesAtCreation(t *testing.T, blue *managed) {
	plain := blue.fields(t).of("KOKControlPlane")
	for name, table := range map[string]struct {
		endpoint clusterv1.APIEndpoint
		values   map[string]string
		want     fields
		// refused are other values, once the Cluster is there; without a value it is the control plane that refuses.
		refused map[string]string
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
			refused: map[string]string{"etcdStorageClassName": `"other"`},
		},
		"the pod network": {
			values: map[string]string{"exposure": `"LoadBalancer"`, "apiServerWorkload": `"Deployment"`},
			want: fields{
				"spec.hosting.networkMode": `"PodNetwork"`, "spec.hosting.exposure.type": `"LoadBalancer"`,
				"spec.kubeAPIServer.workload": `"Deployment"`, "spec.replicas": "2",
			},
			refused: map[string]string{"exposure": `"NodePort"`, "apiServerWorkload": `"DaemonSet"`},
		},
		"a port pool": {
			values:  map[string]string{"portPool": `"north"`},
			want:    fields{"spec.hosting.portPool": `"north"`},
			refused: map[string]string{"portPool": `"south"`},
		},
		"another host cluster": {
			endpoint: clusterv1.APIEndpoint{Host: "blue.example.com", Port: 6443},
			values:   map[string]string{"hostKubeconfig": `"eu-west-kubeconfig"`},
			want:     fields{"spec.hosting.kubeconfigRef.name": `"eu-west-kubeconfig"`},
			refused:  map[string]string{"hostKubeconfig": `"us-east-kubeconfig"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := blue.another(t, strings.ReplaceAll(name, " ", "-"), func(cluster *clusterv1.Cluster) {
				cluster.Spec.ControlPlaneEndpoint = table.endpoint
				for variable, value := range table.values {
					set(variable, value)(&cluster.Spec.Topology)
				}
			})
			want := fields{}
			for path, value := range table.want {
				want["KOKControlPlane "+path] = value
			}
			expect(t, changes(plain, other.fields(t).of("KOKControlPlane")), want)
			for variable, refused := range table.refused {
				if err := other.edit(t, set(variable, refused)); err == nil || !strings.Contains(err.Error(), "immutable") {
					t.Errorf("%s is not immutable: %v", variable, err)
				}
				if err := other.edit(t, unset(variable)); err != nil {
					t.Fatal(err)
				}
				other.notReconciled(t, "immutable")
				if err := other.edit(t, set(variable, table.values[variable])); err != nil {
					t.Fatal(err)
				}
				other.reconciled(t)
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
		{"imagePullSecret", `"registry"`, fields{"KOKControlPlane spec.imagePullSecret": `"registry"`}},
		{"imagePullSecret", `""`, fields{"KOKControlPlane spec.imagePullSecret": `""`}},
		{"hostNodeSelector", `{"kok.cluster.x-k8s.io/host-node": "true", "example.com/site": "north"}`, fields{
			"KOKControlPlane spec.hosting.nodeSelector.example.com/site": `"north"`}},
		{"hostNodeSelector", `{"kok.cluster.x-k8s.io/host-node": "true"}`, fields{
			"KOKControlPlane spec.hosting.nodeSelector.example.com/site": ""}},
		{"controllerManagerReplicas", "3", fields{"KOKControlPlane spec.kubeControllerManager.replicas": "3"}},
		{"schedulerReplicas", "1", fields{"KOKControlPlane spec.kubeScheduler.replicas": "1"}},
		{"kubeProxyConntrack", `"None"`, fields{"KOKControlPlane spec.addons.kubeProxy.conntrack": `"None"`}},
		{"konnectivityMode", `"None"`, fields{konnectivityMode: `"None"`}},
		{"konnectivityMode", `"Managed"`, fields{konnectivityMode: `"Managed"`}},
		{"coreDNSMode", `"None"`, fields{"KOKControlPlane spec.addons.coreDNS.mode": `"None"`}},
		{"coreDNSMode", `"Managed"`, fields{"KOKControlPlane spec.addons.coreDNS.mode": `"Managed"`}},
		{"kubeProxyMode", `"None"`, fields{"KOKControlPlane spec.addons.kubeProxy.mode": `"None"`}},
		{"kubeProxyMode", `"Managed"`, fields{"KOKControlPlane spec.addons.kubeProxy.mode": `"Managed"`}},
		{"apiServerExtraArgs", `[{"name":"max-requests-inflight","value":"800"}]`, fields{
			"KOKControlPlane spec.kubeAPIServer.extraArgs": `[{"name":"max-requests-inflight","value":"800"}]`}},
		{"apiServerResources", `{"requests":{"cpu":1,"memory":"2Gi"}}`, fields{
			"KOKControlPlane spec.kubeAPIServer.resources.requests.cpu": "1", "KOKControlPlane spec.kubeAPIServer.resources.requests.memory": `"2Gi"`}},
		{"apiServerAudit", `{}`, fields{
			"KOKControlPlane spec.kubeAPIServer.audit.maxSizeMB": "100", "KOKControlPlane spec.kubeAPIServer.audit.maxBackups": "5"}},
		{"controllerManagerExtraArgs", `[{"name":"v","value":"4"}]`, fields{
			"KOKControlPlane spec.kubeControllerManager.extraArgs": `[{"name":"v","value":"4"}]`}},
		{"controllerManagerResources", `{"limits":{"memory":"1Gi"}}`, fields{
			"KOKControlPlane spec.kubeControllerManager.resources.limits.memory": `"1Gi"`}},
		{"schedulerExtraArgs", `[{"name":"v","value":"4"}]`, fields{"KOKControlPlane spec.kubeScheduler.extraArgs": `[{"name":"v","value":"4"}]`}},
		{"schedulerResources", `{"requests":{"cpu":"50m"}}`, fields{"KOKControlPlane spec.kubeScheduler.resources.requests.cpu": `"50m"`}},
		{"etcdResources", `{"requests":{"memory":"3Gi"}}`, fields{"KOKControlPlane spec.etcd.data.resources.requests.memory": `"3Gi"`}},
		{"etcdEventsResources", `{"requests":{"memory":"1Gi"}}`, fields{"KOKControlPlane spec.etcd.events.resources.requests.memory": `"1Gi"`}},
		{"etcdQuotaBackendSize", `"4Gi"`, fields{"KOKControlPlane spec.etcd.data.quotaBackendSize": `"4Gi"`}},
		{"etcdEventsQuotaBackendSize", `"3Gi"`, fields{"KOKControlPlane spec.etcd.events.quotaBackendSize": `"3Gi"`}},
		{"kubelet", `{"configuration":{"maxPods":200}}`, fields{"KOKConfigTemplate spec.template.spec.kubelet.configuration.maxPods": "200"}},
		{"kubelet", `{"configuration":{"maxPods":110}}`, fields{"KOKConfigTemplate spec.template.spec.kubelet.configuration.maxPods": "110"}},
		{"softwareByVersion", `"gpu"`, fields{"KOKConfigTemplate spec.template.spec.software.byVersion": `"gpu"`}},
		{"softwareByVersion", `""`, fields{"KOKConfigTemplate spec.template.spec.software.byVersion": ""}},
		{"softwareRef", `{"name":"site"}`, fields{"KOKConfigTemplate spec.template.spec.software.ref.name": `"site"`}},
		{"softwareRef", `{"name":""}`, fields{"KOKConfigTemplate spec.template.spec.software.ref.name": ""}},
		{"workerHostSelector", `{"pool": "large"}`, fields{
			"IDCMachineTemplate spec.template.spec.hostSelector":                  "",
			"IDCMachineTemplate spec.template.spec.hostSelector.matchLabels.pool": `"large"`}},
		{"workerHostSelector", `{"pool": "small"}`, fields{
			"IDCMachineTemplate spec.template.spec.hostSelector.matchLabels.pool": `"small"`}},
		{"registryMirrors", `[{"registry":"registry.k8s.io","endpoints":[{"url":"https://mirror.example.com"}]}]`, fields{
			"KOKConfigTemplate spec.template.spec.registryMirrors": `[{"endpoints":[{"url":"https://mirror.example.com"}],"registry":"registry.k8s.io"}]`}},
	} {
		ok := t.Run(change.variable, func(t *testing.T) {
			before := blue.fields(t)
			if err := blue.edit(t, set(change.variable, change.value)); err != nil {
				t.Fatal(err)
			}
			blue.reconciled(t)
			expect(t, changes(before, blue.fields(t)), change.want)
		})
		if !ok {
			return
		}
	}
	// Then what the class itself has counts again.
	before := blue.fields(t)
	if err := blue.edit(t, unset("kubelet")); err != nil {
		t.Fatal(err)
	}
	blue.reconciled(t)
	expect(t, changes(before, blue.fields(t)), fields{"KOKConfigTemplate spec.template.spec.kubelet.configuration.maxPods": ""})
}

func refusedVariables(t *testing.T, blue *managed) {
	const immutable = "is immutable: create a new Cluster"
	for _, refused := range []struct{ variable, value, want string }{
		{"etcdStorageType", `"EmptyDir"`, immutable},
		{"etcdStorageSize", `"2Gi"`, "above etcd's quota of 2Gi"},
		{"etcdEventsStorageSize", `"much"`, "must be an amount of bytes"},
		{"etcdReplicas", "2", "Unsupported value"},
		{"etcdEventsReplicas", "4", "Unsupported value"},
		{"etcdEventsMode", `"Both"`, "Unsupported value"},
		{"metricsMode", `"All"`, "Unsupported value"},
		{"imageRepository", `""`, "at least 1 chars"},
		{"hostNodeSelector", "{}", "at least 1"},
		{"etcdStorageClassName", `"local"`, immutable},
		{"etcdQuotaBackendSize", `"much"`, "must be an amount of bytes"},
		{"apiServerExtraArgs", `[]`, "at least 1"},
		{"apiServerExtraArgs", `[{"name":"v"}]`, "value"},
		{"apiServerAudit", `{"maxBackups":21}`, "less than or equal to 20"},
		{"coreDNSMode", `"Some"`, "Unsupported value"},
		{"softwareMode", `"Baked"`, "Unsupported value"},
		{"softwareByVersion", `"GPU"`, "should match"},
		{"kubelet", `{"configuration":{"maxPods":0}}`, "greater than or equal to 1"},
		{"kubelet", `{"configuration":{"shutdownGracePeriodCriticalPods":"10s"}}`, "set that too"},
		{"exposure", `"HostPort"`, "Unsupported value"},
		{"apiServerWorkload", `"StatefulSet"`, "Unsupported value"},
		{"portPool", `"North"`, "should match"},
		{"portPool", `"north"`, "in another pool another control plane may have the same ports"},
		{"hostKubeconfig", `""`, "at least 1 chars"},
		{"hostKubeconfig", `"Eu_West"`, "should match"},
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

// addedLater shows what the schema of a variable cannot refuse: it is asked about a change of a value, not about a first one.
func addedLater(t *testing.T, blue *managed) {
	for variable, late := range map[string]struct{ value, want string }{
		"exposure":          {`"LoadBalancer"`, "hosting.networkMode is immutable"},
		"apiServerWorkload": {`"Deployment"`, "workload is immutable"},
		"hostKubeconfig":    {`"eu-west-kubeconfig"`, "hosting.kubeconfigRef is immutable"},
	} {
		t.Run(variable, func(t *testing.T) {
			before := blue.fields(t)
			if err := blue.edit(t, set(variable, late.value)); err != nil {
				t.Fatal(err)
			}
			blue.notReconciled(t, late.want)
			expect(t, changes(before, blue.fields(t)), fields{})
			if err := blue.edit(t, unset(variable)); err != nil {
				t.Fatal(err)
			}
			blue.reconciled(t)
			expect(t, changes(before, blue.fields(t)), fields{})
		})
	}
}

func poolOfItsOwn(t *testing.T, blue *managed) {
	before := blue.fields(t)
	err := blue.edit(t, func(topology *clusterv1.Topology) {
		pool := clusterv1.MachineDeploymentTopology{Class: "worker", Name: "large", Replicas: ptr.To[int32](0)}
		selector := clusterv1.ClusterVariable{Name: "workerHostSelector"}
		selector.Value.Raw = []byte(`{"pool": "large"}`)
		pool.Variables.Overrides = []clusterv1.ClusterVariable{selector}
		topology.Workers.MachineDeployments = append(topology.Workers.MachineDeployments, pool)
	})
	if err != nil {
		t.Fatal(err)
	}
	blue.reconciled(t)
	pool, template := &clusterv1.MachineDeployment{}, &infrav1.IDCMachineTemplate{}
	blue.get(t, blue.name+"-large", pool)
	blue.get(t, pool.Spec.Template.Spec.InfrastructureRef.Name, template)
	if got := template.Spec.Template.Spec.HostSelector; got == nil || got.MatchLabels["pool"] != "large" {
		t.Errorf("its hosts are %v", got)
	}
	expect(t, changes(before, blue.fields(t)), fields{})
	if err := blue.edit(t, func(topology *clusterv1.Topology) {
		topology.Workers.MachineDeployments = topology.Workers.MachineDeployments[:1]
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the pool", func() error {
		err := blue.client.Get(t.Context(), client.ObjectKeyFromObject(pool), pool)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
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
