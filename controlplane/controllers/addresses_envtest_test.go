//go:build envtest

package controllers

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
)

func (tt *tenantTest) service(name string) *corev1.Service {
	tt.t.Helper()
	service := &corev1.Service{}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace(name), service); err != nil {
		tt.t.Fatal(err)
	}
	return service
}

// The deletion comes between two reads of the cache: the list still has the Service.
func TestAServiceThatIsDeletedWhileItIsAppliedKeepsItsAddress(t *testing.T) {
	t.Parallel()
	const name = "blue-etcd-events-0"
	tt := newTenantTest(t, single)
	tt.settle()
	before := tt.service(name)
	tt.delete(before.DeepCopy())
	host := *tt.program.Host
	host.Client = intercept(host.Client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if services, ok := list.(*corev1.ServiceList); ok && err == nil {
				services.Items = append(services.Items, *before)
			}
			return err
		},
	})
	current := tt.program.Host
	tt.program.Host = &host
	tt.program.gate.take()
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	tt.program.Host = current
	tt.settle()
	after := tt.service(name)
	if after.UID == before.UID || after.Spec.ClusterIP != before.Spec.ClusterIP {
		t.Errorf("its address was %s and is %s", before.Spec.ClusterIP, after.Spec.ClusterIP)
	}
	if after.Annotations["kok.cluster.x-k8s.io/rendering"] != before.Annotations["kok.cluster.x-k8s.io/rendering"] {
		t.Error("it counts as another rendering")
	}
}

func TestAServiceIsWrittenOnceWhenItIsMadeAndOnceWhenItIsMadeAgain(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, single)
	written := func() (writes []string) {
		for range 3 {
			if err := tt.reconcile(); err != nil {
				t.Fatal(err)
			}
			for _, write := range tt.program.gate.takeWrites() {
				if strings.Contains(write.String(), "/services/") {
					writes = append(writes, write.String())
				}
			}
		}
		return writes
	}
	made := written()
	if unique := slices.Compact(slices.Sorted(slices.Values(made))); len(unique) == 0 || len(unique) != len(made) {
		t.Errorf("writes of Services at first: %v", made)
	}
	tt.delete(tt.service("blue-etcd-data-0"))
	if again := written(); len(again) != 1 || !strings.Contains(again[0], "blue-etcd-data-0") {
		t.Errorf("writes of Services after a deletion: %v", again)
	}
}

func TestAServiceWithAnotherAddressIsRefusedWithTheWayOut(t *testing.T) {
	t.Parallel()
	const name = "blue-etcd-data-0"
	tt := newTenantTest(t, single)
	tt.settle()
	right := tt.service(name)
	wrong := right.DeepCopy()
	wrong.ResourceVersion, wrong.UID, wrong.Spec.ClusterIP, wrong.Spec.ClusterIPs = "", "", "", nil
	tt.delete(right.DeepCopy())
	if err := environment.Client.Create(t.Context(), wrong); err != nil {
		t.Fatal(err)
	}
	// All else goes on: what needs addresses has those that were recorded.
	certificates := tt.generated()["Secret blue-etcd-data-certs"].(*corev1.Secret)
	tt.delete(certificates, tt.generated()["Service blue-kube-apiserver"], tt.generated()["Deployment blue-kube-scheduler"])
	tt.settle()
	renewed, ok := tt.generated()["Secret blue-etcd-data-certs"].(*corev1.Secret)
	if !ok || !slices.Equal(addressesIn(t, renewed, name), addressesIn(t, certificates, name)) {
		t.Errorf("the certificates that were issued meanwhile are %v", renewed)
	}
	for _, again := range []string{"Service blue-kube-apiserver", "Deployment blue-kube-scheduler"} {
		if tt.generated()[again] == nil {
			t.Errorf("%s does not come back", again)
		}
	}
	if got := tt.service(name); got.UID != wrong.UID || got.Spec.ClusterIP != wrong.Spec.ClusterIP {
		t.Errorf("the Service is touched: %v", got)
	}
	message := conditions.GetMessage(tt.controlPlane(), conditionsv1.ReconciledCondition)
	for _, part := range []string{name, wrong.Spec.ClusterIP, right.Spec.ClusterIP, "delete the Service"} {
		if !strings.Contains(message, part) {
			t.Errorf("condition Reconciled says %q, and not %q", message, part)
		}
	}
	tt.delete(wrong)
	tt.settle()
	if got := tt.service(name).Spec.ClusterIP; got != right.Spec.ClusterIP {
		t.Errorf("its address was %s and is %s", right.Spec.ClusterIP, got)
	}
	if !conditions.IsTrue(tt.controlPlane(), conditionsv1.ReconciledCondition) {
		t.Errorf("then it says %q", conditions.GetMessage(tt.controlPlane(), conditionsv1.ReconciledCondition))
	}
}

// addressesIn are the IP addresses that a certificate in a Secret names.
func addressesIn(t *testing.T, secret *corev1.Secret, leaf string) (addresses []string) {
	t.Helper()
	block, _ := pem.Decode(secret.Data[leaf+".crt"])
	if block == nil {
		t.Fatalf("there is no certificate %s in %v", leaf, slices.Sorted(maps.Keys(secret.Data)))
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, ip := range certificate.IPAddresses {
		addresses = append(addresses, ip.String())
	}
	return addresses
}
