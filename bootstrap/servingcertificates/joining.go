package servingcertificates

import (
	"context"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=kokconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=kubeadmconfigs,verbs=list

// joining finds the machine that joins with a bootstrap token.
func (r *Reconciler) joining(ctx context.Context, cluster client.ObjectKey, request *certificatesv1.CertificateSigningRequest, machines []clusterv1.Machine) (Joining, error) {
	id, _ := TokenID(request)
	joining, err := r.ownerOfToken(ctx, cluster.Namespace, id, machines)
	if err != nil {
		return joining, err
	}
	name, err := parseFirst(request)
	if err != nil {
		// DecideFirst denies the request because of its form.
		return joining, nil //nolint:nilerr // See above.
	}
	live, err := r.Tenants.GetUncachedClient(ctx, cluster)
	if err != nil {
		return joining, fmt.Errorf("connect to the tenant: %w", err)
	}
	if joining.NodeThere, err = exists(ctx, live, client.ObjectKey{Name: name}, &corev1.Node{}); err != nil {
		return joining, err
	}
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: bootstraputil.BootstrapTokenSecretName(id)}
	joining.Held, err = exists(ctx, live, key, &corev1.Secret{})
	return joining, err
}

func exists(ctx context.Context, reader client.Reader, key client.ObjectKey, object client.Object) (bool, error) {
	err := reader.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get %T %s of the tenant: %w", object, key, err)
	}
	return true, nil
}

// ownerOfToken finds the Machine that a token was made for, by the configurations of both bootstrap providers.
func (r *Reconciler) ownerOfToken(ctx context.Context, namespace, id string, machines []clusterv1.Machine) (Joining, error) {
	configs := &bootstrapv1.KOKConfigList{}
	if err := r.Client.List(ctx, configs, client.InNamespace(namespace)); err != nil {
		return Joining{}, fmt.Errorf("list the KOKConfigs in namespace %s: %w", namespace, err)
	}
	unsure := ""
	for i := range configs.Items {
		config := &configs.Items[i]
		machine := ownerOf(config, machines)
		switch known := config.Status.BootstrapToken.ID; {
		case machine == nil:
		case known == id:
			return Joining{Machine: machine, Names: overrides(config)}, nil
		case known == "" && !machine.Status.NodeRef.IsDefined():
			// A move drops status. The controller of KOKConfigs writes it again in a moment.
			unsure = fmt.Sprintf("the bootstrap token of KOKConfig %s is not known yet", config.Name)
		}
	}
	machine, names, err := r.ownerByKubeadm(ctx, namespace, id, machines)
	if machine != nil || err != nil {
		return Joining{Machine: machine, Names: names}, err
	}
	return Joining{Unsure: unsure}, nil
}

// ownerByKubeadm is ownerOfToken for the kubeadm bootstrap provider, which may not be installed.
func (r *Reconciler) ownerByKubeadm(ctx context.Context, namespace, id string, machines []clusterv1.Machine) (*clusterv1.Machine, []string, error) {
	configs := &kubeadmv1.KubeadmConfigList{}
	err := r.APIReader.List(ctx, configs, client.InNamespace(namespace))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list the KubeadmConfigs in namespace %s: %w", namespace, err)
	}
	for i := range configs.Items {
		config := &configs.Items[i]
		discovery := config.Spec.JoinConfiguration.Discovery
		isToken := func(token string) bool { return strings.HasPrefix(token, id+".") }
		if !slices.ContainsFunc([]string{discovery.BootstrapToken.Token, discovery.TLSBootstrapToken}, isToken) {
			continue
		}
		if machine := ownerOf(config, machines); machine != nil {
			return machine, slices.DeleteFunc([]string{config.Spec.JoinConfiguration.NodeRegistration.Name}, func(name string) bool { return name == "" }), nil
		}
	}
	return nil, nil, nil
}

// ownerOf is the Machine of the Cluster that a configuration belongs to; nil for none.
func ownerOf(config client.Object, machines []clusterv1.Machine) *clusterv1.Machine {
	for _, owner := range config.GetOwnerReferences() {
		if owner.Kind != "Machine" {
			continue
		}
		if i := slices.IndexFunc(machines, func(m clusterv1.Machine) bool { return m.Name == owner.Name }); i >= 0 {
			return &machines[i]
		}
	}
	return nil
}

// overrides are the names that a KOKConfig gives its node itself.
func overrides(config *bootstrapv1.KOKConfig) []string {
	var names []string
	for _, argument := range config.Spec.Kubelet.ExtraArgs {
		if argument.Name == "hostname-override" && argument.Value != nil {
			names = append(names, strings.ToLower(*argument.Value))
		}
	}
	return names
}
