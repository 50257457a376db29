package node_test

import (
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/internal/nodetest"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
)

// edit changes kubelet's kubeconfig.
func edit(t *testing.T, m nodetest.Machine, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(m.Paths.Kubeconfig)
	nodetest.Must(t, err)
	change(config.Clusters["tenant"], config.AuthInfos["user"])
	nodetest.Must(t, clientcmd.WriteToFile(*config, m.Paths.Kubeconfig))
}

// Nodes are set up in more ways than ours. Each gets what is wanted, or the program says why not.
func TestNodesThatOthersSetUp(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*testing.T, nodetest.Machine)
		// files have to have the CAs then.
		files []string
		// asked is how many certificates are asked for.
		asked int
		// problem is a part of what keeps the node from it.
		problem string
	}{
		"by kubeadm without a load balancer": {change: func(t *testing.T, m nodetest.Machine) {
			for _, file := range []string{"bootstrap-kubelet.conf", "lb.yaml", "pki/kubelet-server-current.pem"} {
				nodetest.Must(t, os.Remove(m.Path(file)))
			}
			m.Write(t, "config.yaml", "authentication: {x509: {clientCAFile: "+m.Path("ca.crt")+"}}\n")
		}, files: []string{"ca.crt"}, asked: 1},
		"kubelet's configuration names no CA file": {change: func(t *testing.T, m nodetest.Machine) {
			m.Write(t, "config.yaml", "serverTLSBootstrap: true\n")
		}, files: []string{"ca.crt", "lb-ca.crt"}, asked: 2},
		"the kubeconfig names files by relative paths": {change: func(t *testing.T, m nodetest.Machine) {
			edit(t, m, func(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
				cluster.CertificateAuthority, cluster.CertificateAuthorityData = "ca.crt", nil
				user.ClientCertificate, user.ClientKey = "pki/kubelet-client-current.pem", "pki/kubelet-client-current.pem"
			})
		}, files: []string{"ca.crt", "lb-ca.crt"}, asked: 2},
		"the CA file is a link": {change: func(t *testing.T, m nodetest.Machine) {
			nodetest.Must(t, os.Rename(m.Path("ca.crt"), m.Path("real.crt")))
			nodetest.Must(t, os.Symlink("real.crt", m.Path("ca.crt")))
		}, files: []string{"ca.crt", "real.crt", "lb-ca.crt"}, asked: 2},
		"the serving certificate is the person's": {change: func(t *testing.T, m nodetest.Machine) {
			m.Write(t, "config.yaml", "serverTLSBootstrap: true\ntlsCertFile: /own.crt\n")
		}, files: []string{"ca.crt"}, asked: 1},
		"the client certificate is in the kubeconfig": {change: func(t *testing.T, m nodetest.Machine) {
			edit(t, m, func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
				pair := []byte(m.Read(t, "pki/kubelet-client-current.pem"))
				user.ClientCertificateData, user.ClientKeyData, user.ClientCertificate, user.ClientKey = pair, pair, "", ""
			})
		}, problem: "names no file with kubelet's client certificate"},
		"the client certificate is no link": {change: func(t *testing.T, m nodetest.Machine) {
			nodetest.Must(t, os.Rename(m.Path("pki/kubelet-client-first.pem"), m.Path("pki/kubelet-client-current.pem")))
		}, problem: "is not where kubelet keeps certificates that it renews"},
		"kubelet verifies no API server": {change: func(t *testing.T, m nodetest.Machine) {
			edit(t, m, func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
				cluster.CertificateAuthorityData, cluster.InsecureSkipTLSVerify = nil, true
			})
		}, problem: "insecure-skip-tls-verify"},
		"kubelet's configuration cannot be read": {change: func(t *testing.T, m nodetest.Machine) {
			m.Write(t, "config.yaml", "{")
		}, problem: "read kubelet's configuration"},
		"a CA file is lost": {change: func(t *testing.T, m nodetest.Machine) {
			nodetest.Must(t, os.Remove(m.Path("lb-ca.crt")))
		}, problem: "look for a file with CAs"},
	} {
		t.Run(name, func(t *testing.T) {
			former, next := nodetest.NewCA(t), nodetest.NewCA(t)
			m := nodetest.NewMachine(t, "https://127.0.0.1:1", nil, former)
			test.change(t, m)
			k := m.StartKubelet(t)
			k.Running(t, "")
			api := &tenant{t: t, by: next}
			n, w := start(m, k, api, &faults{}), wanted.Wanted{Trusted: nodetest.Bundle(former, next), Signer: next.PEM}
			if test.problem != "" {
				waits, err := n.Bring(t.Context(), w)
				if err != nil {
					waits = err.Error()
				}
				if !strings.Contains(waits, test.problem) || k.Starts() != 1 {
					t.Errorf("it waits for %q, want %q; kubelet was started %d times", waits, test.problem, k.Starts())
				}
				return
			}
			nodetest.Must(t, bring(t, n, w))
			waitRead(t, m)
			for _, file := range test.files {
				if m.Read(t, file) != string(w.Trusted) {
					t.Errorf("%s has other CAs than those that are wanted", file)
				}
			}
			if len(api.made) != test.asked || k.Starts() != 2 {
				t.Errorf("%d certificates were asked for, want %d; kubelet was started %d times", len(api.made), test.asked, k.Starts())
			}
		})
	}
}
