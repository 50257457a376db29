package controllers

import (
	"cmp"
	"context"
	"maps"
	"net"
	"slices"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/scrape"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
)

// ensureMetricsCerts keeps the Secret by which Prometheus reads the metrics of the tenant's components, or deletes it when spec.metrics
// asks for none.
func (s *scope) ensureMetricsCerts(ctx context.Context, issuer certificates.Issuer) error {
	if s.controlPlane.Spec.Metrics.Mode != controlplanev1.MetricsManaged {
		return s.store.Host.DeleteFiles(ctx, secrets.Files{Cluster: s.key, Name: names.MetricsCerts(s.key.Name), Component: names.PKI})
	}
	files, err := scrape.Files(s.key, s.scraped())
	if err != nil {
		return err
	}
	if files[scrape.CAFile], err = certificates.Trusted(s.keys, pki.ClusterCA); err != nil {
		return err
	}
	result, err := issuer.EnsureLeaves(ctx, s.store.Host, certificates.LeafSecret{
		Key:    client.ObjectKey{Namespace: s.key.Namespace, Name: names.MetricsCerts(s.key.Name)},
		Labels: names.ComponentLabels(s.key, names.PKI), Owner: s.hostOwner(),
		Leaves: []certificates.Leaf{{
			Name: scrape.Certificate, Signer: pki.ClusterCA, SignerFile: s.keys.Files(string(pki.ClusterCA)).Used, CommonName: scrape.User, Organizations: []string{scrape.Group}, Usages: components.Dialing, Short: true,
		}},
		Files: files,
	})
	s.renewAt(result.RenewAt)
	return err
}

// scraped are the components that serve metrics by mutual TLS, with the pods that there were when the reconcile began. Etcd serves its
// own to loopback alone: who has a certificate of etcd's CA reads all data.
func (s *scope) scraped() []scrape.Component {
	var all []scrape.Component
	for _, component := range registry.Components {
		if !component.Kubernetes {
			continue
		}
		scraped := scrape.Component{Name: component.Name, ServerName: component.Name}
		if component.ServesAPI {
			scraped.ServerName = certificates.TenantServerName
		}
		port := strconv.Itoa(int(s.input.Ports.Number(component.Ports[0])))
		targets := map[string]scrape.Target{}
		for i := range s.snapshot.Pods[component.Name] {
			// On the host network the pod that replaces another one has the same address.
			if pod := &s.snapshot.Pods[component.Name][i]; pod.Status.PodIP != "" && !hostpods.Ended(pod) {
				targets[pod.Status.PodIP] = scrape.Target{Address: net.JoinHostPort(pod.Status.PodIP, port), Node: pod.Spec.NodeName}
			}
		}
		scraped.Targets = slices.SortedFunc(maps.Values(targets), func(a, b scrape.Target) int { return cmp.Compare(a.Address, b.Address) })
		all = append(all, scraped)
	}
	return all
}
