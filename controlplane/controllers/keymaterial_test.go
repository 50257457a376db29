package controllers

import (
	"testing"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

func TestAPanicWhileCertificatesAreIssuedIsAnErrorOfTheStep(t *testing.T) {
	of := issue(t, "blue", "blue.example.com")
	s := &scope{
		key: of.in.Cluster, input: *of.in, keys: of.keys, controlPlane: &controlplanev1.KOKControlPlane{}, host: &Host{},
		store: &pki.Store{}, // Without a host cluster.
	}
	err := (&Reconciler{}).ensureCertificates(t.Context(), s).Err()
	if err == nil || err.Error() != "issuing certificates panicked; the manager's log has the stack" {
		t.Errorf("the error is %v", err)
	}
}
