package servingcertificates

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

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

// joining finds the machine that joins with a bootstrap token. It asks nobody about a request whose form is denied anyway.
func (r *Reconciler) joining(ctx context.Context, cluster client.ObjectKey, request *certificatesv1.CertificateSigningRequest, tokens *tokenOwners) (Joining, error) {
	name, err := parseFirst(request)
	if err != nil {
		// DecideFirst denies the request because of its form.
		return Joining{}, nil //nolint:nilerr // See above.
	}
	id, _ := TokenID(request)
	joining, err := tokens.ownerOf(id)
	if err != nil {
		return joining, err
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

// tokenOwners finds the Machine that a bootstrap token was made for. A tenant's administrator can make requests with any token. So
// tokenOwners reads each kind of configuration at most once, and KubeadmConfigs only for a token that no KOKConfig has.
type tokenOwners struct {
	kok     func() (kokOwners, error)
	kubeadm func() (map[string]Joining, error)
}

// kokOwners are the owners that KOKConfigs tell.
type kokOwners struct {
	byToken map[string]Joining
	// unsure names a KOKConfig whose token is not known yet; empty when all are known.
	unsure string
}

func (r *Reconciler) tokenOwners(ctx context.Context, namespace string, machines []clusterv1.Machine) *tokenOwners {
	return &tokenOwners{
		kok:     sync.OnceValues(func() (kokOwners, error) { return r.ownersByKOK(ctx, namespace, machines) }),
		kubeadm: sync.OnceValues(func() (map[string]Joining, error) { return r.ownersByKubeadm(ctx, namespace, machines) }),
	}
}

// ownerOf finds the Machine that a token was made for, by the configurations of both bootstrap providers.
func (t *tokenOwners) ownerOf(id string) (Joining, error) {
	kok, err := t.kok()
	if err != nil {
		return Joining{}, err
	}
	if joining, found := kok.byToken[id]; found {
		return joining, nil
	}
	kubeadm, err := t.kubeadm()
	if err != nil {
		return Joining{}, err
	}
	if joining, found := kubeadm[id]; found {
		return joining, nil
	}
	return Joining{Unsure: kok.unsure}, nil
}

func (r *Reconciler) ownersByKOK(ctx context.Context, namespace string, machines []clusterv1.Machine) (kokOwners, error) {
	owners := kokOwners{byToken: map[string]Joining{}}
	configs := &bootstrapv1.KOKConfigList{}
	// A namespace may have the configs of thousands of Clusters, and nothing of them is changed here: they are not copied.
	if err := r.Client.List(ctx, configs, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return owners, fmt.Errorf("list the KOKConfigs in namespace %s: %w", namespace, err)
	}
	named := byName(machines)
	for i := range configs.Items {
		config := &configs.Items[i]
		machine := ownerOf(config, named)
		switch id := config.Status.BootstrapToken.ID; {
		case machine == nil:
		case id != "":
			addOwner(owners.byToken, id, Joining{Machine: machine, Names: overrides(config)})
		case !machine.Status.NodeRef.IsDefined():
			// A move drops status. The controller of KOKConfigs writes it again in a moment.
			owners.unsure = fmt.Sprintf("the bootstrap token of KOKConfig %s is not known yet", config.Name)
		}
	}
	return owners, nil
}

// ownersByKubeadm is ownersByKOK for the kubeadm bootstrap provider, which may not be installed.
func (r *Reconciler) ownersByKubeadm(ctx context.Context, namespace string, machines []clusterv1.Machine) (map[string]Joining, error) {
	configs := &kubeadmv1.KubeadmConfigList{}
	err := r.APIReader.List(ctx, configs, client.InNamespace(namespace))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the KubeadmConfigs in namespace %s: %w", namespace, err)
	}
	owners, named := map[string]Joining{}, byName(machines)
	for i := range configs.Items {
		config := &configs.Items[i]
		machine := ownerOf(config, named)
		if machine == nil {
			continue
		}
		join := config.Spec.JoinConfiguration
		names := slices.DeleteFunc([]string{join.NodeRegistration.Name}, func(name string) bool { return name == "" })
		for _, token := range []string{join.Discovery.BootstrapToken.Token, join.Discovery.TLSBootstrapToken} {
			if id, _, isToken := strings.Cut(token, "."); isToken {
				addOwner(owners, id, Joining{Machine: machine, Names: names})
			}
		}
	}
	return owners, nil
}

// addOwner notes the owner of a token. The first of several stays.
func addOwner(owners map[string]Joining, id string, owner Joining) {
	if _, there := owners[id]; !there {
		owners[id] = owner
	}
}

func byName(machines []clusterv1.Machine) map[string]*clusterv1.Machine {
	named := make(map[string]*clusterv1.Machine, len(machines))
	for i := range machines {
		named[machines[i].Name] = &machines[i]
	}
	return named
}

// ownerOf is the Machine of the Cluster that a configuration belongs to; nil for none.
func ownerOf(config client.Object, machines map[string]*clusterv1.Machine) *clusterv1.Machine {
	for _, owner := range config.GetOwnerReferences() {
		if machine := machines[owner.Name]; machine != nil && owner.Kind == "Machine" {
			return machine
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
