package status

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/exampleproxy"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/golden"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func is(name string, status metav1.ConditionStatus, reason, message string, ago time.Duration) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now.Add(-ago))}
}

const (
	yes     = metav1.ConditionTrue
	no      = metav1.ConditionFalse
	unknown = metav1.ConditionUnknown
)

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "team", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "blue"}}
}

func deployment(component string, ready int32) appsv1.Deployment {
	d := appsv1.Deployment{ObjectMeta: named("blue-" + component)}
	d.Labels[names.ComponentLabel] = component
	d.Spec.Replicas, d.Status.ReadyReplicas = ptr.To[int32](2), ready
	return d
}

func etcd(name string, ready int32, last controlplanev1.EtcdMemberState) controlplanev1.EtcdClusterStatus {
	return controlplanev1.EtcdClusterStatus{Name: name, Replicas: ptr.To[int32](3), ReadyReplicas: ptr.To(ready), Members: []controlplanev1.EtcdMemberStatus{
		{Name: "blue-etcd-" + name + "-0", State: controlplanev1.EtcdMemberVoter}, {Name: "blue-etcd-" + name + "-1", State: controlplanev1.EtcdMemberVoter},
		{Name: "blue-etcd-" + name + "-2", State: last},
	}}
}

// well is a cluster of which nothing waits.
func well() *objects {
	o := &objects{cluster: &clusterv1.Cluster{ObjectMeta: named("blue")}, controlPlane: &controlplanev1.KOKControlPlane{ObjectMeta: named("blue")}}
	o.cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.10", Port: 30443}
	o.cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IDCCluster", Name: "blue"}
	o.cluster.Status.Phase = "Provisioned"
	o.cluster.Status.Conditions = []metav1.Condition{
		is("Available", yes, "Available", "", time.Hour), is("ControlPlaneAvailable", yes, "Available", "", time.Hour),
		is("ScalingUp", no, "NotScalingUp", "", time.Hour), is("Deleting", no, "NotDeleting", "", time.Hour),
	}
	c := o.controlPlane
	c.Spec.Version = "v1.36.3"
	c.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "192.0.2.10", Port: 30443}
	c.Status.Versions = []clusterv1.StatusVersion{{Version: "v1.36.3"}}
	c.Status.ReadyReplicas, c.Status.DesiredReplicas = ptr.To[int32](3), ptr.To[int32](3)
	c.Status.Etcd = []controlplanev1.EtcdClusterStatus{etcd("data", 3, controlplanev1.EtcdMemberVoter), etcd("events", 3, controlplanev1.EtcdMemberVoter)}
	c.Status.Conditions = []metav1.Condition{
		is("Available", yes, "Available", "", time.Hour), is("RollingOut", no, "NotRollingOut", "", time.Hour),
		is("Movable", no, "HostedByManagementCluster", "pods are here", time.Hour),
	}
	o.deployments = []appsv1.Deployment{deployment("kube-scheduler", 2), deployment("kube-controller-manager", 2)}
	workers := clusterv1.MachineDeployment{ObjectMeta: named("blue-workers")}
	workers.Spec.Replicas, workers.Spec.Template.Spec.Version = ptr.To[int32](1), "v1.36.3"
	workers.Status.ReadyReplicas, workers.Status.AvailableReplicas, workers.Status.UpToDateReplicas = ptr.To[int32](1), ptr.To[int32](1), ptr.To[int32](1)
	o.machineDeployments = []clusterv1.MachineDeployment{workers}
	up := machine("blue-workers-a", "Running", is("Ready", yes, "Ready", "", time.Hour))
	o.machines = []clusterv1.Machine{up}
	o.idcMachines = []infrav1.IDCMachine{idcMachine("blue-workers-a", "rack-1-host-1")}
	o.hosts = []infrav1.IDCHost{
		host("rack-1-host-1", "blue-workers-a", is("Reachable", yes, "Reachable", "", time.Hour), is("Healthy", yes, "Healthy", "", time.Hour), is("Available", no, "Claimed", "", time.Hour)),
		host("rack-1-host-2", "", is("Available", yes, "Free", "", time.Hour)),
	}
	return o
}

func machine(name, phase string, conditions ...metav1.Condition) clusterv1.Machine {
	m := clusterv1.Machine{ObjectMeta: named(name)}
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{Kind: "KOKConfig", Name: name}
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "IDCMachine", Name: name}
	m.Status.Phase, m.Status.Conditions = phase, conditions
	return m
}

func idcMachine(name, host string) infrav1.IDCMachine {
	m := infrav1.IDCMachine{ObjectMeta: named(name)}
	if host != "" {
		m.Spec.HostRef = &infrav1.HostReference{Name: host}
	}
	return m
}

func host(name, machine string, conditions ...metav1.Condition) infrav1.IDCHost {
	h := infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
	h.Spec.Address = "192.0.2.7"
	if machine != "" {
		h.Spec.Claim = &infrav1.HostClaim{Name: machine, InstanceID: "i"}
	}
	h.Status.Conditions = conditions
	return h
}

// waiting is a cluster in the middle of an upgrade, of whose workers and hosts some are in trouble.
func waiting() *objects {
	o := well()
	c := o.controlPlane
	c.Spec.Version = "v1.36.4"
	c.Status.Versions = append(c.Status.Versions, clusterv1.StatusVersion{Version: "v1.36.4"})
	c.Status.Etcd[0] = etcd("data", 2, controlplanev1.EtcdMemberLearner)
	c.Status.Conditions = append(c.Status.Conditions,
		is("EtcdClusterHealthy", no, "Unhealthy", "etcd-data: member blue-etcd-data-2 does not answer", 3*time.Minute),
		is("ScalingUp", yes, "ScalingUp", "one\ntwo\nthree\nfour\nfive\nsix", 3*time.Minute))
	o.cluster.Status.Conditions = append(o.cluster.Status.Conditions,
		is("WorkersAvailable", no, "NotAvailable", "* MachineDeployment blue-workers: 1 available replicas, at least 3 required", 5*time.Minute))
	o.machineDeployments[0].Spec.Replicas = ptr.To[int32](5)
	o.machineDeployments[0].Status.Conditions = []metav1.Condition{is("ScalingUp", yes, "ScalingUp", "Scaling up from 4 to 5 replicas", 5*time.Minute)}
	gone := machine("blue-workers-e", "Deleting", is("Ready", no, "NotReady", "", time.Minute), is("Deleting", yes, "DrainingNode", "Drain not completed yet", time.Minute))
	gone.DeletionTimestamp = ptr.To(metav1.NewTime(now.Add(-time.Minute)))
	o.machines = append(o.machines,
		machine("blue-workers-b", "Provisioning", is("Ready", no, "NotReady", "", time.Minute), is("BootstrapConfigReady", yes, "Ready", "", time.Hour),
			is("InfrastructureReady", no, "NoHost", "no host will do: 1 is not healthy", 4*time.Minute)),
		machine("blue-workers-c", "Provisioned", is("Ready", no, "NotReady", "", time.Minute), is("InfrastructureReady", yes, "Ready", "", time.Hour),
			is("NodeReady", unknown, "NodeDoesNotExist", "waiting for the Node to be there", 2*time.Minute)),
		machine("blue-workers-d", "Pending"), gone)
	o.idcMachines = append(o.idcMachines, idcMachine("blue-workers-b", ""), idcMachine("blue-workers-c", "rack-1-host-3"))
	o.hosts = append(o.hosts,
		host("rack-1-host-3", "blue-workers-c", is("Reachable", no, "HostAway", "the host admin@192.0.2.7:22 cannot be reached", time.Minute), is("Available", no, "Claimed", "", time.Hour)),
		host("rack-1-host-4", "", is("Reachable", yes, "Reachable", "", time.Hour), is("Available", no, "Quarantined", "in quarantine: the fan is broken", 48*time.Hour)),
		host("rack-1-host-5", "green-workers-a", is("Reachable", no, "HostAway", "of another cluster", time.Minute), is("Available", no, "Claimed", "", time.Hour)),
		host("rack-1-host-6", ""))
	o.unread = []string{"Deployments of the control plane could not be read: forbidden"}
	return o
}

// down is a cluster whose control plane is not available, in another host cluster.
func down() *objects {
	o := well()
	o.cluster.Status.Conditions[0] = is("Available", no, "NotAvailable", "* ControlPlaneAvailable: see below", 10*time.Minute)
	o.controlPlane.Spec.Hosting.KubeconfigRef.Name = "idc-kubeconfig"
	o.controlPlane.Status.Conditions[0] = is("Available", unknown, "HealthUnknown", "the control plane cannot be observed", 10*time.Minute)
	o.deployments, o.machines, o.machineDeployments, o.hosts = nil, nil, nil, nil
	return o
}

// foreign has a control plane of another provider.
func foreign() *objects {
	o := well()
	o.controlPlane = nil
	o.cluster.Status.Conditions[0] = is("Available", unknown, "AvailableUnknown", "* RemoteConnectionProbe: …", time.Minute)
	return o
}

// open is a cluster that is well, and whose API servers can be led to what host nodes reach.
func open() *objects {
	o := well()
	o.controlPlane.Status.Conditions = append(o.controlPlane.Status.Conditions,
		is("EgressConfined", no, "KonnectivityOff", "kube-apiserver dials by itself: set spec.addons.konnectivity.mode to Managed", time.Hour))
	return o
}

// alone is a control plane that is well, of a Cluster without infrastructure.
func alone() *objects {
	o := well()
	o.cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{}
	o.cluster.Status.Conditions[0] = is("Available", unknown, "AvailableUnknown", "* InfrastructureReady: Please check controller logs for errors", time.Hour)
	o.cluster.Status.Conditions = append(o.cluster.Status.Conditions, is("RemoteConnectionProbe", yes, "ProbeSucceeded", "", time.Hour),
		is("WorkersAvailable", yes, "NoWorkers", "", time.Hour),
		is("InfrastructureReady", unknown, "InternalError", "Please check controller logs for errors", time.Hour))
	o.machines, o.idcMachines, o.machineDeployments, o.hosts = nil, nil, nil, nil
	return o
}

// aloneBut is the same, but for some conditions.
func aloneBut(other ...metav1.Condition) *objects {
	o := alone()
	for _, c := range other {
		all := &o.cluster.Status.Conditions
		*all = append(slices.DeleteFunc(*all, func(was metav1.Condition) bool { return was.Type == c.Type }), c)
	}
	return o
}

// unreached is the same, and Cluster API does not reach its API.
func unreached() *objects {
	return aloneBut(is("RemoteConnectionProbe", no, "ProbeFailed", "the API does not answer", time.Minute))
}

// Cluster API says nothing of a Cluster without infrastructure: what it would ask for is asked for here.
func TestWhatAControlPlaneAloneIsAvailableBy(t *testing.T) {
	gates := []clusterv1.ClusterAvailabilityGate{{ConditionType: "Backed"}, {ConditionType: "Frozen", Polarity: clusterv1.NegativePolarityCondition}}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		gates      []clusterv1.ClusterAvailabilityGate
		want       bool
	}{
		"all is well":                       {want: true},
		"its API is not reached":            {conditions: []metav1.Condition{is("RemoteConnectionProbe", no, "ProbeFailed", "", time.Minute)}},
		"its control plane is away":         {conditions: []metav1.Condition{is("ControlPlaneAvailable", no, "NotAvailable", "", time.Minute)}},
		"workers are away":                  {conditions: []metav1.Condition{is("WorkersAvailable", no, "NotAvailable", "", time.Minute)}},
		"nothing is known of workers":       {conditions: []metav1.Condition{is("WorkersAvailable", unknown, "InternalError", "", time.Minute)}},
		"it is deleted":                     {conditions: []metav1.Condition{is("Deleting", yes, "Deleting", "", time.Minute)}},
		"a gate that nobody said a word of": {gates: gates},
		"gates are open":                    {gates: gates, conditions: []metav1.Condition{is("Backed", yes, "Backed", "", time.Minute), is("Frozen", no, "Thawed", "", time.Minute)}, want: true},
		"a gate is closed":                  {gates: gates, conditions: []metav1.Condition{is("Backed", yes, "Backed", "", time.Minute), is("Frozen", yes, "Frozen", "", time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			o := aloneBut(test.conditions...)
			o.cluster.Spec.AvailabilityGates = test.gates
			if got := report(o).Cluster.Available; got != test.want {
				t.Errorf("available %t", got)
			}
		})
	}
}

func TestReports(t *testing.T) {
	for name, test := range map[string]struct {
		objects         *objects
		available, well bool
	}{
		"well": {well(), true, true}, "waiting": {waiting(), true, false}, "down": {down(), false, false}, "foreign": {foreign(), false, false},
		"open": {open(), true, true}, "alone": {alone(), true, true}, "unreached": {unreached(), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := report(test.objects)
			if r.Available != test.available || r.Well != test.well {
				t.Errorf("available %t, well %t", r.Available, r.Well)
			}
			var screen bytes.Buffer
			if err := r.Print(&screen, now); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, name+".txt", screen.Bytes())
			data, err := json.MarshalIndent(r, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, name+".json", append(data, '\n'))
		})
	}
}

func TestAScreenHoldsSoManyRowsAndTellsOfMore(t *testing.T) {
	o := well()
	for i := range 30 {
		o.machines = append(o.machines, machine("blue-more-"+string(rune('a'+i)), "Pending"))
	}
	r := report(o)
	var screen bytes.Buffer
	if err := r.Print(&screen, now); err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(screen.Bytes(), []byte("\n")); lines > 40 || !bytes.Contains(screen.Bytes(), []byte("… and 22 more")) {
		t.Errorf("%d lines:\n%s", lines, screen.String())
	}
	if len(r.Machines.NotUp) != 30 {
		t.Errorf("the data have %d machines", len(r.Machines.NotUp))
	}
}

func TestANewComponentIsListedByItsDescription(t *testing.T) {
	added, _ := exampleproxy.Register(t)
	o := well()
	o.deployments = append(o.deployments, deployment(added.Name, 1))
	listed := report(o).ControlPlane.Components
	if last := listed[len(listed)-1]; last.Name != added.Name || last.Ready != 1 || last.Desired != 2 {
		t.Errorf("the last one is %+v", last)
	}
}
