package hostcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Namespaces of what the cluster is furnished with.
const (
	storageNamespace     = "local-storage"
	certManagerNamespace = "cert-manager"
)

// applyCertManager applies cert-manager's own manifests.
func (c *cluster) applyCertManager(ctx context.Context) error {
	data, err := os.ReadFile(c.Set.CertManager)
	if err != nil {
		return err
	}
	if err := c.apply(ctx, data); err != nil {
		return fmt.Errorf("apply cert-manager: %w", err)
	}
	return nil
}

// waitWorkloads waits until volumes can be had on every node and cert-manager takes requests.
func (c *cluster) waitWorkloads(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, interval, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		last = c.workloadsUsable(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the host cluster's storage and cert-manager: %w", errors.Join(err, last))
	}
	c.progress("host cluster: storage and cert-manager work")
	return nil
}

func (c *cluster) workloadsUsable(ctx context.Context) error {
	provisioners, err := c.client.AppsV1().DaemonSets(storageNamespace).Get(ctx, "local-provisioner", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if s := provisioners.Status; s.ObservedGeneration != provisioners.Generation || int(s.NumberReady) < len(c.Hosts) || s.UpdatedNumberScheduled != s.NumberReady {
		return fmt.Errorf("local volumes can be had on %d of %d nodes", s.NumberReady, len(c.Hosts))
	}
	deployments, err := c.client.AppsV1().Deployments(certManagerNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, d := range deployments.Items {
		if !available(d) {
			return fmt.Errorf("deployment %s/%s is not available", d.Namespace, d.Name)
		}
	}
	return c.issuerAccepted(ctx)
}

func available(d appsv1.Deployment) bool {
	return d.Status.ObservedGeneration == d.Generation && d.Spec.Replicas != nil && d.Status.AvailableReplicas >= *d.Spec.Replicas
}

// issuerAccepted asks for an Issuer without making one: the definition is there, and the webhook answers and is trusted.
func (c *cluster) issuerAccepted(ctx context.Context) error {
	api, err := c.api()
	if err != nil {
		return err
	}
	issuer := &unstructured.Unstructured{Object: object{
		"apiVersion": "cert-manager.io/v1", "kind": "Issuer",
		"metadata": object{"name": "trial", "namespace": certManagerNamespace},
		"spec":     object{"selfSigned": object{}},
	}}
	if err := api.Create(ctx, issuer, client.DryRunAll); err != nil {
		return fmt.Errorf("cert-manager does not take an Issuer: %w", err)
	}
	return nil
}
