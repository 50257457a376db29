//go:build envtest

package program_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/csr"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/internal/nodetest"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/node"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/servingcertificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/envtest/plain"
)

var (
	environment = &envtest.Environment{}
	api         kubernetes.Interface
)

func TestMain(m *testing.M) {
	nodetest.Main()
	plain.Main(m, environment, func(config *rest.Config) (err error) {
		api, err = kubernetes.NewForConfig(config)
		return err
	})
}

// trustClients has the API server take client certificates by CAs. It reads the file again by itself.
func trustClients(t *testing.T, cas ...nodetest.CA) {
	t.Helper()
	path := filepath.Join(environment.ControlPlane.GetAPIServer().CertDir, "client-cert-auth-ca.crt")
	content, err := os.ReadFile(path)
	nodetest.Must(t, err)
	nodetest.Must(t, os.WriteFile(path, append(content, nodetest.Bundle(cas...)...), 0o600))
}

// allowNodes gives nodes the rights that Kubernetes' authorizer of nodes gives them.
func allowNodes(t *testing.T) {
	t.Helper()
	_, err := api.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "nodes"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}},
	}, metav1.CreateOptions{})
	nodetest.Must(t, err)
}

// approves says what decides on a request: kube-controller-manager on a client's, by the rules of its approver of nodes' own requests
// (pkg/controller/certificates/approver), and the bootstrap provider on a server's.
func approves(t *testing.T, request *certificatesv1.CertificateSigningRequest) bool {
	t.Helper()
	block, _ := pem.Decode(request.Spec.Request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	nodetest.Must(t, err)
	if request.Spec.SignerName == certificatesv1.KubeletServingSignerName {
		decision := servingcertificates.Decide(request, servingcertificates.Cluster{}, servingcertificates.Node{Machine: "m", Addresses: []string{"192.0.2.7"}})
		if decision.Action != servingcertificates.Approve {
			t.Errorf("the bootstrap provider does not approve: %+v", decision)
		}
		return decision.Action == servingcertificates.Approve
	}
	own := request.Spec.Username == parsed.Subject.CommonName && slices.Equal(parsed.Subject.Organization, []string{"system:nodes"}) &&
		len(parsed.DNSNames)+len(parsed.IPAddresses) == 0 &&
		slices.Equal(request.Spec.Usages, []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth})
	if !own {
		t.Errorf("kube-controller-manager does not approve: %+v", request.Spec)
	}
	return own
}

// sign signs each request that has no certificate, by a CA, and returns how many there are in all.
func sign(ctx context.Context, t *testing.T, by nodetest.CA) int {
	t.Helper()
	requests := api.CertificatesV1().CertificateSigningRequests()
	list, err := requests.List(ctx, metav1.ListOptions{})
	nodetest.Must(t, err)
	for i := range list.Items {
		request := &list.Items[i]
		if len(request.Status.Certificate) > 0 || !approves(t, request) {
			continue
		}
		request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
		}}
		request, err = requests.UpdateApproval(ctx, request.Name, request, metav1.UpdateOptions{})
		nodetest.Must(t, err)
		request.Status.Certificate = by.Sign(t, request.Spec.Request)
		_, err = requests.UpdateStatus(ctx, request, metav1.UpdateOptions{})
		nodetest.Must(t, err)
	}
	return len(list.Items)
}

// A kube-controller-manager that has not restarted yet signs by the former CA.
func TestANodeGetsItsCertificatesFromARealAPIServer(t *testing.T) {
	former, next := nodetest.NewCA(t), nodetest.NewCA(t)
	trustClients(t, former, next)
	allowNodes(t)
	server := environment.Config
	m := nodetest.NewMachine(t, "https://"+strings.TrimPrefix(server.Host, "https://"), server.CAData, former)
	k := m.StartKubelet(t)
	n := &node.Node{Paths: m.Paths, Disk: &disk.Disk{Root: "/"}, Find: k.Find, Log: logr.Discard()}
	n.Requests = &csr.Requests{Connect: csr.AsNode(n.Kubeconfig, "test"), Clock: clock.RealClock{}}
	w := wanted.Wanted{Trusted: append(slices.Clone(server.CAData), nodetest.Bundle(former, next)...), Signer: next.PEM, Order: wanted.Order{Rotation: "2030-01-02T03:04:05Z", Step: 2}}

	// until runs the program, beside who signs by a CA, until something is waited for.
	until := func(by nodetest.CA, what string) {
		t.Helper()
		last := ""
		err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			waits, err := n.Bring(ctx, w)
			if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
				return false, nil // The API server has not read the file with CAs again yet, or not heard what nodes may do.
			}
			if err != nil {
				return false, err
			}
			last = waits
			sign(ctx, t, by)
			return what == "" && waits == "" || what != "" && strings.Contains(waits, what), nil
		})
		if err != nil {
			t.Fatalf("%v; it waits for %q, want %q", err, last, what)
		}
	}
	first := m.Read(t, "pki/kubelet-client-current.pem")
	until(former, "does not sign by that one yet")
	if m.Read(t, "pki/kubelet-client-current.pem") != first || k.Starts() != 1 {
		t.Error("a certificate by the former CA was put in place")
	}
	until(next, "")
	for _, name := range []string{"kubelet-client", "kubelet-server"} {
		certificates, err := certutil.ParseCertsPEM([]byte(m.Read(t, "pki/"+name+"-current.pem")))
		nodetest.Must(t, err)
		if err := certificates[0].CheckSignatureFrom(next.Certificate); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if requests := sign(t.Context(), t, next); requests != 3 {
		t.Errorf("%d certificates were asked for, want one that was thrown away, a client's and a server's", requests)
	}
	if k.Starts() != 2 {
		t.Errorf("kubelet was started %d times, want 2", k.Starts())
	}
}
