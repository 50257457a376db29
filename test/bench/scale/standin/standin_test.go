package standin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// selfSigned is a certificate with its key, as PEM.
func selfSigned(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	of, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: of})
}

// served is a Host without a cluster, at some addresses.
func served(t *testing.T, places ...*place) (*Host, []string) {
	t.Helper()
	h := &Host{}
	h.etcds, h.apis = h.newEtcdServer(), h.newAPIServer()
	t.Cleanup(func() { h.etcds.Stop(); _ = h.apis.Close() })
	var addresses []string
	for _, at := range places {
		address := loopback.Free(t).String()
		if err := h.listen(address, at); err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, address)
	}
	return h, addresses
}

func TestAManagerFindsAnEtcdOfWhichAllIsWell(t *testing.T) {
	certificate, key := selfSigned(t)
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	members := []string{"blue-etcd-data-0", "blue-etcd-data-1"}
	h, at := served(t, &place{member: &member{names: members, ordinal: 0, certificate: pair}}, &place{member: &member{names: members, ordinal: 1, certificate: pair}})
	config := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}} //nolint:gosec // Of no one else's server.
	addresses := map[string]etcd.Address{members[0]: {Client: "https://" + at[0]}, members[1]: {Client: "https://" + at[1]}}
	health, err := etcd.Check(t.Context(), addresses, config)
	if err != nil {
		t.Fatal(err)
	}
	if problems := health.Problems(); len(problems) > 0 || health.ClusterID == "" || !health.Members[0].Leader || health.Members[1].Leader {
		t.Errorf("it finds %v, and %+v", problems, health)
	}
	hashes, err := etcd.Hashes(t.Context(), health, addresses, config)
	if err != nil || len(hashes) != 2 || !hashes[0].Answered || hashes[0].Sum != hashes[1].Sum {
		t.Errorf("hashes are %+v, %v", hashes, err)
	}
	if apis, etcds := h.Asked(); apis != 0 || etcds != 1 {
		t.Errorf("%d APIs and %d etcds were asked", apis, etcds)
	}
	h.ForgetAsked()
	if _, etcds := h.Asked(); etcds != 0 {
		t.Error("it does not forget who was asked")
	}
	if toEtcds, toAPIs := h.Connections(); toEtcds == 0 || toAPIs != 0 {
		t.Errorf("%d connections to etcds and %d to APIs are counted", toEtcds, toAPIs)
	}
}

func TestATenantsAPIKeepsWhatIsApplied(t *testing.T) {
	certificate, key := selfSigned(t)
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	h, at := served(t, &place{api: &api{certificate: pair, objects: map[string][]byte{}}})
	access := &rest.Config{Host: "https://" + at[0], TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertData: certificate, KeyData: key}}
	c, err := tenant.NewClient(access)
	if err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "one", Labels: map[string]string{names.ManagedByLabel: names.ManagedBy}},
		Data:       map[string]string{"a": "b"},
	}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	for _, want := range []bool{true, false} {
		if wrote, err := tenant.Apply(t.Context(), c, []client.Object{object}); err != nil || wrote != want {
			t.Fatalf("it wrote: %t, %v, want %t", wrote, err, want)
		}
	}
	for value, want := range map[string]int{names.ManagedBy: 1, "somebody": 0} {
		listed := &corev1.ConfigMapList{}
		err := c.List(t.Context(), listed, client.InNamespace("kube-system"), client.MatchingLabels{names.ManagedByLabel: value})
		if err != nil || len(listed.Items) != want {
			t.Errorf("%d ConfigMaps are managed by %s: %v", len(listed.Items), value, err)
		}
	}
	if err := c.List(t.Context(), &corev1.NodeList{}); err != nil {
		t.Errorf("list nodes: %v", err)
	}
	if err := tenant.Remove(t.Context(), c, []client.Object{object}); err != nil {
		t.Fatal(err)
	}
	if wrote, err := tenant.Apply(t.Context(), c, []client.Object{object}); err != nil || !wrote {
		t.Errorf("after it was removed it is there: %v", err)
	}
	if apis, _ := h.Asked(); apis != 0 {
		t.Error("it counts as asked before somebody asked whether it is ready")
	}
	if _, toAPIs := h.Connections(); toAPIs == 0 {
		t.Error("no connection is counted")
	}
}

func TestPodsRunOnTheHostNodesOfTheirPortPool(t *testing.T) {
	var nodes []client.Object
	for _, pool := range []string{"north", "south"} {
		for i := range hosts {
			nodes = append(nodes, hostNode(pool, i))
		}
	}
	h := &Host{Cached: fake.NewClientBuilder().WithObjects(nodes...).Build()}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{controlplanev1.PortPoolLabel: "south"}}}
	south := []string{"south-host-0", "south-host-1", "south-host-2"}
	for name, test := range map[string]struct {
		workload client.Object
		want     []string
	}{
		"a DaemonSet":                        {&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: template}}, south},
		"a StatefulSet":                      {&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: template, Replicas: ptr.To[int32](2)}}, south[:2]},
		"a Deployment with more than a node": {&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template, Replicas: ptr.To[int32](4)}}, append(slices.Clone(south), south[0])},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got, err := h.templateOf(t.Context(), test.workload); err != nil || !slices.Equal(got, test.want) {
				t.Errorf("its pods are on %v, not %v: %v", got, test.want, err)
			}
		})
	}
}
