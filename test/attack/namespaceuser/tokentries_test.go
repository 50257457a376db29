//go:build attack

package namespaceuser

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// kubeconfig leads to a server of the attacker, with what the parameters say of it and of who asks.
func kubeconfig(a *attacker, server *ear, cluster func(*clientcmdapi.Cluster), user func(*clientcmdapi.AuthInfo)) string {
	a.t.Helper()
	c := &clientcmdapi.Cluster{Server: server.URL}
	if server.TLS != nil {
		c.CertificateAuthorityData = server.authority()
	}
	u := &clientcmdapi.AuthInfo{Token: "of-the-attacker"}
	if cluster != nil {
		cluster(c)
	}
	if user != nil {
		*u = clientcmdapi.AuthInfo{}
		user(u)
	}
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"a": c}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"a": u},
		Contexts: map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}}, CurrentContext: "a",
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return string(content)
}

// unsafe are ways in which a kubeconfig makes who reads it give something of its own away.
func unsafe(a *attacker, manager *provider) map[string]struct {
	user      func(*clientcmdapi.AuthInfo)
	cluster   func(*clientcmdapi.Cluster)
	stoppedBy string
} {
	type way = struct {
		user      func(*clientcmdapi.AuthInfo)
		cluster   func(*clientcmdapi.Cluster)
		stoppedBy string
	}
	return map[string]way{
		"the file of its token":                 {user: func(u *clientcmdapi.AuthInfo) { u.TokenFile = manager.tokenFile }, stoppedBy: "tokenFile is refused"},
		"the file of its token, beside a token": {user: func(u *clientcmdapi.AuthInfo) { u.Token, u.TokenFile = "a", manager.tokenFile }, stoppedBy: "tokenFile is refused"},
		"a program": {user: func(u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{
				APIVersion: "client.authentication.k8s.io/v1", Command: "touch", Args: []string{a.ran}, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}
		}, stoppedBy: "exec is refused"},
		"an auth provider": {user: func(u *clientcmdapi.AuthInfo) { u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "oidc"} }, stoppedBy: "auth-provider is refused"},
		"a file as its certificate": {user: func(u *clientcmdapi.AuthInfo) {
			u.ClientCertificate, u.ClientKey = manager.tokenFile, manager.tokenFile
		},
			stoppedBy: "client-certificate is refused"},
		"a file as its authority": {cluster: func(c *clientcmdapi.Cluster) {
			c.CertificateAuthorityData, c.CertificateAuthority = nil, manager.tokenFile
		},
			stoppedBy: "certificate-authority is refused"},
	}
}

// tenantSecret is the kubeconfig of a Cluster of the attacker.
func (a *attacker) tenantSecret(name, content string) *corev1.Secret {
	secret := a.secret(name+"-kubeconfig", clusterv1.ClusterSecretType, map[string]string{"value": content})
	secret.Labels = map[string]string{clusterv1.ClusterNameLabel: name}
	return secret
}

// elsewhereBy is a control plane in another host cluster.
func elsewhereBy(secret string) edit {
	return func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Hosting.KubeconfigRef.Name = secret
		c.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "192.0.2.1", Port: 6443}
	}
}

// heardOf waits until a server of the attacker was sent something.
func heardOf(a *attacker, server *ear, words string) error {
	eventually(a.t, "the server of the attacker is asked", func(context.Context) error {
		if !holds(server.all(), words) {
			return fmt.Errorf("it was sent %q", server.all())
		}
		return nil
	})
	return nil
}

func TestNoManagerGivesItsTokenAwayAsAHostClustersClient(t *testing.T) {
	a := newAttacker(t)
	// What the attacker themselves puts into a kubeconfig reaches their server.
	control := once(func(a *attacker) error {
		permitted := a.listen(true, refuse)
		secret := a.secret(a.fresh("host"), corev1.SecretTypeOpaque, map[string]string{"value": kubeconfig(a, permitted, nil, nil)})
		a.must(secret)
		if _, err := a.tenant(elsewhereBy(secret.Name)); err != nil {
			return err
		}
		return heardOf(a, permitted, "Bearer of-the-attacker")
	})
	host := func(content func(*attacker, *ear) string, answer http.HandlerFunc) func(*attacker) (client.Object, error) {
		return func(a *attacker) (client.Object, error) {
			secret := a.secret(a.fresh("host"), corev1.SecretTypeOpaque, map[string]string{"value": content(a, a.listen(true, answer))})
			a.must(secret)
			return a.tenant(elsewhereBy(secret.Name))
		}
	}
	tries := map[string]try{}
	for name, way := range unsafe(a, management.managers[0]) {
		tries[name] = try{control: control, stoppedBy: way.stoppedBy, attack: host(func(a *attacker, server *ear) string { return kubeconfig(a, server, way.cluster, way.user) }, refuse)}
	}
	tries["a server that need not prove who it is"] = try{control: control, stoppedBy: "insecure-skip-tls-verify is refused", attack: host(func(a *attacker, server *ear) string {
		return kubeconfig(a, server, func(c *clientcmdapi.Cluster) { c.InsecureSkipTLSVerify, c.CertificateAuthorityData = true, nil }, nil)
	}, refuse)}
	tries["a server without TLS"] = try{control: control, stoppedBy: "server must be an https URL", attack: host(func(a *attacker, _ *ear) string {
		return kubeconfig(a, a.listen(false, refuse), nil, nil)
	}, refuse)}
	inside := a.listen(false, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(marker)) })
	tries["a redirect to what the manager alone reaches"] = try{control: control, stoppedBy: "redirect", attack: host(func(a *attacker, server *ear) string { return kubeconfig(a, server, nil, nil) },
		func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside.URL+r.URL.Path, http.StatusTemporaryRedirect)
		})}
	tries["a proxy"] = try{control: control, stoppedBy: "Proxy Authentication Required", attack: host(func(a *attacker, server *ear) string {
		proxy := a.listen(false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusProxyAuthRequired) })
		return kubeconfig(a, server, func(c *clientcmdapi.Cluster) { c.ProxyURL = proxy.URL }, nil)
	}, refuse)}
	tries["the management cluster itself, with the attacker's own rights"] = try{control: control, stoppedBy: "forbidden", attack: func(a *attacker) (client.Object, error) {
		secret := a.secret(a.fresh("host"), corev1.SecretTypeOpaque, map[string]string{"value": a.ownKubeconfig()})
		a.must(secret)
		return a.tenant(elsewhereBy(secret.Name))
	}}
	a.attempt(t, tries)
	if heard := inside.all(); len(heard) > 0 {
		t.Errorf("the server inside was sent %q", heard)
	}
}

func TestNoManagerGivesItsTokenAwayAsATenantsClient(t *testing.T) {
	a := newAttacker(t)
	control := once(func(a *attacker) error {
		permitted := a.listen(true, refuse)
		worker := a.worker(nothingOf, kubeconfig(a, permitted, nil, nil))
		a.clusterIsUp(worker)
		return heardOf(a, permitted, "Bearer of-the-attacker")
	})
	mayWrite := func(a *attacker) error {
		name := a.fresh("green")
		return a.client.Create(a.t.Context(), a.tenantSecret(name, kubeconfig(a, a.listen(true, refuse), nil, nil)), client.DryRunAll)
	}
	tries := map[string]try{}
	for name, way := range unsafe(a, management.managers[1]) {
		unsafe := func(a *attacker) string { return kubeconfig(a, a.listen(true, refuse), way.cluster, way.user) }
		tries[name] = try{control: mayWrite, stoppedBy: way.stoppedBy, attack: func(a *attacker) (client.Object, error) {
			secret := a.tenantSecret(a.fresh("green"), unsafe(a))
			return secret, a.client.Create(a.t.Context(), secret)
		}}
		tries[name+", later"] = try{control: mayWrite, stoppedBy: way.stoppedBy, attack: func(a *attacker) (client.Object, error) {
			secret := a.tenantSecret(a.fresh("green"), kubeconfig(a, a.listen(true, refuse), nil, nil))
			a.must(secret)
			secret.StringData = map[string]string{"value": unsafe(a)}
			return secret, a.client.Update(a.t.Context(), secret)
		}}
	}
	tokenFile := func(u *clientcmdapi.AuthInfo) { u.TokenFile = management.managers[1].tokenFile }
	tries["the file of its token, by a patch"] = try{control: mayWrite, stoppedBy: "tokenFile is refused", attack: func(a *attacker) (client.Object, error) {
		secret := a.tenantSecret(a.fresh("green"), kubeconfig(a, a.listen(true, refuse), nil, nil))
		a.must(secret)
		return secret, a.client.Patch(a.t.Context(), secret, merge(`{"stringData":{"value":%q}}`, kubeconfig(a, a.listen(true, refuse), nil, tokenFile)))
	}}
	tries["the file of its token, without Cluster API's type and label"] = try{control: mayWrite, stoppedBy: "tokenFile is refused", attack: func(a *attacker) (client.Object, error) {
		secret := a.secret(a.fresh("green")+"-kubeconfig", corev1.SecretTypeOpaque, map[string]string{"value": kubeconfig(a, a.listen(true, refuse), nil, tokenFile)})
		return secret, a.client.Create(a.t.Context(), secret)
	}}
	leads := func(content func(*attacker) string) func(*attacker) (client.Object, error) {
		return func(a *attacker) (client.Object, error) {
			worker := a.worker(nothingOf, content(a))
			a.clusterIsUp(worker)
			return worker, nil
		}
	}
	inside := a.listen(false, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(marker)) })
	for name, lead := range map[string]struct {
		stoppedBy string
		content   func(a *attacker) string
	}{
		"a server that need not prove who it is": {"insecure-skip-tls-verify is refused", func(a *attacker) string {
			return kubeconfig(a, a.listen(true, refuse), func(c *clientcmdapi.Cluster) { c.InsecureSkipTLSVerify, c.CertificateAuthorityData = true, nil }, nil)
		}},
		"a server without TLS": {"server must be an https URL", func(a *attacker) string { return kubeconfig(a, a.listen(false, refuse), nil, nil) }},
		"a proxy": {"proxy-url is refused", func(a *attacker) string {
			proxy := a.listen(false, refuse)
			return kubeconfig(a, a.listen(true, refuse), func(c *clientcmdapi.Cluster) { c.ProxyURL = proxy.URL }, nil)
		}},
		"a redirect to what the manager alone reaches": {"redirect", func(a *attacker) string {
			return kubeconfig(a, a.listen(true, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, inside.URL+r.URL.Path, http.StatusTemporaryRedirect)
			}), nil, nil)
		}},
	} {
		tries[name] = try{control: control, stoppedBy: lead.stoppedBy, attack: leads(lead.content)}
	}
	a.attempt(t, tries)
	if heard := inside.all(); len(heard) > 0 {
		t.Errorf("the server inside was sent %q", heard)
	}
}

// nothingOf leaves a config as it is.
func nothingOf(*bootstrapv1.KOKConfig) {}

// worker is a Machine with its KOKConfig in a Cluster of its own, whose API is where the kubeconfig says.
func (a *attacker) worker(edit func(*bootstrapv1.KOKConfig), content string) *bootstrapv1.KOKConfig {
	a.t.Helper()
	name := a.fresh("green")
	labels := map[string]string{clusterv1.ClusterNameLabel: name}
	cluster := clusterOf(a.namespace, name)
	cluster.Labels = labels
	a.must(cluster)
	a.must(a.tenantSecret(name, content))
	authority := a.secret(name+"-ca", clusterv1.ClusterSecretType, map[string]string{"tls.crt": string(management.tenantConfig.CAData)})
	authority.Labels = labels
	a.must(authority)
	machine := &clusterv1.Machine{ObjectMeta: withLabels(a.meta(name), labels)}
	machine.Spec.ClusterName, machine.Spec.Version = name, "v1.36.3"
	machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KOKConfig", Name: name}
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "IDCMachine", Name: name}
	a.must(machine)
	config := &bootstrapv1.KOKConfig{ObjectMeta: withLabels(a.meta(name), labels)}
	config.OwnerReferences = owned(machine, "Machine")
	edit(config)
	a.must(config)
	return config
}

// clusterIsUp writes what Cluster API's core does once infrastructure and control plane are there.
func (a *attacker) clusterIsUp(worker *bootstrapv1.KOKConfig) {
	a.t.Helper()
	cluster := &clusterv1.Cluster{}
	eventually(a.t, "the Cluster is up", func(ctx context.Context) error {
		if err := management.client.Get(ctx, client.ObjectKeyFromObject(worker), cluster); err != nil {
			return err
		}
		cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: ptr.To(true), ControlPlaneInitialized: ptr.To(true)}
		return management.client.Status().Update(ctx, cluster)
	})
	// A manager whose tenant cannot be had looks again after a while; a Cluster that is gone keeps none busy.
	a.t.Cleanup(func() { _ = management.client.Delete(context.Background(), cluster) })
}
