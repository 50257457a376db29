//go:build attack

package namespaceuser

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/daemon"
)

// provider is one of the three, with its manager.
type provider struct {
	name, namespace string
	// token is that of the manager's service account; tokenFile is where it has it, as in a pod.
	token, tokenFile string
	hooks            envtest.WebhookInstallOptions
	program          *daemon.Daemon
}

// start starts the manager's own program, and returns when its webhooks are served.
func (p *provider) start(ctx context.Context, s *stage) error {
	p.tokenFile = filepath.Join(s.folder, p.name+"-token")
	if err := os.WriteFile(p.tokenFile, []byte(p.token), 0o600); err != nil {
		return err
	}
	kubeconfig := filepath.Join(s.folder, p.name+"-kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"a": {Server: s.config.Host, CertificateAuthorityData: s.config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": {TokenFile: p.tokenFile}},
		Contexts:       map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}},
		CurrentContext: "a",
	}, kubeconfig); err != nil {
		return err
	}
	arguments := []string{
		filepath.Join(s.folder, p.name), "--kubeconfig=" + kubeconfig, "--health-addr=127.0.0.1:0", "--diagnostics-address=127.0.0.1:0",
		"--webhook-port=" + strconv.Itoa(p.hooks.LocalServingPort), "--webhook-cert-dir=" + p.hooks.LocalServingCertDir,
	}
	if p.name == "controlplane" {
		arguments = append(arguments, "--host-port-namespace="+p.namespace, "--kubernetes-versions-namespace="+p.namespace)
	}
	var err error
	if p.program, err = daemon.Start(p.log(s), arguments...); err != nil {
		return err
	}
	address := net.JoinHostPort(p.hooks.LocalServingHost, strconv.Itoa(p.hooks.LocalServingPort))
	return p.program.While(ctx, func(ctx context.Context) error {
		return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // Whether it listens is asked, no more.
			connection, err := dialer.DialContext(ctx, "tcp", address)
			if err != nil {
				return false, nil //nolint:nilerr // It does not listen yet.
			}
			return true, connection.Close()
		})
	})
}

func (p *provider) log(s *stage) string { return filepath.Join(s.folder, p.name+".log") }

func (p *provider) stop() {
	if p.program != nil {
		p.program.Kill()
	}
	_ = p.hooks.Cleanup() // It removes its own files alone.
}

// ended says which manager has ended; empty for none.
func (s *stage) ended() string {
	for _, manager := range s.managers {
		select {
		case <-manager.program.Done():
			return fmt.Sprintf("the manager of %s ended, its log is %s", manager.name, manager.log(s))
		default:
		}
	}
	return ""
}
