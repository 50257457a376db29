package status

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// objects are the objects of one report.
type objects struct {
	cluster *clusterv1.Cluster
	// controlPlane is nil when the Cluster has another kind of control plane, or none yet.
	controlPlane *controlplanev1.KOKControlPlane
	// deployments are the workloads of the control plane in this cluster that its status does not count.
	deployments        []appsv1.Deployment
	machineDeployments []clusterv1.MachineDeployment
	machines           []clusterv1.Machine
	idcMachines        []infrav1.IDCMachine
	hosts              []infrav1.IDCHost
	// unread says what could not be read.
	unread []string
}

// Of reads a cluster and reports on it. Without its Cluster there is no report. Other objects that cannot be read are named
// in the report.
func Of(ctx context.Context, reader client.Reader, key client.ObjectKey) (*Report, error) {
	o := &objects{cluster: &clusterv1.Cluster{}}
	if err := reader.Get(ctx, key, o.cluster); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("namespace %s has no Cluster %s; kubectl get clusters --all-namespaces lists those that there are, --namespace chooses another namespace", key.Namespace, key.Name)
		}
		return nil, fmt.Errorf("read Cluster %s: %w", key, err)
	}
	o.readControlPlane(ctx, reader)
	ofCluster := client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}
	machineDeployments, machines := &clusterv1.MachineDeploymentList{}, &clusterv1.MachineList{}
	idcMachines, hosts, deployments := &infrav1.IDCMachineList{}, &infrav1.IDCHostList{}, &appsv1.DeploymentList{}
	for _, read := range []struct {
		what string
		list client.ObjectList
		by   client.MatchingLabels
	}{
		{"MachineDeployments", machineDeployments, ofCluster}, {"Machines", machines, ofCluster}, {"IDCMachines", idcMachines, ofCluster},
		{"IDCHosts", hosts, nil}, {"Deployments of the control plane", deployments, names.Labels(key)},
	} {
		o.note(read.what, reader.List(ctx, read.list, client.InNamespace(key.Namespace), read.by))
	}
	o.machineDeployments, o.machines, o.idcMachines = machineDeployments.Items, machines.Items, idcMachines.Items
	o.hosts, o.deployments = hosts.Items, deployments.Items
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return report(o), nil
}

func (o *objects) readControlPlane(ctx context.Context, reader client.Reader) {
	ref := o.cluster.Spec.ControlPlaneRef
	if ref.APIGroup != controlplanev1.GroupVersion.Group || ref.Kind != "KOKControlPlane" {
		return
	}
	controlPlane := &controlplanev1.KOKControlPlane{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: o.cluster.Namespace, Name: ref.Name}, controlPlane)
	if err == nil {
		o.controlPlane = controlPlane
	}
	o.note("KOKControlPlane "+ref.Name, err)
}

// note keeps what could not be read. A provider that is not installed has no objects.
func (o *objects) note(what string, err error) {
	if err == nil || meta.IsNoMatchError(err) || errors.Is(err, context.Canceled) {
		return
	}
	o.unread = append(o.unread, fmt.Sprintf("%s could not be read: %v", what, err))
}
