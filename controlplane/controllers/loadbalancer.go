package controllers

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

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/loadbalancer"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// ensureLoadBalancer keeps the Secret from which other bootstrap providers take the configuration of a
// worker's load balancer. It waits for nothing: an address that comes later wakes the controller. A Secret
// that a person made stays as it is.
func (r *Reconciler) ensureLoadBalancer(ctx context.Context, s *scope) flow.Result {
	present, err := r.loadBalancerSecret(ctx, s)
	if err != nil || present.ResourceVersion != "" && !s.owns(present) {
		return flow.Failed(err)
	}
	seeds, err := seedsOf(s, present.Data[loadbalancer.Key])
	if err != nil {
		return flow.Failed(err)
	}
	if len(seeds) == 0 {
		return flow.Done()
	}
	content, err := loadbalancer.Configuration(seeds, s.input.Network.ServiceCIDRs, s.input.Ports)
	if err != nil {
		return flow.Failed(err)
	}
	return flow.Failed(r.writeLoadBalancer(ctx, s, present, content))
}

// loadBalancerSecret is the Secret as it is; one without a resource version when there is none. The cache
// does not hold one that lost our label.
func (r *Reconciler) loadBalancerSecret(ctx context.Context, s *scope) (*corev1.Secret, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: names.LoadBalancer(s.key.Name)}}
	key := client.ObjectKeyFromObject(secret)
	err := r.Client.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		err = r.APIReader.Get(ctx, key, secret)
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Secret %s: %w", key, err)
	}
	secret.Namespace, secret.Name = key.Namespace, key.Name
	return secret, nil
}

// owns reports whether this controller made an object for the control plane, also when a person took its
// label or its owner away.
func (s *scope) owns(object client.Object) bool {
	return metav1.IsControlledBy(object, s.controlPlane) || names.Tenant(object) == s.key
}

// writeLoadBalancer writes the Secret when it differs.
func (r *Reconciler) writeLoadBalancer(ctx context.Context, s *scope, present *corev1.Secret, content []byte) error {
	secret := present.DeepCopy()
	if secret.Labels == nil {
		secret.Labels = map[string]string{}
	}
	maps.Copy(secret.Labels, names.ComponentLabels(s.key, names.KubeAPIServer))
	secret.OwnerReferences = []metav1.OwnerReference{*s.owner()}
	secret.Data = map[string][]byte{loadbalancer.Key: content}
	var err error
	switch {
	case secret.ResourceVersion == "":
		secret.Type = clusterv1.ClusterSecretType
		err = r.Client.Create(ctx, secret)
	case !equality.Semantic.DeepEqual(present, secret):
		err = r.Client.Update(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("write Secret %s with the configuration of workers' load balancers: %w", client.ObjectKeyFromObject(secret), err)
	}
	return nil
}

// seedsOf are where workers look for API servers first: at the one address that all share, else at those of
// their nodes.
func seedsOf(s *scope, present []byte) ([]string, error) {
	if shared, err := s.sharedAddress(); err != nil || shared.IsValid() {
		return []string{shared.String()}, err
	}
	found := apiServerAddresses(s.snapshot.Pods[names.KubeAPIServer], s.input.Ports.APIServer)
	wanted := workloads.StateOf(s.applied(names.KubeAPIServer)).Wanted()
	return loadbalancer.Seeds(found, int(wanted), present), nil
}

// apiServerAddresses are where the API servers of pods serve: each advertises the address of its host.
func apiServerAddresses(pods []corev1.Pod, port int32) []string {
	var addresses []string
	for i := range pods {
		if host := pods[i].Status.HostIP; host != "" {
			addresses = append(addresses, net.JoinHostPort(host, strconv.Itoa(int(port))))
		}
	}
	return addresses
}
