package status

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/verdict"
)

// report makes the report from the objects.
func report(o *objects) *Report {
	r := &Report{Unread: o.unread, MachineDeployments: []MachineDeployment{}}
	r.Cluster = clusterOf(o)
	r.Available = r.Cluster.Available
	// EgressConfined is reported, but makes nothing bad: it is false for good where people chose API servers that dial by themselves.
	waiting := len(r.Cluster.Conditions) > 0 || len(o.unread) > 0
	if o.controlPlane != nil {
		r.ControlPlane = controlPlaneOf(o.controlPlane, o.deployments)
		r.Available = r.Available && r.ControlPlane.Available
		waiting = waiting || slices.ContainsFunc(r.ControlPlane.Conditions, func(c Condition) bool { return c.Type != conditionsv1.EgressConfinedCondition })
	}
	for i := range o.machineDeployments {
		d := machineDeploymentOf(&o.machineDeployments[i])
		waiting = waiting || len(d.Conditions) > 0 || d.Ready < d.Desired
		r.MachineDeployments = append(r.MachineDeployments, d)
	}
	slices.SortFunc(r.MachineDeployments, func(a, b MachineDeployment) int { return cmp.Compare(a.Name, b.Name) })
	r.Machines = machinesOf(o.machines, o.idcMachines)
	r.Hosts = hostsOf(o.hosts, o.idcMachines)
	r.Well = r.Available && !waiting && len(r.Machines.NotUp) == 0 && len(r.Hosts.Bad) == 0
	return r
}

// trueIsNews are the conditions that are false while nothing happens. All others are good while true.
var trueIsNews = []string{
	clusterv1.DeletingCondition, clusterv1.PausedCondition, clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition,
	clusterv1.ScalingDownCondition, clusterv1.RemediatingCondition, clusterv1.MachineUpdatingCondition, conditionsv1.EtcdRecoveringCondition,
	conditionsv1.KeysRotatingCondition,
}

// news are the conditions that are not as they should be, except those in leaveOut.
func news(of conditions.Getter, leaveOut ...string) []Condition {
	var found []Condition
	for _, c := range of.GetConditions() {
		good := metav1.ConditionTrue
		if slices.Contains(trueIsNews, c.Type) {
			good = metav1.ConditionFalse
		}
		if c.Status != good && !slices.Contains(leaveOut, c.Type) {
			found = append(found, factOf(&c))
		}
	}
	return found
}

func factOf(c *metav1.Condition) Condition {
	return Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.UTC()}
}

func clusterOf(o *objects) Cluster {
	c := Cluster{Namespace: o.cluster.Namespace, Name: o.cluster.Name, Phase: o.cluster.Status.Phase}
	c.Available = conditions.IsTrue(o.cluster, clusterv1.AvailableCondition)
	c.Endpoint = endpoint(o.cluster.Spec.ControlPlaneEndpoint.Host, o.cluster.Spec.ControlPlaneEndpoint.Port)
	// The objects below report these themselves, and Available sums up all others.
	leaveOut := []string{clusterv1.ClusterWorkerMachinesReadyCondition, clusterv1.AvailableCondition}
	explained := false
	if o.controlPlane != nil {
		leaveOut = append(leaveOut, clusterv1.ClusterControlPlaneAvailableCondition, clusterv1.ClusterControlPlaneInitializedCondition)
		explained = !conditions.IsTrue(o.controlPlane, conditionsv1.AvailableCondition)
	}
	if withoutInfrastructure(o.cluster) {
		leaveOut = append(leaveOut, clusterv1.ClusterInfrastructureReadyCondition)
		c.Available = availableWithoutInfrastructure(o.cluster)
	}
	if c.Conditions = news(o.cluster, leaveOut...); len(c.Conditions) == 0 && !explained && !c.Available {
		c.Conditions = news(o.cluster, slices.DeleteFunc(leaveOut, func(name string) bool { return name == clusterv1.AvailableCondition })...)
	}
	return c
}

// withoutInfrastructure reports whether a Cluster is a control plane alone. Cluster API leaves its conditions InfrastructureReady and Available
// Unknown for good (setInfrastructureReadyCondition in its core/reconcilers/cluster).
func withoutInfrastructure(cluster *clusterv1.Cluster) bool {
	return !cluster.Spec.InfrastructureRef.IsDefined() && !cluster.Spec.Topology.IsDefined()
}

// availableWithoutInfrastructure reports whether all is true that Cluster API asks of an available Cluster (setAvailableCondition in its
// core/reconcilers/cluster), but its infrastructure.
func availableWithoutInfrastructure(cluster *clusterv1.Cluster) bool {
	of := conditions.ForConditionTypes{
		clusterv1.ClusterDeletingCondition, clusterv1.ClusterRemoteConnectionProbeCondition,
		clusterv1.ClusterControlPlaneAvailableCondition, clusterv1.ClusterWorkersAvailableCondition,
	}
	badWhileTrue := conditions.NegativePolarityConditionTypes{clusterv1.ClusterDeletingCondition}
	for _, gate := range cluster.Spec.AvailabilityGates {
		of = append(of, gate.ConditionType)
		if gate.Polarity == clusterv1.NegativePolarityCondition {
			badWhileTrue = append(badWhileTrue, gate.ConditionType)
		}
	}
	summary, err := conditions.NewSummaryCondition(cluster, clusterv1.AvailableCondition, of, badWhileTrue)
	return err == nil && summary.Status == metav1.ConditionTrue
}

func endpoint(host string, port int32) string {
	if host == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(int(port)))
}

func controlPlaneOf(c *controlplanev1.KOKControlPlane, deployments []appsv1.Deployment) *ControlPlane {
	p := &ControlPlane{Name: c.Name, Version: c.Spec.Version, HostCluster: c.Spec.Hosting.KubeconfigRef.Name}
	p.Available = conditions.IsTrue(c, conditionsv1.AvailableCondition)
	p.Endpoint = endpoint(c.Spec.ControlPlaneEndpoint.Host, c.Spec.ControlPlaneEndpoint.Port)
	for _, v := range c.Status.Versions {
		p.Running = append(p.Running, v.Version)
	}
	for _, etcd := range c.Status.Etcd {
		component := Component{Name: "etcd-" + etcd.Name, Ready: ptr.Deref(etcd.ReadyReplicas, 0), Desired: ptr.Deref(etcd.Replicas, 0)}
		for _, m := range etcd.Members {
			component.Members = append(component.Members, Member{Name: m.Name, State: string(m.State)})
		}
		p.Components = append(p.Components, component)
	}
	for _, component := range registry.Components {
		if component.ServesAPI {
			p.Components = append(p.Components, Component{
				Name: component.Name, Ready: ptr.Deref(c.Status.ReadyReplicas, 0), Desired: ptr.Deref(c.Status.DesiredReplicas, 0),
			})
			continue
		}
		for _, d := range deployments {
			if d.Labels[names.ComponentLabel] == component.Name {
				p.Components = append(p.Components, Component{Name: component.Name, Ready: d.Status.ReadyReplicas, Desired: ptr.Deref(d.Spec.Replicas, 1)})
			}
		}
	}
	p.Conditions = NewsOf(c)
	return p
}

// NewsOf are the conditions of a control plane that are not as they should be.
func NewsOf(c *controlplanev1.KOKControlPlane) []Condition {
	// Whether clusterctl may move it says nothing of how it is.
	return news(c, conditionsv1.MovableCondition)
}

func machineDeploymentOf(d *clusterv1.MachineDeployment) MachineDeployment {
	return MachineDeployment{
		Name: d.Name, Version: d.Spec.Template.Spec.Version, Desired: ptr.Deref(d.Spec.Replicas, 1), Ready: ptr.Deref(d.Status.ReadyReplicas, 0),
		Available: ptr.Deref(d.Status.AvailableReplicas, 0), UpToDate: ptr.Deref(d.Status.UpToDateReplicas, 0),
		// The Machines themselves report what they wait for.
		Conditions: news(d, clusterv1.MachinesReadyCondition, clusterv1.AvailableCondition),
	}
}

func machinesOf(machines []clusterv1.Machine, idcMachines []infrav1.IDCMachine) Machines {
	hosts := map[string]string{}
	for _, m := range idcMachines {
		if m.Spec.HostRef != nil {
			hosts[m.Name] = m.Spec.HostRef.Name
		}
	}
	all := Machines{Total: len(machines)}
	for i := range machines {
		m := &machines[i]
		if conditions.IsTrue(m, clusterv1.ReadyCondition) && m.DeletionTimestamp.IsZero() {
			all.Up++
			continue
		}
		waits, cause := waitsFor(m)
		host := ""
		if m.Spec.InfrastructureRef.Kind == "IDCMachine" {
			host = hosts[m.Spec.InfrastructureRef.Name]
		}
		all.NotUp = append(all.NotUp, Machine{Name: m.Name, Phase: m.Status.Phase, Host: host, WaitsFor: waits, Condition: cause})
	}
	slices.SortFunc(all.NotUp, func(a, b Machine) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// waitsFor names the object that a Machine waits for before it is up, and the condition that says so. A Machine comes up
// in this order.
func waitsFor(m *clusterv1.Machine) (string, Condition) {
	bootstrap, infrastructure := m.Spec.Bootstrap.ConfigRef, m.Spec.InfrastructureRef
	order := []struct{ condition, who string }{
		{clusterv1.BootstrapConfigReadyCondition, strings.TrimSpace(bootstrap.Kind + " " + bootstrap.Name)},
		{clusterv1.InfrastructureReadyCondition, strings.TrimSpace(infrastructure.Kind + " " + infrastructure.Name)},
		{clusterv1.MachineNodeReadyCondition, "its Node"},
		{clusterv1.MachineNodeHealthyCondition, "its Node"},
		{clusterv1.MachineHealthCheckSucceededCondition, "its MachineHealthCheck"},
	}
	if deleting := conditions.Get(m, clusterv1.DeletingCondition); !m.DeletionTimestamp.IsZero() && deleting != nil {
		return "its deletion", factOf(deleting)
	}
	for _, next := range order {
		if found := conditions.Get(m, next.condition); found != nil && found.Status != metav1.ConditionTrue {
			return next.who, factOf(found)
		}
	}
	if found := conditions.Get(m, clusterv1.ReadyCondition); found != nil {
		return "Cluster API", factOf(found)
	}
	return "Cluster API", Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionUnknown, Reason: "NotReconciled", Message: "the controllers of Cluster API did not look at it yet", Since: m.CreationTimestamp.UTC()}
}

func hostsOf(hosts []infrav1.IDCHost, ours []infrav1.IDCMachine) Hosts {
	all := Hosts{}
	for i := range hosts {
		host := &hosts[i]
		if host.Spec.Claim != nil && conditions.GetReason(host, infrav1.AvailableCondition) != infrav1.ClaimLostReason &&
			!slices.ContainsFunc(ours, func(m infrav1.IDCMachine) bool { return m.Name == host.Spec.Claim.Name }) {
			continue // Another cluster's machine has it.
		}
		switch v := verdict.Of(host); v.State {
		case verdict.Free:
			all.Free++
		case verdict.Claimed:
			all.Claimed++
		default:
			all.Bad = append(all.Bad, Host{Name: v.Name, Address: v.Address, State: v.State, Reason: v.Reason, Machine: v.Machine, Message: v.Message, WayOut: v.WayOut, Since: v.Since.UTC()})
		}
	}
	slices.SortFunc(all.Bad, func(a, b Host) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
