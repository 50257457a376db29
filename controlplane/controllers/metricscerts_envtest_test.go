//go:build envtest

package controllers

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util/certs"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/scrape"
)

func TestPrometheusIsGivenACertificateWhereItIsAskedFor(t *testing.T) {
	tt := newTenantTest(t, single)
	secret, key := &corev1.Secret{}, tt.inNamespace(names.MetricsCerts("blue"))
	tt.settle()
	if err := environment.Client.Get(t.Context(), key, secret); !apierrors.IsNotFound(err) {
		t.Fatalf("nobody asked for it, and it is there: %v", err)
	}
	generations := func() (all []int64) {
		for _, component := range []string{names.EtcdData, names.EtcdEvents} {
			set := &appsv1.StatefulSet{}
			if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-"+component), set); err != nil {
				t.Fatal(err)
			}
			all = append(all, set.Generation)
		}
		for _, component := range []string{names.KubeControllerManager, names.KubeScheduler} {
			deployment := &appsv1.Deployment{}
			if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-"+component), deployment); err != nil {
				t.Fatal(err)
			}
			all = append(all, deployment.Generation)
		}
		return all
	}
	before := generations()

	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Metrics.Mode = controlplanev1.MetricsManaged })
	if err := environment.Client.Get(t.Context(), key, secret); err != nil {
		t.Fatal(err)
	}
	certificate, err := certs.DecodeCertPEM(secret.Data["tls.crt"])
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(certificate.Subject.Organization, []string{"system:monitoring"}) || time.Until(certificate.NotAfter) > 8*24*time.Hour {
		t.Errorf("the certificate is of %s until %s", certificate.Subject, certificate.NotAfter)
	}
	if len(secret.Data[scrape.CAFile]) == 0 || len(secret.Data[scrape.ConfigFile]) == 0 {
		t.Error("the CA or the configuration is missing")
	}
	for _, component := range []string{names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler} {
		var groups []any
		if err := json.Unmarshal(secret.Data[component+".json"], &groups); err != nil {
			t.Errorf("%s: %v", component, err)
		}
	}
	if after := generations(); !slices.Equal(before, after) {
		t.Errorf("workloads changed: %v, then %v", before, after)
	}

	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Metrics.Mode = controlplanev1.MetricsNone })
	if err := environment.Client.Get(t.Context(), key, secret); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}
