package controllers

import (
	"bytes"
	"context"
	"crypto/x509"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/clientcmd"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
)

// issued are the certificates of one tenant, as pods find them.
type issued struct {
	in   *components.Input
	keys *pki.KeyMaterial
	// data of each component's Secret.
	data map[string]map[string][]byte
}

func issue(t *testing.T, cluster, endpoint string, sans ...string) *issued {
	t.Helper()
	of := &issued{data: map[string]map[string][]byte{}}
	of.in = &components.Input{
		Cluster: client.ObjectKey{Namespace: "team", Name: cluster},
		Version: "v1.36.3",
		Network: components.Network{PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/12", "fd00:96::/112"}, DNSDomain: "example.local", APIServerPort: 6443},
		Ports:   ports.Of(20000),
		Addresses: map[string]string{
			cluster + "-kube-apiserver": "10.250.0.10",
			cluster + "-etcd-data-0":    "10.250.0.11", cluster + "-etcd-data-1": "10.250.0.12", cluster + "-etcd-data-2": "fd00:250::13",
			cluster + "-etcd-events-0": "10.250.0.14",
		},
	}
	quota := ptr.To(resource.MustParse("2Gi"))
	storage := controlplanev1.EtcdStorageSpec{Type: controlplanev1.EtcdStorageEmptyDir}
	of.in.Spec.Etcd.Data = controlplanev1.EtcdClusterSpec{Replicas: ptr.To[int32](3), QuotaBackendSize: quota, Storage: storage}
	of.in.Spec.Etcd.Events.EtcdClusterSpec = controlplanev1.EtcdClusterSpec{Replicas: ptr.To[int32](1), QuotaBackendSize: quota, Storage: storage}
	of.in.Spec.KubeControllerManager.Replicas, of.in.Spec.KubeScheduler.Replicas = ptr.To[int32](2), ptr.To[int32](2)
	of.in.Spec.Addons.Konnectivity.Mode = controlplanev1.AddonManaged

	host := fake.NewClientBuilder().Build()
	access := secrets.Access{Cached: host, Live: host, Writer: host}
	store := &pki.Store{Management: access, Host: access}
	keys, err := store.Ensure(t.Context(), pki.Request{
		Cluster: of.in.Cluster, UsedBy: func(context.Context) (string, error) { return "", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	of.keys = keys
	wanted, err := Certificates(of.in, keys, endpoint, sans)
	if err != nil {
		t.Fatal(err)
	}
	issuer := certificates.Issuer{Keys: keys, Clock: clocktesting.NewFakePassiveClock(time.Now())}
	for _, secret := range wanted {
		if _, err := issuer.EnsureLeaves(t.Context(), access, secret); err != nil {
			t.Fatal(err)
		}
		written := &corev1.Secret{}
		if err := host.Get(t.Context(), secret.Key, written); err != nil {
			t.Fatal(err)
		}
		of.data[written.Labels[names.ComponentLabel]] = written.Data
	}
	return of
}

// certificate is a leaf of a component.
func (of *issued) certificate(t *testing.T, component, leaf string) *x509.Certificate {
	t.Helper()
	certificate, err := certs.DecodeCertPEM(of.data[component][leaf+".crt"])
	if err != nil || certificate == nil {
		t.Fatalf("%s of %s: %v", leaf, component, err)
	}
	if _, err := certs.DecodePrivateKeyPEM(of.data[component][leaf+".key"]); err != nil {
		t.Fatalf("key of %s of %s: %v", leaf, component, err)
	}
	return certificate
}

// accepts reports whether who trusts a bundle accepts a certificate for a use.
func accepts(bundle []byte, certificate *x509.Certificate, use x509.ExtKeyUsage) bool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := certificate.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{use}})
	return err == nil
}

const (
	serves = x509.ExtKeyUsageServerAuth
	dials  = x509.ExtKeyUsageClientAuth
)

func TestCertificatesNameStableAddressesOnly(t *testing.T) {
	of := issue(t, "blue", "api.example", "203.0.113.7", "other.example")
	loopback := []string{"127.0.0.1", "::1"}
	for _, test := range []struct {
		component, leaf string
		user            string
		usages          []x509.ExtKeyUsage
		dns, ips        []string
	}{
		{names.EtcdData, "blue-etcd-data-0", "blue-etcd-data-0", components.Both, []string{"localhost", "blue-etcd-data-0", "blue-etcd-data-0.team.svc"}, append([]string{"10.250.0.11"}, loopback...)},
		{names.EtcdData, "blue-etcd-data-2", "blue-etcd-data-2", components.Both, []string{"localhost", "blue-etcd-data-2", "blue-etcd-data-2.team.svc"}, append([]string{"fd00:250::13"}, loopback...)},
		{names.EtcdEvents, "blue-etcd-events-0", "blue-etcd-events-0", components.Both, []string{"localhost", "blue-etcd-events-0", "blue-etcd-events-0.team.svc"}, append([]string{"10.250.0.14"}, loopback...)},
		// etcd compares SANs of a peer with the address that it comes from, which is its node's.
		{names.EtcdData, etcd.PeerClient, "blue-etcd-data", components.Dialing, nil, nil},
		{names.EtcdEvents, etcd.PeerClient, "blue-etcd-events", components.Dialing, nil, nil},
		{names.KubeAPIServer, kubeapiserver.ServerCert, "kube-apiserver", components.Serving,
			[]string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.example.local", "localhost",
				"blue-kube-apiserver", "blue-kube-apiserver.team.svc", "api.example", "other.example"},
			append([]string{"10.250.0.10", "10.96.0.1", "fd00:96::1", "203.0.113.7"}, loopback...)},
		{names.KubeAPIServer, kubeapiserver.EtcdClientCert, "kube-apiserver-etcd-client", components.Dialing, nil, nil},
		{names.KubeAPIServer, kubeapiserver.KubeletClientCert, "kube-apiserver-kubelet-client", components.Dialing, nil, nil},
		{names.KubeAPIServer, kubeapiserver.FrontProxyClientCert, "front-proxy-client", components.Dialing, nil, nil},
		{names.KubeAPIServer, kubeapiserver.KonnectivityServerCert, "konnectivity-server", components.Serving, []string{"localhost", "konnectivity-server"}, loopback},
		{names.KubeAPIServer, kubeapiserver.KonnectivityClientCert, "system:konnectivity-server", components.Dialing, nil, nil},
		{names.KubeControllerManager, components.ServerCert, "kube-controller-manager", components.Serving, []string{"localhost", "kube-controller-manager"}, loopback},
		{names.KubeControllerManager, components.ClientCert, "system:kube-controller-manager", components.Dialing, nil, nil},
		{names.KubeScheduler, components.ServerCert, "kube-scheduler", components.Serving, []string{"localhost", "kube-scheduler"}, loopback},
		{names.KubeScheduler, components.ClientCert, "system:kube-scheduler", components.Dialing, nil, nil},
	} {
		t.Run(test.component+"/"+test.leaf, func(t *testing.T) {
			certificate := of.certificate(t, test.component, test.leaf)
			if certificate.Subject.CommonName != test.user || len(certificate.Subject.Organization) != 0 {
				t.Errorf("it is of %s", certificate.Subject)
			}
			if !sameElements(certificate.DNSNames, test.dns) || !sameElements(texts(certificate.IPAddresses), test.ips) {
				t.Errorf("it names %v and %v", certificate.DNSNames, certificate.IPAddresses)
			}
			if !slices.Equal(certificate.ExtKeyUsage, test.usages) || certificate.IsCA {
				t.Errorf("it is for %v", certificate.ExtKeyUsage)
			}
			lasting := test.leaf == kubeapiserver.KonnectivityServerCert
			if life := certificate.NotAfter.Sub(certificate.NotBefore); (life > 366*24*time.Hour) != lasting {
				t.Errorf("it lives %s", life)
			}
		})
	}
}

func sameElements(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func texts(ips []net.IP) []string {
	var out []string
	for _, ip := range ips {
		out = append(out, ip.String())
	}
	return out
}

func TestTheEndpointIsInTheServingCertificate(t *testing.T) {
	for endpoint, named := range map[string]func(*x509.Certificate) bool{
		"tenant.example": func(c *x509.Certificate) bool { return slices.Contains(c.DNSNames, "tenant.example") },
		"198.51.100.1":   func(c *x509.Certificate) bool { return slices.Contains(texts(c.IPAddresses), "198.51.100.1") },
		"2001:db8::1":    func(c *x509.Certificate) bool { return slices.Contains(texts(c.IPAddresses), "2001:db8::1") },
		"": func(c *x509.Certificate) bool {
			return !slices.Contains(c.DNSNames, "") && !slices.Contains(texts(c.IPAddresses), "<nil>")
		},
	} {
		if certificate := issue(t, "blue", endpoint).certificate(t, names.KubeAPIServer, kubeapiserver.ServerCert); !named(certificate) {
			t.Errorf("for endpoint %q it names %v and %v", endpoint, certificate.DNSNames, certificate.IPAddresses)
		}
	}
}

// Who holds one certificate authority of a tenant must not get at what another one guards, and
// nobody at another tenant.
func TestCertificateAuthoritiesAreKeptApart(t *testing.T) {
	blue, green := issue(t, "blue", ""), issue(t, "green", "")
	data, events := blue.data[names.EtcdData], blue.data[names.EtcdEvents]
	clusterCA, frontProxyCA := blue.keys.ClusterCA.Bundle, blue.keys.FrontProxyCA.Bundle
	apiServer := func(leaf string) *x509.Certificate { return blue.certificate(t, names.KubeAPIServer, leaf) }
	for _, test := range []struct {
		name   string
		bundle []byte
		shown  *x509.Certificate
		use    x509.ExtKeyUsage
		want   bool
	}{
		{"the data etcd lets in kube-apiserver", data[etcd.ClientCAFile], apiServer(kubeapiserver.EtcdClientCert), dials, true},
		{"the events etcd lets in kube-apiserver", events[etcd.ClientCAFile], apiServer(kubeapiserver.EtcdClientCert), dials, true},
		{"kube-apiserver trusts the data etcd", blue.data[names.KubeAPIServer][kubeapiserver.EtcdCAFile], blue.certificate(t, names.EtcdData, "blue-etcd-data-0"), serves, true},
		{"kube-apiserver trusts the events etcd", blue.data[names.KubeAPIServer][kubeapiserver.EtcdCAFile], blue.certificate(t, names.EtcdEvents, "blue-etcd-events-0"), serves, true},
		{"a data member lets in its peers", data[etcd.CAFile], blue.certificate(t, names.EtcdData, etcd.PeerClient), dials, true},
		{"a data member trusts its peers", data[etcd.CAFile], blue.certificate(t, names.EtcdData, "blue-etcd-data-1"), serves, true},
		{"an events member lets in its peers", events[etcd.CAFile], blue.certificate(t, names.EtcdEvents, etcd.PeerClient), dials, true},

		{"the data etcd lets in who has the events CA", data[etcd.ClientCAFile], blue.certificate(t, names.EtcdEvents, etcd.PeerClient), dials, false},
		{"the data etcd lets in an events member", data[etcd.ClientCAFile], blue.certificate(t, names.EtcdEvents, "blue-etcd-events-0"), dials, false},
		{"a data member takes an events member for a peer", data[etcd.CAFile], blue.certificate(t, names.EtcdEvents, etcd.PeerClient), dials, false},
		{"an events member takes a data member for a peer", events[etcd.CAFile], blue.certificate(t, names.EtcdData, etcd.PeerClient), dials, false},
		{"the data etcd lets in a client of the API", data[etcd.ClientCAFile], blue.certificate(t, names.KubeScheduler, components.ClientCert), dials, false},
		{"the data etcd lets in the kubelet client", data[etcd.ClientCAFile], apiServer(kubeapiserver.KubeletClientCert), dials, false},
		{"the data etcd lets in the front proxy", data[etcd.ClientCAFile], apiServer(kubeapiserver.FrontProxyClientCert), dials, false},
		{"the API lets in an etcd client", clusterCA, apiServer(kubeapiserver.EtcdClientCert), dials, false},
		{"the API takes a front proxy for a user", clusterCA, apiServer(kubeapiserver.FrontProxyClientCert), dials, false},
		{"the API takes a user for a front proxy", frontProxyCA, blue.certificate(t, names.KubeScheduler, components.ClientCert), dials, false},
		{"a serving certificate is taken for a user", clusterCA, blue.certificate(t, names.KubeScheduler, components.ServerCert), dials, false},
		{"a client certificate serves", clusterCA, blue.certificate(t, names.KubeScheduler, components.ClientCert), serves, false},

		{"the data etcd lets in another tenant's API server", data[etcd.ClientCAFile], green.certificate(t, names.KubeAPIServer, kubeapiserver.EtcdClientCert), dials, false},
		{"the events etcd lets in another tenant's API server", events[etcd.ClientCAFile], green.certificate(t, names.KubeAPIServer, kubeapiserver.EtcdClientCert), dials, false},
		{"the API lets in another tenant's scheduler", clusterCA, green.certificate(t, names.KubeScheduler, components.ClientCert), dials, false},
		{"another tenant's API server is trusted", clusterCA, green.certificate(t, names.KubeAPIServer, kubeapiserver.ServerCert), serves, false},
		{"another tenant's front proxy is trusted", frontProxyCA, green.certificate(t, names.KubeAPIServer, kubeapiserver.FrontProxyClientCert), dials, false},
	} {
		if got := accepts(test.bundle, test.shown, test.use); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

// No pod gets a key with which it could sign for another component, but the one that signs for nodes.
func TestPodsGetNoMoreKeysThanTheyNeed(t *testing.T) {
	of := issue(t, "blue", "")
	for _, component := range registry.Components {
		for _, key := range []string{"ca.key", "etcd-ca.key", "front-proxy-ca.key", "encryption-key"} {
			if _, there := of.data[component.Name][key]; there {
				t.Errorf("the Secret of %s holds %s", component.Name, key)
			}
		}
		for name, keys := range mountedKeyMaterial(t, of, component) {
			for _, key := range keys {
				signs := key == pki.CAKey && component.Name == names.KubeControllerManager
				if strings.HasSuffix(key, ".key") && key != pki.ServiceAccountKey && !signs || key == pki.EncryptionKey {
					t.Errorf("%s mounts %s of %s", component.Name, key, name)
				}
			}
		}
	}
}

// mountedKeyMaterial are the data keys of the key material that a component's pods mount, by volume.
func mountedKeyMaterial(t *testing.T, of *issued, component components.Component) map[string][]string {
	t.Helper()
	mounted := map[string][]string{}
	for _, volume := range podOf(t, of, component).Volumes {
		for _, secret := range secretsIn(volume) {
			if secret.Name != names.KeyMaterial(of.in.Cluster.Name) {
				continue
			}
			if len(secret.Items) == 0 {
				t.Errorf("%s mounts all key material", component.Name)
			}
			mounted[volume.Name] = []string{}
			for _, item := range secret.Items {
				mounted[volume.Name] = append(mounted[volume.Name], item.Key)
			}
		}
	}
	return mounted
}

// secretsIn are the Secrets of which a volume is made.
func secretsIn(volume corev1.Volume) []corev1.SecretProjection {
	var secrets []corev1.SecretProjection
	if s := volume.Secret; s != nil {
		secrets = append(secrets, corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: s.SecretName}, Items: s.Items})
	}
	if volume.Projected != nil {
		for _, source := range volume.Projected.Sources {
			secrets = append(secrets, *source.Secret)
		}
	}
	return secrets
}

func podOf(t *testing.T, of *issued, component components.Component) corev1.PodSpec {
	t.Helper()
	return podTemplateOf(t, of, component).Spec
}

func podTemplateOf(t *testing.T, of *issued, component components.Component) *corev1.PodTemplateSpec {
	t.Helper()
	objects, err := component.Objects(component.Inputs(of.in))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if template := patches.PodTemplate(object); template != nil {
			return template
		}
	}
	t.Fatalf("%s has no workload", component.Name)
	return nil
}

// Every file that a command line, a configuration or a kubeconfig names is in what the pod mounts.
func TestFilesThatComponentsNameExist(t *testing.T) {
	of := issue(t, "blue", "")
	for _, component := range registry.Components {
		t.Run(component.Name, func(t *testing.T) {
			pod := podOf(t, of, component)
			text := strings.Join(pod.Containers[0].Args, "\n")
			text += "\n" + string(of.data[component.Name][components.KubeconfigFile])
			for _, cluster := range etcd.All {
				if cluster.Component == component.Name {
					config, err := cluster.Config(of.in, etcd.Membership{})
					if err != nil {
						t.Fatal(err)
					}
					text += "\n" + strings.Join(slices.Collect(maps.Values(config.Data)), "\n")
				}
			}
			of.mustMount(t, component, pod, pod.Containers[0], text)
			for _, sidecar := range pod.InitContainers {
				of.mustMount(t, component, pod, sidecar,
					strings.Join(sidecar.Args, "\n")+"\n"+string(of.data[component.Name][kubeapiserver.KonnectivityKubeconfigFile]))
			}
		})
	}
}

// mustMount wants every file that a text names to be in what a container mounts.
func (of *issued) mustMount(t *testing.T, component components.Component, pod corev1.PodSpec, container corev1.Container, text string) {
	t.Helper()
	directories := map[string][]string{}
	for _, mount := range container.VolumeMounts {
		directories[mount.MountPath] = of.files(t, component, pod, mount.Name)
	}
	named := 0
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("=, \n\"", r) }) {
		i := strings.LastIndex(word, "/")
		if !strings.HasPrefix(word, "/etc/") || strings.Contains(word, "$(") {
			continue
		}
		named++
		if !slices.Contains(directories[word[:i]], word[i+1:]) {
			t.Errorf("%s names %s and does not mount it; in %s are %v", container.Name, word, word[:i], directories[word[:i]])
		}
	}
	if named == 0 {
		t.Errorf("%s names no file", container.Name)
	}
}

// files are the names of the files in a volume of a component's pods.
func (of *issued) files(t *testing.T, component components.Component, pod corev1.PodSpec, volume string) []string {
	t.Helper()
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == volume })
	if i < 0 {
		return nil
	}
	switch v := pod.Volumes[i]; {
	case v.Projected != nil:
		var files []string
		for _, source := range v.Projected.Sources {
			for _, item := range source.Secret.Items {
				of.mustHold(t, component, source.Secret.Name, item.Key)
				files = append(files, item.Path)
			}
		}
		return files
	case v.Secret != nil && v.Secret.SecretName == names.Certs(of.in.Cluster.Name, component.Name):
		return slices.Collect(maps.Keys(of.data[component.Name]))
	case v.Secret != nil && v.Secret.SecretName == names.KeyMaterial(of.in.Cluster.Name):
		var files []string
		for _, item := range v.Secret.Items {
			files = append(files, item.Path)
		}
		return files
	case v.ConfigMap != nil && component.Name == names.KubeAPIServer:
		objects, err := component.Objects(of.in)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			if config, ok := object.(*corev1.ConfigMap); ok && config.Name == v.ConfigMap.Name {
				return slices.Collect(maps.Keys(config.Data))
			}
		}
	}
	return nil
}

// mustHold wants a Secret of certificates to have a key: kubelet starts no pod that mounts what is missing.
func (of *issued) mustHold(t *testing.T, component components.Component, secret, key string) {
	t.Helper()
	if _, there := of.data[component.Name][key]; !there && secret == names.Certs(of.in.Cluster.Name, component.Name) {
		t.Errorf("%s mounts %s of Secret %s, where it is not", component.Name, key, secret)
	}
}

func TestComponentsDialTheAPIServersServiceByItsName(t *testing.T) {
	of := issue(t, "blue", "tenant.example")
	serving := of.certificate(t, names.KubeAPIServer, kubeapiserver.ServerCert)
	for _, component := range []string{names.KubeControllerManager, names.KubeScheduler} {
		config, err := clientcmd.Load(of.data[component][components.KubeconfigFile])
		if err != nil {
			t.Fatal(err)
		}
		cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
		if cluster.Server != "https://10.250.0.10:6443" {
			t.Errorf("%s dials %s", component, cluster.Server)
		}
		if err := serving.VerifyHostname(cluster.TLSServerName); err != nil {
			t.Errorf("%s expects a server that kube-apiserver is not: %v", component, err)
		}
		if bytes.Contains(of.data[component][components.KubeconfigFile], []byte("PRIVATE KEY")) {
			t.Errorf("the kubeconfig of %s holds a key: a renewed one would need a restart", component)
		}
	}
}

func TestAServiceRangeThatIsNoneIsRefused(t *testing.T) {
	of := issue(t, "blue", "")
	of.in.Network.ServiceCIDRs = []string{"10.96.0.0"}
	if _, err := Certificates(of.in, of.keys, "", nil); err == nil || !strings.Contains(err.Error(), "spec.clusterNetwork.services.cidrBlocks") {
		t.Errorf("err = %v", err)
	}
}
