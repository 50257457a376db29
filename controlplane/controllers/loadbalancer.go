package controllers

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/loadbalancer"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// ensureLoadBalancer keeps the Secret from which other bootstrap providers take the configuration of a
// worker's load balancer. It waits for nothing: an address that comes later wakes the controller.
func (r *Reconciler) ensureLoadBalancer(ctx context.Context, s *scope) (string, error) {
	pods, err := podsOf(ctx, s)
	if err != nil {
		return "", err
	}
	found := apiServerAddresses(pods[names.KubeAPIServer], s.input.Ports.APIServer)
	wanted := stateOf(s.applied(names.KubeAPIServer)).wanted()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: names.LoadBalancer(s.key.Name)}}
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("get Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	seeds := loadbalancer.Seeds(found, int(wanted), secret.Data[loadbalancer.Key])
	if len(seeds) == 0 {
		return "", nil
	}
	content, err := loadbalancer.Configuration(seeds, s.input.Network.ServiceCIDRs, s.input.Ports)
	if err != nil {
		return "", err
	}
	return "", r.writeLoadBalancer(ctx, s, secret.Name, content)
}

// writeLoadBalancer writes the Secret when it differs. One that this controller did not make is a person's
// and stays as it is; without our label the cache does not hold it.
func (r *Reconciler) writeLoadBalancer(ctx context.Context, s *scope, name string, content []byte) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, secret, func() error {
		if secret.Labels == nil {
			secret.Labels = map[string]string{}
		}
		maps.Copy(secret.Labels, names.ComponentLabels(s.key, names.KubeAPIServer))
		if secret.ResourceVersion == "" {
			secret.Type = clusterv1.ClusterSecretType
		}
		secret.OwnerReferences = []metav1.OwnerReference{*s.owner()}
		secret.Data = map[string][]byte{loadbalancer.Key: content}
		return nil
	})
	if apierrors.IsAlreadyExists(err) {
		present := &corev1.Secret{}
		if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(secret), present); err == nil && names.Tenant(present) != s.key {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("write Secret %s with the configuration of workers' load balancers: %w", client.ObjectKeyFromObject(secret), err)
	}
	return nil
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
