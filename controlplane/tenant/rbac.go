package tenant

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Names and groups that kubeadm uses (k8s.io/kubernetes/cmd/kubeadm/app/constants).
const (
	clusterInfoRole   = "kubeadm:bootstrap-signer-clusterinfo"
	kubeadmConfigRole = "kubeadm:nodes-kubeadm-config"
	kubeletConfigRole = "kubeadm:kubelet-config"
	getNodesRole      = "kubeadm:get-nodes"

	nodesGroup           = "system:nodes"
	anonymousUser        = "system:anonymous"
	unauthenticatedGroup = "system:unauthenticated"
)

// apiServerEndpointsRole lets a worker's load balancer watch where the API servers are, with the
// node's own certificate: the node authorizer gives no right to EndpointSlices.
const apiServerEndpointsRole = "kok:apiserver-endpoints"

func rbac() []client.Object {
	bootstrappers := group(NodeBootstrapTokenGroup)
	nodes := group(nodesGroup)
	return []client.Object{
		// Discovery.
		role(metav1.NamespacePublic, clusterInfoRole, read("", "configmaps", bootstrapapi.ConfigMapClusterInfo)),
		binding(metav1.NamespacePublic, clusterInfoRole, user(anonymousUser), group(unauthenticatedGroup)),

		// Configuration that joining machines and nodes read.
		role(metav1.NamespaceSystem, kubeadmConfigRole, read("", "configmaps", kubeadmConfigName)),
		binding(metav1.NamespaceSystem, kubeadmConfigRole, bootstrappers, nodes),
		role(metav1.NamespaceSystem, kubeletConfigRole, read("", "configmaps", kubeletConfigName)),
		binding(metav1.NamespaceSystem, kubeletConfigRole, nodes, bootstrappers),

		// A bootstrap token requests a node's first certificate, which the bootstrap provider approves. The node requests the next
		// ones, which kube-controller-manager approves.
		clusterBinding("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", bootstrappers),
		clusterBinding("kubeadm:node-autoapprove-certificate-rotation", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", nodes),
		clusterRole(getNodesRole, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}),
		clusterBinding(getNodesRole, getNodesRole, bootstrappers),

		// kube-apiserver reaches kubelets for logs and exec.
		clusterBinding("kubeadm:apiserver-kubelet-client", "system:kubelet-api-admin", user(names.KubeletClientUser)),

		// The local load balancer follows the API servers.
		role(metav1.NamespaceDefault, apiServerEndpointsRole, rbacv1.PolicyRule{
			Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"discovery.k8s.io"},
			Resources: []string{"endpointslices"}, ResourceNames: []string{"kubernetes"},
		}),
		binding(metav1.NamespaceDefault, apiServerEndpointsRole, nodes),
	}
}

// Unwanted are objects that tenants had before: kube-controller-manager approved a first certificate for any node's name.
func Unwanted() []client.Object {
	return []client.Object{clusterBinding("kubeadm:node-autoapprove-bootstrap", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", group(NodeBootstrapTokenGroup))}
}

func read(apiGroup, resource, name string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{apiGroup}, Resources: []string{resource}, ResourceNames: []string{name}}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func role(namespace, name string, rules ...rbacv1.PolicyRule) client.Object {
	return &rbacv1.Role{TypeMeta: typeMeta("Role"), ObjectMeta: objectMeta(namespace, name), Rules: rules}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) client.Object {
	return &rbacv1.ClusterRole{TypeMeta: typeMeta("ClusterRole"), ObjectMeta: objectMeta("", name), Rules: rules}
}

// binding binds the Role of the same name.
func binding(namespace, name string, subjects ...rbacv1.Subject) client.Object {
	return &rbacv1.RoleBinding{
		TypeMeta: typeMeta("RoleBinding"), ObjectMeta: objectMeta(namespace, name), Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}
}

func clusterBinding(name, role string, subjects ...rbacv1.Subject) client.Object {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta: typeMeta("ClusterRoleBinding"), ObjectMeta: objectMeta("", name), Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}
