package certificates

import (
	"crypto/ecdsa"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/kubeconfig"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
)

const kubeconfigName = "blue-kubeconfig"

func (w *world) kubeconfig(server string) KubeconfigResult {
	w.t.Helper()
	result, err := w.EnsureKubeconfig(w.t.Context(), w.store.Management, KubeconfigRequest{Cluster: cluster, Owner: owner, Server: server})
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func TestEnsureKubeconfigMeetsTheContract(t *testing.T) {
	w := newWorld(t)
	result := w.kubeconfig("https://10.0.0.1:6443")
	if end := w.clock.Now().Add(2 * certs.ClientCertificateRenewalDuration); result.EndsAt.Sub(end).Abs() > time.Minute {
		t.Errorf("EndsAt = %s", result.EndsAt)
	}
	if half := w.clock.Now().Add(certs.ClientCertificateRenewalDuration); !result.Changed || result.RenewAt.Sub(half).Abs() > time.Minute {
		t.Errorf("%+v", result)
	}
	s := w.Get(w.Management, kubeconfigName)
	if s.Type != clusterv1.ClusterSecretType || s.Labels[clusterv1.ClusterNameLabel] != "blue" || len(s.OwnerReferences) != 1 {
		t.Errorf("type %s, labels %v, owners %v", s.Type, s.Labels, s.OwnerReferences)
	}
	content, err := kubeconfig.FromSecret(t.Context(), w.Management, cluster)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://10.0.0.1:6443" || string(config.CAData) != string(w.Keys.ClusterCA.Bundle) {
		t.Errorf("server %s", config.Host)
	}
	certificate, err := certs.DecodeCertPEM(config.CertData)
	if err != nil {
		t.Fatal(err)
	}
	if err := certificate.CheckSignatureFrom(w.Keys.ClusterCA.Certificate); err != nil {
		t.Error(err)
	}
	if _, ok := certificate.PublicKey.(*ecdsa.PublicKey); !ok {
		t.Errorf("key is a %T", certificate.PublicKey)
	}
	if again := w.kubeconfig("https://10.0.0.1:6443"); again.Changed {
		t.Error("not settled")
	}
}

func TestEnsureKubeconfigIsMadeAnewOnlyForAReason(t *testing.T) {
	const server = "https://10.0.0.1:6443"
	for name, test := range map[string]struct {
		edit   func(*world)
		server string
		anew   bool
	}{
		"it was deleted":       {edit: func(w *world) { w.Delete(w.Management, kubeconfigName) }, anew: true},
		"the endpoint changed": {server: "https://10.0.0.2:6443", anew: true},
		"the CA changed":       {edit: func(w *world) { w.Keys.ClusterCA = newWorld(w.t).Keys.ClusterCA }, anew: true},
		"a CA was added": {edit: func(w *world) {
			w.Keys.ClusterCA.Bundle = append(slices.Clone(w.Keys.ClusterCA.Bundle), w.Keys.EtcdCA.Bundle...)
		}, anew: true},
		"half a year passed":    {edit: func(w *world) { w.clock.SetTime(w.clock.Now().Add(leafLife/2 + time.Hour)) }, anew: true},
		"less than half a year": {edit: func(w *world) { w.clock.SetTime(w.clock.Now().Add(leafLife/2 - time.Hour)) }},
		"it cannot be read":     {edit: editKubeconfig(func(s *corev1.Secret) { s.Data["value"] = []byte("{") }), anew: true},
		"it reads a file": {edit: editKubeconfig(func(s *corev1.Secret) {
			s.Data["value"] = []byte(strings.Replace(string(s.Data["value"]), "client-certificate-data:", "tokenFile: /token\n    client-certificate-data:", 1))
		}), anew: true},
		"it is empty":             {edit: editKubeconfig(func(s *corev1.Secret) { s.Data = nil }), anew: true},
		"its labels are gone":     {edit: editKubeconfig(func(s *corev1.Secret) { s.Labels = nil })},
		"a person annotated it":   {edit: editKubeconfig(func(s *corev1.Secret) { s.Annotations = map[string]string{"a": "b"} })},
		"a person added data":     {edit: editKubeconfig(func(s *corev1.Secret) { s.Data["added"] = []byte("b") })},
		"its owner has a new UID": {edit: editKubeconfig(func(s *corev1.Secret) { s.OwnerReferences[0].UID = "old" })},
		"it names another server": {edit: editKubeconfig(func(s *corev1.Secret) {
			s.Data["value"] = []byte(strings.ReplaceAll(string(s.Data["value"]), "10.0.0.1", "10.0.0.9"))
		}), anew: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.kubeconfig(server)
			before := string(w.Get(w.Management, kubeconfigName).Data["value"])
			if test.edit != nil {
				test.edit(w)
			}
			wanted := server
			if test.server != "" {
				wanted = test.server
			}
			w.kubeconfig(wanted)
			after := w.Get(w.Management, kubeconfigName)
			if anew := string(after.Data["value"]) != before; anew != test.anew {
				t.Errorf("made anew: %t", anew)
			}
			if len(after.Data) != 1 {
				t.Errorf("it has %d data keys", len(after.Data))
			}
			if !secrets.Ours(after) || after.OwnerReferences[0].UID != "uid-1" {
				t.Errorf("labels %v, owners %v", after.Labels, after.OwnerReferences)
			}
		})
	}
	t.Run("a person's own stays", func(t *testing.T) {
		w := newWorld(t)
		w.Create(w.Management, kubeconfigName, map[string][]byte{"value": []byte("mine")})
		if w.kubeconfig(server).Changed || string(w.Get(w.Management, kubeconfigName).Data["value"]) != "mine" {
			t.Error("it was written")
		}
	})
}

func TestFinding1AKubeconfigOfAStrangerIsToldOf(t *testing.T) {
	for content, unsafe := range map[string]bool{
		"users: [{name: u, user: {tokenFile: /token}}]": true,
		"users: [{name: u, user: {token: a}}]":          false,
	} {
		w := newWorld(t)
		w.Create(w.Management, kubeconfigName, map[string][]byte{"value": []byte(content)})
		result := w.kubeconfig("https://10.0.0.1:6443")
		if strings.Contains(result.Unsafe, "tokenFile is refused") != unsafe || result.Changed {
			t.Errorf("%s: %+v", content, result)
		}
	}
}

func editKubeconfig(edit func(*corev1.Secret)) func(*world) {
	return func(w *world) { w.Edit(w.Management, kubeconfigName, edit) }
}

func TestComponentKubeconfigNamesFiles(t *testing.T) {
	content, err := ComponentKubeconfig(KubeconfigFile{
		Server: "https://10.0.0.1:20000", User: "system:kube-scheduler",
		CAFile: "/pki/ca.crt", CertFile: "/pki/client.crt", KeyFile: "/pki/client.key",
	})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.ConfirmUsable(*config, ""); err != nil && !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
	current := config.Contexts[config.CurrentContext]
	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	if cluster.Server != "https://10.0.0.1:20000" || cluster.TLSServerName != TenantServerName || cluster.CertificateAuthority != "/pki/ca.crt" ||
		user.ClientCertificate != "/pki/client.crt" || user.ClientKey != "/pki/client.key" || len(user.ClientCertificateData)+len(user.ClientKeyData) > 0 {
		t.Errorf("%s", content)
	}
}

// The kubeconfig works at every API server of each phase: it trusts the CA by which they show certificates, and its own is by the CA that they
// trust.
func TestTheKubeconfigFollowsTheRotationOfTheClusterCA(t *testing.T) {
	const server = "https://10.0.0.1:6443"
	w := newWorld(t)
	w.kubeconfig(server)
	former := w.Keys.ClusterCA
	for _, test := range []struct {
		phase           rotation.Phase
		trusts          int
		byNext, changes bool
	}{
		{rotation.Trusting, 2, false, true},
		{rotation.Using, 2, true, true},
		{rotation.Prepared, 2, true, false},
		{rotation.Dropping, 2, true, false},
		{rotation.Over, 1, true, true},
	} {
		next := w.rotate(pki.ClusterCA, test.phase)
		if got := w.kubeconfig(server).Changed; got != test.changes {
			t.Errorf("%s: it is %t that it was written", test.phase, got)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(w.Get(w.Management, kubeconfigName).Data["value"])
		if err != nil {
			t.Fatal(err)
		}
		trusted, err := cert.ParseCertsPEM(config.CAData)
		if err != nil || len(trusted) != test.trusts || !slices.ContainsFunc(trusted, func(c *x509.Certificate) bool { return c.Equal(next.Certificate) }) {
			t.Errorf("%s: it trusts %d CAs: %v", test.phase, len(trusted), err)
		}
		signer := &former
		if test.byNext {
			signer = next
		}
		leaf, err := certs.DecodeCertPEM(config.CertData)
		if err != nil {
			t.Fatal(err)
		}
		if err := leaf.CheckSignatureFrom(signer.Certificate); err != nil {
			t.Errorf("%s: its certificate is by another CA: %v", test.phase, err)
		}
	}
}
