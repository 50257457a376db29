//go:build envtest

package controllers

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
)

// Finding 5: tenants that run have the binding by which a bootstrap token became any node.
func TestFinding5TheApprovalOfAnyNodeIsTakenAway(t *testing.T) {
	for _, object := range tenant.Unwanted() {
		if err := environment.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	tt := newTenantTest(t, small)
	tt.settle()
	for _, object := range tenant.Unwanted() {
		if err := environment.Client.Get(t.Context(), client.ObjectKeyFromObject(object), &rbacv1.ClusterRoleBinding{}); !apierrors.IsNotFound(err) {
			t.Errorf("ClusterRoleBinding %s is there still: %v", object.GetName(), err)
		}
	}
}
