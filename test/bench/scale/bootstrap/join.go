package main

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/cert"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/tokens"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/manager"
)

const (
	nodeUser   = "system:node:"
	nodesGroup = "system:nodes"
)

// join does what a machine and those who wait for it do: the host is there, kubelet gets both certificates, and the Machine its Node.
func (b *bench) join(ctx context.Context, i int) error {
	name, at := machineKey(i).Name, b.tenants[i%len(b.tenants)].api
	address := net.IPv4(10, byte(i>>16), byte(i>>8), byte(i))
	if err := b.patchMachine(ctx, name, b.stage.Client.Patch, `{"spec":{"providerID":%q,"bootstrap":{"dataSecretName":%q}}}`, providerID(name), name); err != nil {
		return err
	}
	if err := b.patchMachineStatus(ctx, name, `{"status":{"initialization":{"bootstrapDataSecretCreated":true,"infrastructureProvisioned":true},"addresses":[{"type":"InternalIP","address":%q}]}}`, address.String()); err != nil {
		return err
	}
	first := certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		Username: bootstrapapi.BootstrapUserPrefix + b.progress.tokenOf(name), Groups: []string{"system:bootstrappers", tokens.Group, "system:authenticated"},
	}
	if err := b.asks(ctx, i, "first", first, &x509.CertificateRequest{}); err != nil {
		return err
	}
	if err := at.Put(node(name, address)); err != nil {
		return err
	}
	serving := certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeletServingSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		Username: nodeUser + name, Groups: []string{nodesGroup, "system:authenticated"},
	}
	if err := b.asks(ctx, i, "serving", serving, &x509.CertificateRequest{DNSNames: []string{name}, IPAddresses: []net.IP{address}}); err != nil {
		return err
	}
	return b.patchMachineStatus(ctx, name, `{"status":{"nodeRef":{"name":%q}}}`, name)
}

func (b *bench) patchMachine(ctx context.Context, name string, patch func(context.Context, client.Object, client.Patch, ...client.PatchOption) error, format string, values ...any) error {
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: manager.TenantsNamespace, Name: name}}
	if err := patch(ctx, machine, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, values...))); err != nil {
		return fmt.Errorf("patch Machine %s: %w", name, err)
	}
	return nil
}

func (b *bench) patchMachineStatus(ctx context.Context, name, format string, values ...any) error {
	return b.patchMachine(ctx, name, func(ctx context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
		return b.stage.Client.Status().Patch(ctx, object, patch)
	}, format, values...)
}

func providerID(name string) string { return "idc://" + manager.TenantsNamespace + "/" + name }

func node(name string, address net.IP) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}, Spec: corev1.NodeSpec{ProviderID: providerID(name)},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.String()}, {Type: corev1.NodeHostName, Address: name}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// asks makes a request for a certificate, waits until the manager approves it, and has it signed.
func (b *bench) asks(ctx context.Context, i int, what string, spec certificatesv1.CertificateSigningRequestSpec, template *x509.CertificateRequest) error {
	name, at := machineKey(i).Name, b.tenants[i%len(b.tenants)].api
	template.Subject = pkix.Name{CommonName: nodeUser + name, Organization: []string{nodesGroup}}
	var err error
	if spec.Request, err = cert.MakeCSRFromTemplate(b.authority.key, template); err != nil {
		return err
	}
	request := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-" + what + "-" + name}, Spec: spec}
	if err := at.Put(request); err != nil {
		return err
	}
	decided := &certificatesv1.CertificateSigningRequest{}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, limit, false, func(context.Context) (bool, error) {
		*decided = certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: request.Name}}
		_, err := at.Get(decided)
		return len(decided.Status.Conditions) > 0, err
	})
	if err != nil {
		return fmt.Errorf("wait for a decision on the request %s: %w", request.Name, err)
	}
	if is := decided.Status.Conditions[0]; is.Type != certificatesv1.CertificateApproved {
		return fmt.Errorf("the request %s is not approved: %s", request.Name, is.Message)
	}
	decided.Status.Certificate = b.authority.pem
	return at.Put(decided)
}
