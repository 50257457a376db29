package certificates

import (
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

var (
	server = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	caller = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	leafs  = client.ObjectKey{Namespace: cluster.Namespace, Name: "blue-kube-apiserver-certs"}
)

func wanted() LeafSecret {
	return LeafSecret{
		Key:    leafs,
		Labels: names.ComponentLabels(cluster, names.KubeAPIServer),
		Leaves: []Leaf{
			{Name: "server", Signer: pki.ClusterCA, CommonName: "kube-apiserver", DNSNames: []string{TenantServerName, "localhost"}, IPs: []net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("127.0.0.1")}, Usages: server},
			{Name: "etcd", Signer: pki.EtcdCA, CommonName: "kube-apiserver", Organizations: []string{"b", "a"}, Usages: caller},
		},
		Files: map[string][]byte{"kubeconfig": []byte("x")},
	}
}

func (w *world) leaves(secret LeafSecret) LeafResult {
	w.t.Helper()
	result, err := w.EnsureLeaves(w.t.Context(), w.store.Host, secret)
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func verify(t *testing.T, data map[string][]byte, leaf Leaf, issuer *pki.CA, at time.Time) *x509.Certificate {
	t.Helper()
	certificate, err := certs.DecodeCertPEM(data[leaf.CertKey()])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(issuer.Certificate)
	options := x509.VerifyOptions{Roots: roots, CurrentTime: at, KeyUsages: leaf.Usages}
	if len(leaf.DNSNames) > 0 {
		options.DNSName = leaf.DNSNames[0]
	}
	if _, err := certificate.Verify(options); err != nil {
		t.Fatalf("%s: %v", leaf.Name, err)
	}
	return certificate
}

func TestEnsureLeavesIssuesWhatVerifies(t *testing.T) {
	w := newWorld(t)
	result := w.leaves(wanted())
	if !result.Changed {
		t.Error("Changed is false")
	}
	if half := w.clock.Now().Add(leafLife / 2); result.RenewAt.Before(half.Add(-time.Hour)) || result.RenewAt.After(half) {
		t.Errorf("RenewAt = %s", result.RenewAt)
	}
	if end := w.clock.Now().Add(leafLife); result.EndsAt.Before(end.Add(-time.Hour)) || result.EndsAt.After(end) {
		t.Errorf("EndsAt = %s", result.EndsAt)
	}
	data := w.Get(w.Host, leafs.Name).Data
	if len(data) != 5 || string(data["kubeconfig"]) != "x" {
		t.Errorf("%d data keys", len(data))
	}
	for i, leaf := range wanted().Leaves {
		issuer := w.Keys.CA(leaf.Signer)
		certificate := verify(t, data, leaf, issuer, w.clock.Now())
		if life := certificate.NotAfter.Sub(certificate.NotBefore); life > leafLife {
			t.Errorf("%s lives %s", leaf.Name, life)
		}
		if certificate.IsCA {
			t.Errorf("%s is a CA", leaf.Name)
		}
		if err := certificate.CheckSignatureFrom(w.Keys.CA([]pki.Signer{pki.EtcdCA, pki.ClusterCA}[i]).Certificate); err == nil {
			t.Errorf("%s verifies by another CA of the same tenant", leaf.Name)
		}
	}
	writes := w.Writes.Load()
	if again := w.leaves(wanted()); again.Changed || !again.RenewAt.Equal(result.RenewAt) || w.Writes.Load() != writes {
		t.Errorf("a second call gives %+v", again)
	}
}

func TestEnsureLeavesReissuesOnlyWhatMust(t *testing.T) {
	replace := func(key, value string) func(*world, *LeafSecret) {
		return func(w *world, _ *LeafSecret) {
			w.Edit(w.Host, leafs.Name, func(s *corev1.Secret) { s.Data[key] = []byte(value) })
		}
	}
	change := func(edit func(*Leaf)) func(*world, *LeafSecret) {
		return func(_ *world, s *LeafSecret) { edit(&s.Leaves[0]) }
	}
	for name, test := range map[string]struct {
		edit    func(*world, *LeafSecret)
		changed []string
	}{
		"the Secret is deleted":     {func(w *world, _ *LeafSecret) { w.Delete(w.Host, leafs.Name) }, []string{"server", "etcd"}},
		"a certificate is missing":  {replace("server.crt", ""), []string{"server"}},
		"a certificate is none":     {replace("server.crt", "hello"), []string{"server"}},
		"a key is missing":          {replace("etcd.key", ""), []string{"etcd"}},
		"a key is none":             {replace("etcd.key", "hello"), []string{"etcd"}},
		"a file is edited":          {replace("kubeconfig", "y"), nil},
		"an unknown file is added":  {replace("more", "y"), nil},
		"a name is added":           {change(func(l *Leaf) { l.DNSNames = append(l.DNSNames, "more") }), []string{"server"}},
		"an address is taken away":  {change(func(l *Leaf) { l.IPs = l.IPs[:1] }), []string{"server"}},
		"the common name changes":   {change(func(l *Leaf) { l.CommonName = "other" }), []string{"server"}},
		"an organization is added":  {change(func(l *Leaf) { l.Organizations = []string{"system:masters"} }), []string{"server"}},
		"a usage is added":          {change(func(l *Leaf) { l.Usages = append(slices.Clone(server), caller...) }), []string{"server"}},
		"the signer changes":        {change(func(l *Leaf) { l.Signer = pki.EtcdEventsCA }), []string{"server"}},
		"a leaf is no longer there": {func(_ *world, s *LeafSecret) { s.Leaves = s.Leaves[:1] }, []string{"etcd"}},
		"labels are taken away": {func(w *world, _ *LeafSecret) {
			w.Edit(w.Host, leafs.Name, func(s *corev1.Secret) { s.Labels = nil })
		}, nil},
		"keys are exchanged": {func(w *world, _ *LeafSecret) {
			w.Edit(w.Host, leafs.Name, func(s *corev1.Secret) {
				s.Data["server.key"], s.Data["etcd.key"] = s.Data["etcd.key"], s.Data["server.key"]
			})
		}, []string{"server", "etcd"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			secret := wanted()
			w.leaves(secret)
			before := w.Get(w.Host, leafs.Name).Data
			test.edit(w, &secret)
			writes := w.Writes.Load()
			if result := w.leaves(secret); !result.Changed || w.Writes.Load() != writes+1 {
				t.Errorf("%+v, %d writes", result, w.Writes.Load()-writes)
			}
			after := w.Get(w.Host, leafs.Name)
			for _, leaf := range []string{"server", "etcd"} {
				if changed := string(before[leaf+".crt"]) != string(after.Data[leaf+".crt"]); changed != slices.Contains(test.changed, leaf) {
					t.Errorf("%s.crt changed: %t", leaf, changed)
				}
			}
			for _, leaf := range secret.Leaves {
				verify(t, after.Data, leaf, w.Keys.CA(leaf.Signer), w.clock.Now())
			}
			if want := 2*len(secret.Leaves) + 1; len(after.Data) != want || after.Labels[names.ComponentLabel] != names.KubeAPIServer {
				t.Errorf("%d data keys, want %d; labels %v", len(after.Data), want, after.Labels)
			}
			if w.leaves(secret).Changed {
				t.Error("not settled")
			}
		})
	}
	t.Run("the order of names changes: nothing", func(t *testing.T) {
		w := newWorld(t)
		secret := wanted()
		w.leaves(secret)
		slices.Reverse(secret.Leaves[0].DNSNames)
		slices.Reverse(secret.Leaves[0].IPs)
		slices.Reverse(secret.Leaves[1].Organizations)
		if w.leaves(secret).Changed {
			t.Error("changed")
		}
	})
	t.Run("the CA was replaced: all of its leaves", func(t *testing.T) {
		w := newWorld(t)
		w.leaves(wanted())
		before := w.Get(w.Host, leafs.Name).Data
		w.Keys.ClusterCA = newWorld(t).Keys.ClusterCA
		w.leaves(wanted())
		after := w.Get(w.Host, leafs.Name).Data
		if string(before["server.crt"]) == string(after["server.crt"]) || string(before["etcd.crt"]) != string(after["etcd.crt"]) {
			t.Error("the wrong leaves changed")
		}
	})
}

func TestEnsureLeavesRenews(t *testing.T) {
	w := newWorld(t)
	due := w.leaves(wanted()).RenewAt
	w.clock.SetTime(due.Add(-time.Second))
	if w.leaves(wanted()).Changed {
		t.Error("renewed before half of the life")
	}
	// A leaf that is younger than the others keeps its bytes when those are renewed.
	w.Edit(w.Host, leafs.Name, func(s *corev1.Secret) { delete(s.Data, "etcd.crt") })
	w.leaves(wanted())
	before := w.Get(w.Host, leafs.Name).Data
	w.clock.SetTime(due)
	result := w.leaves(wanted())
	after := w.Get(w.Host, leafs.Name).Data
	if !result.Changed || string(before["server.crt"]) == string(after["server.crt"]) || string(before["etcd.crt"]) != string(after["etcd.crt"]) {
		t.Errorf("%+v; the wrong leaves changed", result)
	}
	if !result.RenewAt.After(due.Add(leafLife/2 - time.Hour)) {
		t.Errorf("RenewAt = %s", result.RenewAt)
	}
	w.settledLeaves()
}

func (w *world) settledLeaves() {
	w.t.Helper()
	if w.leaves(wanted()).Changed {
		w.t.Error("not settled")
	}
}

func TestALastingLeafEndsWithItsSigner(t *testing.T) {
	w := newWorld(t)
	secret := wanted()
	secret.Leaves = secret.Leaves[:1]
	secret.Leaves[0].Lasting = true
	result := w.leaves(secret)
	certificate := verify(t, w.Get(w.Host, leafs.Name).Data, secret.Leaves[0], &w.Keys.ClusterCA, w.clock.Now())
	if end := w.Keys.ClusterCA.Certificate.NotAfter; !certificate.NotAfter.Equal(end) || !result.RenewAt.IsZero() {
		t.Errorf("NotAfter = %s, RenewAt = %s, the CA's end is %s", certificate.NotAfter, result.RenewAt, end)
	}
	w.clock.SetTime(w.Keys.ClusterCA.Certificate.NotAfter.Add(-time.Hour))
	if w.leaves(secret).Changed {
		t.Error("it was issued anew")
	}
}

// Near the end of a CA no leaf can live longer than it, and none is renewed in vain.
func TestEnsureLeavesNearTheEndOfTheCA(t *testing.T) {
	w := newWorld(t)
	end := w.Keys.ClusterCA.Certificate.NotAfter
	w.clock.SetTime(end.Add(-30 * 24 * time.Hour))
	result := w.leaves(wanted())
	data := w.Get(w.Host, leafs.Name).Data
	if certificate := verify(t, data, wanted().Leaves[0], &w.Keys.ClusterCA, w.clock.Now()); !certificate.NotAfter.Equal(end) {
		t.Errorf("NotAfter = %s, the CA's is %s", certificate.NotAfter, end)
	}
	if !result.RenewAt.IsZero() {
		t.Errorf("RenewAt = %s", result.RenewAt)
	}
	w.clock.SetTime(end.Add(-time.Hour))
	w.settledLeaves()
	w.clock.SetTime(end)
	if _, err := w.EnsureLeaves(t.Context(), w.store.Host, wanted()); err == nil {
		t.Error("an expired CA issued a leaf")
	}
}

func TestEnsureLeavesRefusesWhatCannotBe(t *testing.T) {
	for name, edit := range map[string]func(*LeafSecret){
		"no common name":            func(s *LeafSecret) { s.Leaves[0].CommonName = "" },
		"no usages":                 func(s *LeafSecret) { s.Leaves[0].Usages = nil },
		"an unknown signer":         func(s *LeafSecret) { s.Leaves[0].Signer = "nobody" },
		"a file named like a leaf":  func(s *LeafSecret) { s.Files["server.crt"] = nil },
		"a name that is no DNS one": func(s *LeafSecret) { s.Leaves[0].DNSNames = []string{"ü"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			secret := wanted()
			edit(&secret)
			writes := w.Writes.Load()
			if _, err := w.EnsureLeaves(t.Context(), w.store.Host, secret); err == nil || w.Writes.Load() != writes {
				t.Errorf("err = %v, %d writes", err, w.Writes.Load()-writes)
			}
		})
	}
}

// A cache that is behind must not undo what another writer just did.
func TestEnsureLeavesDecidesWritesOnALiveReading(t *testing.T) {
	w := newWorld(t)
	w.leaves(wanted())
	stale := newWorld(t)
	w.store.Host.Cached = stale.Host
	stale.Create(stale.Host, leafs.Name, map[string][]byte{"server.crt": []byte("old")})
	if result := w.leaves(wanted()); result.Changed {
		t.Error("wrote by a stale cache")
	}
	if n := fmt.Sprint(len(w.Get(w.Host, leafs.Name).Data)); n != "5" {
		t.Errorf("%s data keys", n)
	}
}
