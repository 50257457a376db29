//go:build envtest

package controllers

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/untrusted"
)

// oldToken is a token of an account that began an hour before its end, by the key of the host cluster's API server.
func (o *otherHost) oldToken(t *testing.T, account client.ObjectKey, ends time.Time) string {
	t.Helper()
	parts := strings.Split(o.token(t, account), ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	claims := map[string]any{}
	if err == nil {
		err = json.Unmarshal(payload, &claims)
	}
	if err != nil {
		t.Fatal(err)
	}
	began := ends.Add(-time.Hour).Unix()
	claims["iat"], claims["nbf"], claims["exp"] = began, began, ends.Unix()
	if payload, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload)
	key, err := keyutil.PrivateKeyFromFile(filepath.Join(o.server.ControlPlane.GetAPIServer().CertDir, "sa-signer.key"))
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256([]byte(signed))
	// ES256, by RFC 7518: two numbers of 32 bytes.
	a, b, err := ecdsa.Sign(rand.Reader, key.(*ecdsa.PrivateKey), hash[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := append(a.FillBytes(make([]byte, 32)), b.FillBytes(make([]byte, 32))...)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// held is the token in the Secret.
func (e *elsewhereTest) held() string {
	e.t.Helper()
	secret := &corev1.Secret{}
	if err := environment.Client.Get(e.t.Context(), e.inNamespace(hostKubeconfig), secret); err != nil {
		e.t.Fatal(err)
	}
	config, err := untrusted.Config(secret.Data[controlplanev1.KubeconfigKey])
	if err != nil {
		e.t.Fatal(err)
	}
	return config.BearerToken
}

// as is a client of who has a token.
func (o *otherHost) as(t *testing.T, token string) client.Client {
	t.Helper()
	config := rest.AnonymousClientConfig(o.server.Config)
	config.BearerToken = token
	c, err := client.New(config, client.Options{Scheme: environment.Scheme, Mapper: o.api.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Finding 8: the kubeconfig for another host cluster read Secrets everywhere, and never ended. A story: its parts follow
// each other.
func TestFinding8AnAccountOfOneNamespaceIsEnough(t *testing.T) {
	grant(t)
	e := newElsewhereTest(t, small, func(c *controlplanev1.KOKControlPlane) { c.Spec.Version = "v1.35.4" })
	e.host.replaces = true
	e.host.keepWorking()
	account := client.ObjectKey{Namespace: e.key.Namespace, Name: hostAccount}
	old := e.other.oldToken(t, account, time.Now().Add(15*time.Minute))
	e.user.Token = old
	e.writeKubeconfig("old")
	g := &gate{}
	stop := startManagerThatAsks(t, g, healthyEtcd)
	eventually(t, "its token is renewed", func() bool { return e.held() != old })
	eventually(t, "it is available", e.available)
	t.Run("whose token does not reach beyond it", func(t *testing.T) { e.reachesNoFurther(t) })

	edit(t, e.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Version = "v1.36.3" })
	eventually(t, "it is upgraded", func() bool {
		versions := e.controlPlane().Status.Versions
		return e.available() && len(versions) == 1 && versions[0].Version == "v1.36.3"
	})
	comesToRest(t, g)
	e.delete(e.controlPlane())
	eventually(t, "it is gone", func() bool {
		return apierrors.IsNotFound(environment.Client.Get(t.Context(), e.key, &controlplanev1.KOKControlPlane{}))
	})
	if left := e.thereNow(); len(left) > 0 {
		t.Errorf("there are left %v", left)
	}
	stop()
	if forbidden := g.forbidden(); len(forbidden) > 0 {
		t.Errorf("the role does not allow %v", forbidden)
	}
}

func (e *elsewhereTest) reachesNoFurther(t *testing.T) {
	thief, ctx, other := e.other.as(t, e.held()), t.Context(), "other-"+e.key.Namespace
	e.other.admit(t, other, hostAccount)
	metadata := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	claim := func(name, namespace string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metadata(managerNamespace, name), Data: map[string]string{"clusterNamespace": namespace, "clusterName": "blue"}}
	}
	theirs := claim("kok-ports-29990", other)
	theirs.Labels = names.ComponentLabels(client.ObjectKey{Namespace: other, Name: "blue"}, "ports")
	for _, object := range []client.Object{&corev1.Secret{ObjectMeta: metadata(other, "key")}, theirs, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: other}}} {
		if err := e.other.api.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	token := func(namespace, name string) error {
		return thief.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metadata(namespace, name)}, &authenticationv1.TokenRequest{})
	}
	for what, refused := range map[string]error{
		"reads a Secret of another namespace":         thief.Get(ctx, client.ObjectKey{Namespace: other, Name: "key"}, &corev1.Secret{}),
		"lists Secrets of another namespace":          thief.List(ctx, &corev1.SecretList{}, client.InNamespace(other)),
		"lists Secrets of all namespaces":             thief.List(ctx, &corev1.SecretList{}),
		"lists Secrets beside the claims":             thief.List(ctx, &corev1.SecretList{}, client.InNamespace(managerNamespace)),
		"lists ConfigMaps of all namespaces":          thief.List(ctx, &corev1.ConfigMapList{}),
		"lists pods of kube-system":                   thief.List(ctx, &corev1.PodList{}, client.InNamespace("kube-system")),
		"makes a namespace":                           thief.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "more-" + other}}),
		"deletes a node":                              thief.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: other}}),
		"becomes another account":                     token(e.key.Namespace, "default"),
		"becomes the account of another namespace":    token(other, hostAccount),
		"takes away the ports of another namespace":   thief.Delete(ctx, theirs.DeepCopy()),
		"relabels the ports of another namespace":     thief.Patch(ctx, theirs.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":null}}`))),
		"claims ports for another namespace":          thief.Create(ctx, claim("kok-ports-29980", other)),
		"claims ports of a pool for another":          thief.Create(ctx, claim("kok-ports-29980.north", other)),
		"writes another ConfigMap beside the claims":  thief.Create(ctx, claim("kok-kubernetes-versions", e.key.Namespace)),
		"writes a claim of nobody":                    thief.Create(ctx, &corev1.ConfigMap{ObjectMeta: metadata(managerNamespace, "kok-ports-29970")}),
		"gives itself a role in another namespace":    thief.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metadata(other, "more"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kok-host-cluster-tenants"}}),
		"gives itself a role in its own namespace":    thief.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metadata(e.key.Namespace, "more"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}}),
		"reads what cannot be read in any namespaces": thief.List(ctx, &rbacv1.ClusterRoleList{}),
	} {
		if !apierrors.IsForbidden(refused) && !apierrors.IsInvalid(refused) {
			t.Errorf("it %s: %v", what, refused)
		}
	}
	// No tenant has them: blocks begin at multiples of 20.
	for _, noBlock := range []string{"kok-ports-29950", "kok-ports-29950.north"} {
		if err := thief.Create(ctx, claim(noBlock, e.key.Namespace)); err != nil {
			t.Errorf("it cannot claim ports for its own namespace: %v", err)
		}
		if err := thief.Delete(ctx, claim(noBlock, e.key.Namespace)); err != nil {
			t.Errorf("it cannot give back its own ports: %v", err)
		}
	}
}

func TestFinding8ATokenThatCannotBeRenewedSaysSo(t *testing.T) {
	grant(t)
	e := newElsewhereTest(t, small)
	e.host.keepWorking()
	// The role lets only the account of its own name renew its token.
	account := e.other.admit(t, e.key.Namespace, "other")
	way := "kubectl -n " + e.key.Namespace + " create token other --duration=3600s"
	// Of the hour that it lasts less than a sixth is left.
	e.user.Token = e.other.oldToken(t, account, time.Now().Add(8*time.Minute))
	e.writeKubeconfig("ends soon")
	startManagerThatAsks(t, &gate{}, healthyEtcd)
	reconciled := func() string { return conditions.GetMessage(e.controlPlane(), conditionsv1.ReconciledCondition) }
	eventually(t, "it says that the token cannot be renewed", func() bool {
		said := reconciled()
		return strings.Contains(said, "cannot be renewed") && strings.Contains(said, `"other" is forbidden`) && strings.Contains(said, way)
	})
	eventually(t, "it is available all the same", func() bool {
		return conditions.IsTrue(e.controlPlane(), conditionsv1.AvailableCondition)
	})
	e.user.Token = e.other.oldToken(t, account, time.Now().Add(-2*time.Minute))
	e.writeKubeconfig("ended")
	e.lookNow("ended")
	eventually(t, "it says that the token ended", func() bool {
		is := conditions.Get(e.controlPlane(), conditionsv1.AvailableCondition)
		return is.Reason == conditionsv1.HostClusterUnreachableReason && strings.Contains(is.Message, "ended at") && strings.Contains(is.Message, way)
	})
	e.user.Token = e.other.token(t, client.ObjectKey{Namespace: e.key.Namespace, Name: hostAccount})
	e.writeKubeconfig("new")
	e.lookNow("new")
	eventually(t, "it goes on with another token", e.available)
}

func TestFinding8AnAccountWithoutRightsIsToldTheCommands(t *testing.T) {
	grant(t)
	e := newElsewhereTest(t, small)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.key.Namespace, Name: "nobody"}}
	if err := e.other.api.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	e.user.Token = e.other.token(t, client.ObjectKeyFromObject(account))
	e.writeKubeconfig("without rights")
	startManager(t, &gate{})
	eventually(t, "it says what to apply", e.says(conditionsv1.AvailableCondition, metav1.ConditionUnknown, conditionsv1.HostClusterUnreachableReason,
		"sed 's/NAMESPACE/"+e.key.Namespace+"/' host-cluster-namespace.yaml | kubectl apply -f -"))
}

// Releases before had one account for all namespaces, which made those that were missing. Its tenants go on.
func TestFinding8TheAccountOfAnOlderReleaseGoesOn(t *testing.T) {
	grant(t)
	e := newElsewhereTest(t, small)
	raw, err := os.ReadFile("testdata/older-host-cluster-role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(raw, role); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "older"}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := e.other.api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.other.api.Delete(t.Context(), object) })
	}
	older, err := e.other.server.AddUser(envtest.User{Name: "older"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.user = &clientcmdapi.AuthInfo{ClientCertificateData: older.Config().CertData, ClientKeyData: older.Config().KeyData}
	// In this host cluster nobody made the namespace of the second tenant.
	second := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		small(c)
		c.Spec.Hosting.KubeconfigRef.Name = hostKubeconfig
		c.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: newLoopback(), Port: 6443}
	})
	e.tenantTest = second
	e.writeKubeconfig("older")
	startManager(t, &gate{})
	eventually(t, "its objects are there", func() bool {
		return e.other.api.Get(t.Context(), e.inNamespace(names.KeyMaterial("blue")), &corev1.Secret{}) == nil
	})
	if e.other.api.Get(t.Context(), client.ObjectKey{Name: e.key.Namespace}, &corev1.Namespace{}) != nil {
		t.Error("its namespace was not made")
	}
}
