package main

import (
	"context"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/manager"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/scale/standin"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
)

// tenantPort is where tenants' APIs are served, each at an address of its own. A host cluster on this machine may have port 6443.
const tenantPort = 26443

// tenant is a Cluster with the API of its tenant.
type tenant struct {
	cluster *clusterv1.Cluster
	api     *standin.Tenant
}

func clusterKey(i int) client.ObjectKey {
	return client.ObjectKey{Namespace: manager.TenantsNamespace, Name: fmt.Sprintf("t%05d", i)}
}

func machineKey(i int) client.ObjectKey {
	return client.ObjectKey{Namespace: manager.TenantsNamespace, Name: fmt.Sprintf("m%06d", i)}
}

// makeCluster makes a Cluster as Cluster API and its providers leave it when its control plane is there.
func (b *bench) makeCluster(ctx context.Context, i int) error {
	address := net.IPv4(127, 251, byte(i/250), byte(1+i%250))
	certificate, err := b.authority.server(address)
	if err != nil {
		return err
	}
	t := &b.tenants[i]
	if t.api, err = b.apis.Add(net.JoinHostPort(address.String(), fmt.Sprint(tenantPort)), certificate); err != nil {
		return fmt.Errorf("serve the API of a tenant: %w", err)
	}
	if err := t.api.Put(apiServerSlice(address)); err != nil {
		return err
	}
	cluster, controlPlane := shape.HighlyAvailable.Objects(clusterKey(i), b.version, nil)
	cluster.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster.Name}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: address.String(), Port: tenantPort}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IDCCluster", Name: cluster.Name}
	admin, err := b.adminKubeconfig(address)
	if err != nil {
		return err
	}
	ca := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.ClusterCA), Labels: cluster.Labels},
		Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{secret.TLSCrtDataName: b.authority.pem, secret.TLSKeyDataName: b.authority.keyPEM},
	}
	for _, object := range []client.Object{cluster, controlPlane, kubeconfig.GenerateSecret(cluster, admin), ca} {
		if object != client.Object(cluster) {
			object.SetLabels(cluster.Labels)
			object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(cluster, clusterv1.GroupVersion.WithKind(clusterv1.ClusterKind))})
		}
		if err := b.stage.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("make %T of Cluster %s: %w", object, cluster.Name, err)
		}
	}
	cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: ptr.To(true), ControlPlaneInitialized: ptr.To(true)}
	t.cluster = cluster
	return b.stage.Client.Status().Update(ctx, cluster)
}

// apiServerSlice is what API servers write of themselves.
func apiServerSlice(address net.IP) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kubernetes"},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address.String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To[int32](tenantPort)}},
	}
}

func (b *bench) adminKubeconfig(address net.IP) ([]byte, error) {
	certificate, err := b.authority.sign(nil)
	if err != nil {
		return nil, err
	}
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"a": {
			Server: "https://" + net.JoinHostPort(address.String(), fmt.Sprint(tenantPort)), CertificateAuthorityData: b.authority.pem,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": {ClientCertificateData: certificate, ClientKeyData: b.authority.keyPEM}},
		Contexts:       map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}},
		CurrentContext: "a",
	})
}

// makeMachine makes a Machine with its config, as Cluster API's controllers leave them.
func (b *bench) makeMachine(ctx context.Context, i int) error {
	cluster, key := b.tenants[i%len(b.tenants)].cluster, machineKey(i)
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name, clusterv1.MachineDeploymentNameLabel: "workers"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "workers", UID: cluster.UID, Controller: ptr.To(true)}},
	}}
	machine.Spec.ClusterName, machine.Spec.Version = cluster.Name, b.version
	machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KOKConfig", Name: key.Name}
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IDCMachine", Name: key.Name}
	if err := b.stage.Client.Create(ctx, machine); err != nil {
		return fmt.Errorf("make Machine %s: %w", key.Name, err)
	}
	config := &bootstrapv1.KOKConfig{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Labels: machine.Labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(machine, clusterv1.GroupVersion.WithKind("Machine"))},
	}}
	if err := b.stage.Client.Create(ctx, config); err != nil {
		return fmt.Errorf("make KOKConfig %s: %w", key.Name, err)
	}
	return nil
}
