//go:build envtest

package envtest

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func cluster(namespace, name string) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: "KOKControlPlane", Name: name,
	}
	c.Spec.ClusterNetwork.Services.CIDRBlocks = []string{"10.96.0.0/12"}
	c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"192.168.0.0/16"}
	return c
}

const overlap = `spec.clusterNetwork.pods.cidrBlocks[0]: Invalid value: "10.100.0.0/16": overlaps 10.96.0.0/12, the range of Services; choose ranges without a common address`

func TestCluster(t *testing.T) {
	namespace := newNamespace(t)
	long := strings.Repeat("a", 41)
	cases := []struct {
		name    string
		cluster string
		edit    func(*clusterv1.Cluster)
		want    []string
	}{
		{"good", "good", func(*clusterv1.Cluster) {}, nil},
		{"without a network", "plain", func(c *clusterv1.Cluster) { c.Spec.ClusterNetwork = clusterv1.ClusterNetwork{} }, nil},
		{"overlap", "overlap", func(c *clusterv1.Cluster) { c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"10.100.0.0/16"} }, []string{overlap}},
		{"long name", long, func(*clusterv1.Cluster) {}, []string{
			`metadata.name: Invalid value: "` + long + `": must be at most 40 characters: names and labels of the control plane's objects start with it`}},
		{"domain in upper case", "domain", func(c *clusterv1.Cluster) { c.Spec.ClusterNetwork.ServiceDomain = "Tenant.local" }, []string{
			`spec.clusterNetwork.serviceDomain: Invalid value: "Tenant.local": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
		{"another provider's", "foreign", func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneRef.Kind = "KubeadmControlPlane"
			c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"10.100.0.0/16"}
		}, nil},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := cluster(namespace, tc.cluster)
			tc.edit(c)
			expectRefusal(t, environment.Client.Create(t.Context(), c), tc.want...)
		})
	}
}

func TestClusterUpdate(t *testing.T) {
	g := NewWithT(t)
	c := cluster(newNamespace(t), "tenant")
	// As the topology controller does it: the reference comes after the Cluster.
	reference := c.Spec.ControlPlaneRef
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
	c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"10.100.0.0/16"}
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	c.Spec.ControlPlaneRef = reference
	expectRefusal(t, environment.Client.Update(t.Context(), c), overlap)

	c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"192.168.0.0/16"}
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
	c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"10.100.0.0/16"}
	expectRefusal(t, environment.Client.Update(t.Context(), c), overlap)
}

// TestNetworkOfARunningTenant lets a network be corrected until the control plane is initialized.
func TestNetworkOfARunningTenant(t *testing.T) {
	g := NewWithT(t)
	c := cluster(newNamespace(t), "tenant")
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"172.16.0.0/16"}
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())

	c.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	g.Expect(environment.Client.Status().Update(t.Context(), c)).To(Succeed())
	changed := c.DeepCopy()
	changed.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"192.168.0.0/16"}
	changed.Spec.ClusterNetwork.Services.CIDRBlocks = nil
	changed.Spec.ClusterNetwork.ServiceDomain = "tenant.local"
	expectRefusal(t, environment.Client.Update(t.Context(), changed),
		`spec.clusterNetwork.pods.cidrBlocks: Invalid value: ["192.168.0.0/16"]: cannot be changed once the control plane is initialized, nodes have parts of it; go back to "172.16.0.0/16", or create a new Cluster`,
		`spec.clusterNetwork.serviceDomain: Invalid value: "tenant.local": cannot be changed once the control plane is initialized, service account tokens name it as their issuer; go back to "cluster.local", or create a new Cluster`)

	c.Spec.ClusterNetwork.ServiceDomain = "cluster.local"
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
}

// TestClusterThatWasThereBefore has the network that the webhook refuses, and must still be usable.
func TestClusterThatWasThereBefore(t *testing.T) {
	g := NewWithT(t)
	c := cluster(newNamespace(t), "tenant")
	c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"10.100.0.0/16"}
	restore, err := environment.WithoutWebhooks(t.Context(), c.Namespace)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	g.Expect(restore(t.Context())).To(Succeed())

	c.Labels = map[string]string{"a": "b"}
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
	g.Expect(environment.Client.Delete(t.Context(), c)).To(Succeed())
}
