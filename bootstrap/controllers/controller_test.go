package controllers

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/cloudinit"
)

func TestAMachineGetsItsBootstrapData(t *testing.T) {
	f := newFixture(t, ready()...)
	result := f.mustReconcile()

	data := f.data()
	owner := metav1.GetControllerOf(data)
	if owner == nil || owner.Kind != "KOKConfig" || owner.Name != key.Name || data.Labels[clusterv1.ClusterNameLabel] != "blue" || data.Type != clusterv1.ClusterSecretType {
		t.Errorf("the Secret is not by the contract: %+v", data.ObjectMeta)
	}
	if string(data.Data["format"]) != "cloud-config" || !bytes.HasPrefix(data.Data["value"], []byte("#cloud-config\n")) || len(data.Data) != 2 {
		t.Errorf("the Secret holds %d keys, format %q", len(data.Data), data.Data["format"])
	}
	config := f.config()
	if !ptr.Deref(config.Status.Initialization.DataSecretCreated, false) || config.Status.DataSecretName != key.Name {
		t.Errorf("status %+v", config.Status)
	}
	for _, kind := range []string{"Ready", "DataSecretAvailable", "BootstrapTokenValid"} {
		if !conditions.IsTrue(config, kind) {
			t.Errorf("condition %s: %+v", kind, conditions.Get(config, kind))
		}
	}
	token, err := cloudinit.Token(data.Data["value"])
	if err != nil {
		t.Fatal(err)
	}
	tokens := f.tenantTokens()
	if len(tokens) != 1 || string(tokens[0].Data["token-id"])+"."+string(tokens[0].Data["token-secret"]) != token {
		t.Fatalf("the tenant's tokens are not the machine's")
	}
	if got := string(tokens[0].Data["expiration"]); got != "2026-01-01T00:15:00Z" {
		t.Errorf("the token expires at %s", got)
	}
	if string(tokens[0].Data["usage-bootstrap-authentication"]) != "true" || tokens[0].Data["usage-bootstrap-signing"] != nil {
		t.Error("the token must be for authentication alone")
	}
	if tokens[0].Type != "bootstrap.kubernetes.io/token" || config.Status.BootstrapToken.ID != string(tokens[0].Data["token-id"]) {
		t.Errorf("type %s, status %+v", tokens[0].Type, config.Status.BootstrapToken)
	}
	if result.RequeueAfter <= 0 || result.RequeueAfter > 8*time.Minute {
		t.Errorf("the token is looked at again in %s", result.RequeueAfter)
	}
}

func TestWaiting(t *testing.T) {
	edit := func(index int, change func(client.Object)) func([]client.Object) []client.Object {
		return func(objects []client.Object) []client.Object { change(objects[index]); return objects }
	}
	cluster := func(change func(*clusterv1.Cluster)) func([]client.Object) []client.Object {
		return edit(0, func(o client.Object) { change(o.(*clusterv1.Cluster)) })
	}
	machine := func(change func(*clusterv1.Machine)) func([]client.Object) []client.Object {
		return edit(1, func(o client.Object) { change(o.(*clusterv1.Machine)) })
	}
	config := func(change func(*bootstrapv1.KOKConfig)) func([]client.Object) []client.Object {
		return edit(2, func(o client.Object) { change(o.(*bootstrapv1.KOKConfig)) })
	}
	for name, test := range map[string]struct {
		objects      func([]client.Object) []client.Object
		reason, says string
	}{
		"for the Cluster's infrastructure": {cluster(func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = nil }), "WaitingForClusterInfrastructure", "Cluster blue"},
		"for the control plane":            {cluster(func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = nil }), "WaitingForControlPlane", "Cluster blue"},
		"for the CA":                       {func(o []client.Object) []client.Object { return o[:3] }, "WaitingForClusterCA", "blue-ca"},
		"for a version":                    {machine(func(m *clusterv1.Machine) { m.Spec.Version = "" }), "InvalidSpec", "spec.version of Machine worker-1 is empty"},
		"for a supported version":          {machine(func(m *clusterv1.Machine) { m.Spec.Version = "v1.30.1" }), "InvalidSpec", "v1.30 is not supported"},
		"for a worker": {machine(func(m *clusterv1.Machine) {
			m.Labels[clusterv1.MachineControlPlaneLabel] = ""
		}), "InvalidSpec", "one of a control plane"},
		"for a Secret of a file": {config(func(c *bootstrapv1.KOKConfig) {
			c.Spec.Files = []bootstrapv1.File{{Path: "/etc/a", ContentFrom: &bootstrapv1.FileSource{Secret: bootstrapv1.SecretKey{Name: "none", Key: "a"}}}}
		}), "ReferencedSecretNotFound", "spec.files[0].contentFrom: there is no Secret none"},
		"for a key of a Secret of a file": {func(o []client.Object) []client.Object {
			return append(config(func(c *bootstrapv1.KOKConfig) {
				c.Spec.Files = []bootstrapv1.File{{Path: "/etc/a", ContentFrom: &bootstrapv1.FileSource{Secret: bootstrapv1.SecretKey{Name: "a", Key: "none"}}}}
			})(o), &corev1.Secret{ObjectMeta: forTenants("a")})
		}, "ReferencedSecretNotFound", "Secret a has no key none"},
		"for a spec that can be rendered": {config(func(c *bootstrapv1.KOKConfig) {
			c.Spec.Files = []bootstrapv1.File{{Path: "/etc/kok/a", Content: ptr.To("")}}
		}), "InvalidSpec", "spec.files[0].path"},
		"for a name that is free": {func(o []client.Object) []client.Object {
			return append(o, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
		}, "DataSecretConflict", "does not belong to this KOKConfig"},
		"in vain with a MachinePool": {config(func(c *bootstrapv1.KOKConfig) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachinePool", Name: "pool", UID: "pool"}}
		}), "InvalidSpec", "use a MachineDeployment"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.objects(ready())...)
			f.mustReconcile()
			f.expectCondition("DataSecretAvailable", metav1.ConditionFalse, test.reason)
			f.expectCondition("Ready", metav1.ConditionFalse, test.reason)
			if message := conditions.GetMessage(f.config(), "DataSecretAvailable"); !strings.Contains(message, test.says) {
				t.Errorf("it says %q, want %q", message, test.says)
			}
			if f.tokensCreated > 0 || f.config().Status.DataSecretName != "" {
				t.Errorf("%d tokens were made, status %+v", f.tokensCreated, f.config().Status)
			}
		})
	}
}

func TestWaitingForTheTenant(t *testing.T) {
	t.Run("for a connection", func(t *testing.T) {
		f := newFixture(t, ready()...)
		f.reconciler.Tenants = clustercache.NewFakeEmptyClusterCache()
		f.mustReconcile()
		f.expectCondition("DataSecretAvailable", metav1.ConditionFalse, "TenantUnreachable")
	})
	t.Run("for an API server", func(t *testing.T) {
		f := newFixture(t, ready()...)
		if err := f.tenant.Delete(t.Context(), apiServerSlice()); err != nil {
			t.Fatal(err)
		}
		f.mustReconcile()
		f.expectCondition("DataSecretAvailable", metav1.ConditionFalse, "WaitingForAPIServers")
	})
}

func TestARetryMintsNoToken(t *testing.T) {
	t.Run("when status could not be written", func(t *testing.T) {
		f := newFixture(t, ready()...)
		if _, err := f.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		f.failStatus = true
		if _, err := f.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err == nil {
			t.Fatal("the write of status did not fail")
		}
		before := f.data()
		f.mustReconcile()
		if after := f.data(); !bytes.Equal(before.Data["value"], after.Data["value"]) {
			t.Error("the bootstrap data changed")
		}
		if f.tokensCreated != 1 || len(f.tenantTokens()) != 1 {
			t.Errorf("%d tokens were made", f.tokensCreated)
		}
	})
	t.Run("when the bootstrap data could not be written", func(t *testing.T) {
		f := newFixture(t, ready()...)
		f.fail = func(where, verb string, _ *corev1.Secret) error {
			if where == "management" && verb == "create" {
				return context.DeadlineExceeded
			}
			return nil
		}
		if _, err := f.reconcile(); err == nil {
			t.Fatal("the write of the bootstrap data did not fail")
		}
		f.fail = nil
		f.mustReconcile()
		if f.tokensCreated != 1 {
			t.Errorf("%d tokens were made", f.tokensCreated)
		}
	})
	t.Run("when the tenant did not take the token", func(t *testing.T) {
		f := newFixture(t, ready()...)
		f.mustReconcile()
		token := f.tenantTokens()[0]
		config := f.config()
		config.Status = bootstrapv1.KOKConfigStatus{}
		if err := f.management.Status().Update(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		if err := f.tenant.Delete(t.Context(), &token); err != nil {
			t.Fatal(err)
		}
		f.mustReconcile()
		if tokens := f.tenantTokens(); len(tokens) != 1 || !bytes.Equal(tokens[0].Data["token-secret"], token.Data["token-secret"]) {
			t.Error("the tenant has another token than the bootstrap data")
		}
	})
	t.Run("when it is settled", func(t *testing.T) {
		f := newFixture(t, ready()...)
		f.mustReconcile()
		before, requests := f.data(), f.tenantRequests
		for range 5 {
			f.mustReconcile()
		}
		if after := f.data(); before.ResourceVersion != after.ResourceVersion || f.tenantRequests != requests {
			t.Errorf("a settled machine costs %d requests to its tenant", f.tenantRequests-requests)
		}
	})
}

func TestTheTokenIsRenewedUntilTheMachineHasJoined(t *testing.T) {
	f := newFixture(t, ready()...)
	f.mustReconcile()
	before := f.tenantTokens()[0]

	f.clock.Step(8 * time.Minute)
	f.mustReconcile()
	renewed := f.tenantTokens()[0]
	if string(renewed.Data["expiration"]) != "2026-01-01T00:23:00Z" || !bytes.Equal(renewed.Data["token-secret"], before.Data["token-secret"]) {
		t.Errorf("the token expires at %s", renewed.Data["expiration"])
	}

	// The tenant removed it, because no manager was there to renew it.
	if err := f.tenant.Delete(t.Context(), &renewed); err != nil {
		t.Fatal(err)
	}
	f.clock.Step(time.Hour)
	f.mustReconcile()
	if tokens := f.tenantTokens(); len(tokens) != 1 || !bytes.Equal(tokens[0].Data["token-secret"], before.Data["token-secret"]) {
		t.Error("the machine's token is not valid again")
	}

	f.join()
	f.mustReconcile()
	if tokens := f.tenantTokens(); len(tokens) != 0 {
		t.Error("the token of a machine that has joined is still there")
	}
	f.expectCondition("BootstrapTokenValid", metav1.ConditionFalse, "Revoked")
	f.expectCondition("Ready", metav1.ConditionTrue, "Ready")

	requests := f.tenantRequests
	f.clock.Step(time.Hour)
	if result := f.mustReconcile(); result.RequeueAfter != 0 || f.tenantRequests != requests || len(f.tenantTokens()) != 0 {
		t.Errorf("a machine that has joined is cared for: in %s, %d requests", result.RequeueAfter, f.tenantRequests-requests)
	}
}

func TestTheTokenOfADeletedMachineIsRevoked(t *testing.T) {
	f := newFixture(t, ready()...)
	f.changeMachine(func(m *clusterv1.Machine) { m.Finalizers = []string{"a/b"} })
	f.mustReconcile()
	if err := f.management.Delete(t.Context(), get[clusterv1.Machine](f, f.management, key)); err != nil {
		t.Fatal(err)
	}
	f.mustReconcile()
	if len(f.tenantTokens()) != 0 {
		t.Error("the token is still there")
	}
}

func TestTheTokenIsUnknownWhileTheTenantIsAway(t *testing.T) {
	f := newFixture(t, ready()...)
	f.mustReconcile()
	f.reconciler.Tenants = clustercache.NewFakeEmptyClusterCache()
	f.clock.Step(10 * time.Minute)
	f.mustReconcile()
	f.expectCondition("BootstrapTokenValid", metav1.ConditionUnknown, "Unknown")
	f.expectCondition("Ready", metav1.ConditionUnknown, "Unknown")
}

func TestTheBootstrapDataIsNeverChangedOnceHandedOut(t *testing.T) {
	f := newFixture(t, ready()...)
	f.mustReconcile()
	before := f.data()
	config := f.config()
	config.Spec.PreKubeletCommands = []string{"true"}
	if err := f.management.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	slice := get[discoveryv1.EndpointSlice](f, f.tenant, client.ObjectKeyFromObject(apiServerSlice()))
	slice.Endpoints = slice.Endpoints[:1]
	if err := f.tenant.Update(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	f.mustReconcile()
	if after := f.data(); before.ResourceVersion != after.ResourceVersion {
		t.Error("the bootstrap data changed")
	}
}

func TestPaused(t *testing.T) {
	objects := ready()
	objects[0].(*clusterv1.Cluster).Spec.Paused = ptr.To(true)
	f := newFixture(t, objects...)
	f.mustReconcile()
	f.expectCondition(clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	if f.tokensCreated > 0 || f.config().Status.DataSecretName != "" {
		t.Error("something was made")
	}
}

func TestAddresses(t *testing.T) {
	slice := apiServerSlice()
	slice.Endpoints[0].Conditions.Ready = ptr.To(false)
	slice.Endpoints = append(slice.Endpoints, slice.Endpoints[1])
	slice.Endpoints[1].Addresses = append(slice.Endpoints[1].Addresses, "2001:db8::1")
	slice.Ports = append(slice.Ports, slice.Ports[0])
	slice.Ports[1].Name = ptr.To("other")
	if got := strings.Join(addresses(slice), " "); got != "192.0.2.1:20000 [2001:db8::1]:20000" {
		t.Error(got)
	}
}

func TestTheCacheKeepsNoKeysAndTokens(t *testing.T) {
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "blue"}},
			Data:       map[string][]byte{"value": []byte("a"), "tls.crt": []byte("b"), "tls.key": []byte("c")},
		}
	}
	for name, want := range map[string]int{"blue-kubeconfig": 3, "blue-ca": 2, "blue-etcd": 0, "blue-sa": 0, "worker-1": 0, "green-ca": 0} {
		kept, err := withoutContent(secret(name))
		if err != nil {
			t.Fatal(err)
		}
		data := kept.(*corev1.Secret).Data
		if len(data) != want || name == "blue-ca" && data["tls.key"] != nil {
			t.Errorf("%s keeps %d keys, want %d", name, len(data), want)
		}
	}
}
