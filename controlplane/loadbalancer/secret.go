package loadbalancer

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// Keeper keeps the Secret from which other bootstrap providers take the configuration of a worker's load balancer.
type Keeper struct {
	// Client writes to the management cluster; its reads come from a cache.
	Client client.Client
	// Live reads from the management cluster's API server.
	Live client.Reader
}

// Facts are what a reconcile knows of the API servers of a control plane. Nothing here changes them.
type Facts struct {
	ControlPlane *controlplanev1.KOKControlPlane
	Cluster      client.ObjectKey
	// Pods are the pods of API servers. Wanted is how many there should be.
	Pods         []corev1.Pod
	Wanted       int
	Exposure     components.Exposure
	ServiceCIDRs []string
	Ports        ports.Ports
}

// Ensure writes the Secret when it differs. It writes nothing until it knows the address of an API server; a new address wakes the
// controller. It leaves a Secret that a person made as it is.
func (k *Keeper) Ensure(ctx context.Context, of *Facts) error {
	present, err := k.read(ctx, of.Cluster)
	if err != nil || present.ResourceVersion != "" && !of.owns(present) {
		return err
	}
	seeds, err := of.seeds(present.Data[Key])
	if err != nil || len(seeds) == 0 {
		return err
	}
	content, err := Configuration(seeds, of.ServiceCIDRs, of.Ports)
	if err != nil {
		return err
	}
	return k.write(ctx, of, present, content)
}

// read returns the present Secret. If the Secret does not exist, read returns one without a resource version. The cache does not hold a Secret
// that lost our label, so read asks the API server for a Secret that the cache lacks.
func (k *Keeper) read(ctx context.Context, cluster client.ObjectKey) (*corev1.Secret, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: names.LoadBalancer(cluster.Name)}}
	key := client.ObjectKeyFromObject(secret)
	err := k.Client.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		err = k.Live.Get(ctx, key, secret)
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Secret %s: %w", key, err)
	}
	secret.Namespace, secret.Name = key.Namespace, key.Name
	return secret, nil
}

// owns reports whether this controller made an object for the control plane, even if a person removed the object's label or its owner.
func (f *Facts) owns(object client.Object) bool {
	return metav1.IsControlledBy(object, f.ControlPlane) || names.Tenant(object) == f.Cluster
}

// write writes the Secret when it differs.
func (k *Keeper) write(ctx context.Context, of *Facts, present *corev1.Secret, content []byte) error {
	secret := present.DeepCopy()
	if secret.Labels == nil {
		secret.Labels = map[string]string{}
	}
	maps.Copy(secret.Labels, names.ComponentLabels(of.Cluster, names.KubeAPIServer))
	secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(of.ControlPlane, controlplanev1.GroupVersion.WithKind("KOKControlPlane"))}
	secret.Data = map[string][]byte{Key: content}
	var err error
	switch {
	case secret.ResourceVersion == "":
		secret.Type = clusterv1.ClusterSecretType
		err = k.Client.Create(ctx, secret)
	case !equality.Semantic.DeepEqual(present, secret):
		err = k.Client.Update(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("write Secret %s with the configuration of workers' load balancers: %w", client.ObjectKeyFromObject(secret), err)
	}
	return nil
}

// seeds are the addresses where workers look for API servers first: the one address that all share, or else those of their nodes.
func (f *Facts) seeds(present []byte) ([]string, error) {
	if shared, err := f.Exposure.AddrPort(); err != nil || shared.IsValid() {
		return []string{shared.String()}, err
	}
	return Seeds(addresses(f.Pods, f.Ports.APIServer), f.Wanted, present), nil
}

// addresses are where the API servers of pods serve: each advertises the address of its host. It ignores pods that have ended.
func addresses(pods []corev1.Pod, port int32) []string {
	var all []string
	for i := range pods {
		if host := pods[i].Status.HostIP; host != "" && !hostpods.Ended(&pods[i]) {
			all = append(all, net.JoinHostPort(host, strconv.Itoa(int(port))))
		}
	}
	return all
}
