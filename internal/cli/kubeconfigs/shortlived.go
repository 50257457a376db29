package kubeconfigs

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os/user"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
)

const (
	// shortest is the shortest life that Kubernetes gives a certificate, and longest the longest that the controller manager signs by
	// default.
	shortest = 10 * time.Minute
	longest  = 365 * 24 * time.Hour
	// signing bounds the wait for the tenant's controller manager to sign.
	signing = time.Minute
	// answering bounds the wait for one API server to take a connection.
	answering = 3 * time.Second
	// masters is the group that needs no RBAC. No API server lets a certificate for it be signed on request.
	masters = "system:masters"
	// userPrefix begins the name of the user of a short-lived kubeconfig.
	userPrefix = "kok:"
)

// wish is what a short-lived kubeconfig shall be good for; zero for the administrator's own.
type wish struct {
	lives  time.Duration
	groups []string
	// file is where it goes for another machine, or - for standard output; empty for this machine.
	file string
}

func (w wish) check() error {
	switch {
	case w.lives == 0 && w.file != "":
		return errors.New("--output is of a short-lived kubeconfig: say how long it shall live by --for; the administrator's is shown by clusterctl get kubeconfig")
	case w.lives == 0 && len(w.groups) == 0:
		return nil
	case w.lives == 0:
		return errors.New("--group is of a short-lived kubeconfig: say how long it shall live by --for, for example 8h")
	case len(w.groups) == 0:
		return errors.New("--for needs a --group that RBAC of the cluster gives rights to, for example by: kubectl create clusterrolebinding operators --clusterrole=cluster-admin --group=operators")
	case w.lives < shortest || w.lives > longest:
		return fmt.Errorf("--for %s is not possible: choose from %s to %s", w.lives, shortest, longest)
	}
	for _, group := range w.groups {
		if group == masters {
			return fmt.Errorf("--group %s: Kubernetes signs nothing for it on request, for nobody could take its rights away; name a group that a ClusterRoleBinding gives rights to", masters)
		}
	}
	return nil
}

// shortLived replaces the user of the kubeconfig that was made by one whose certificate ends soon. The tenant signs it, as the
// administrator of the stored kubeconfig asks: the key never leaves this machine. It says for people when the certificate ends.
func (w wish) shortLived(ctx context.Context, stored, made *clientcmdapi.Config, servers []string) (ends string, err error) {
	tenant, err := tenantOf(stored, servers)
	if err != nil {
		return "", err
	}
	name := userPrefix + personOf()
	key, request, err := w.request(name)
	if err != nil {
		return "", err
	}
	signed, err := w.sign(ctx, tenant, request)
	if err != nil {
		return "", err
	}
	found, err := cert.ParseCertsPEM(signed)
	if err != nil {
		return "", fmt.Errorf("read the certificate that the cluster signed: %w", err)
	}
	made.Contexts[made.CurrentContext].AuthInfo = name
	made.AuthInfos = map[string]*clientcmdapi.AuthInfo{name: {ClientCertificateData: signed, ClientKeyData: key}}
	return fmt.Sprintf(" It is good until %s, for group %s.", found[0].NotAfter.Local().Format(time.RFC1123), strings.Join(w.groups, ", ")), nil
}

// personOf is the name of who runs the command, for the tenant's audit log. It gives no rights.
func personOf() string {
	if who, err := user.Current(); err == nil && who.Username != "" {
		return who.Username
	}
	return "somebody"
}

// tenantOf makes a client of a tenant with the administrator's key. Where API servers are known, it uses the first one that answers.
func tenantOf(stored *clientcmdapi.Config, servers []string) (kubernetes.Interface, error) {
	config, err := clientcmd.NewDefaultClientConfig(*stored, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	if len(servers) > 0 {
		config.Host, config.ServerName, config.Dial = "https://"+servers[0], configuration.DefaultServerName, toFirst(servers)
	}
	config.Timeout = signing
	return kubernetes.NewForConfig(config)
}

// toFirst connects to the first server that answers, and ignores the address that the client asks for. The host node of an earlier server may be off.
func toFirst(servers []string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		var errs []error
		for _, server := range servers {
			connection, err := (&net.Dialer{Timeout: answering}).DialContext(ctx, network, server)
			if err == nil {
				return connection, nil
			}
			errs = append(errs, err)
		}
		return nil, errors.Join(errs...)
	}
}

// request makes a key, and the request to sign a certificate for it, both in PEM.
func (w wish) request(name string) (key, request []byte, err error) {
	if key, err = keyutil.MakeEllipticPrivateKeyPEM(); err != nil {
		return nil, nil, err
	}
	private, err := keyutil.ParsePrivateKeyPEM(key)
	if err != nil {
		return nil, nil, err
	}
	request, err = cert.MakeCSR(private, &pkix.Name{CommonName: name, Organization: w.groups}, nil, nil)
	return key, request, err
}

// sign has the tenant sign a request, and deletes what it took for that.
func (w wish) sign(ctx context.Context, tenant kubernetes.Interface, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, signing)
	defer cancel()
	usages := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	name, uid, err := csr.RequestCertificateWithContext(ctx, tenant, request, "", certificatesv1.KubeAPIServerClientSignerName, &w.lives, usages, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the cluster for a certificate: %w", err)
	}
	requests := tenant.CertificatesV1().CertificateSigningRequests()
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), signing)
		defer cancel()
		_ = requests.Delete(ending, name, metav1.DeleteOptions{}) // The cluster deletes what is left after an hour.
	}()
	made, err := requests.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read CertificateSigningRequest %s: %w", name, err)
	}
	made.Status.Conditions = append(made.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Kubeconfig", Message: "An administrator ran kok kubeconfig --for",
	})
	if _, err := requests.UpdateApproval(ctx, name, made, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("approve CertificateSigningRequest %s: %w", name, err)
	}
	signed, err := csr.WaitForCertificate(ctx, tenant, name, uid)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("the cluster did not sign CertificateSigningRequest %s within %s: its controller manager signs, see whether it runs", name, signing)
	case err != nil:
		return nil, fmt.Errorf("wait for CertificateSigningRequest %s to be signed: %w", name, err)
	}
	return signed, nil
}
