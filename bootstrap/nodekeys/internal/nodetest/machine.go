package nodetest

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/node"
)

// Node is the name of the node.
const Node = "w1"

// Machine is a folder with the files of a node.
type Machine struct {
	Folder string
	Paths  node.Paths
}

// NewMachine makes the files of a node whose API server is at an address. Its certificates are by a CA, which it trusts.
func NewMachine(t *testing.T, server string, serverCA []byte, ca CA) Machine {
	t.Helper()
	m := Machine{Folder: t.TempDir()}
	m.Paths = node.Paths{
		Configuration: m.Path("config.yaml"), Kubeconfig: m.Path("kubelet.conf"), BootstrapKubeconfig: m.Path("bootstrap-kubelet.conf"),
		CAFile: m.Path("ca.crt"), LoadBalancer: m.Path("lb.yaml"), Mark: m.Path("mark.json"), Order: m.Path("order"),
	}
	trusted := append(append([]byte{}, serverCA...), ca.PEM...)
	m.write(t, "ca.crt", trusted, 0o644)
	m.write(t, "lb-ca.crt", trusted, 0o640)
	m.write(t, "lb.yaml", []byte("certificateAuthorityFile: "+m.Path("lb-ca.crt")+"\n"), 0o644)
	m.write(t, "config.yaml", []byte("serverTLSBootstrap: true\nauthentication: {x509: {clientCAFile: "+m.Path("ca.crt")+"}}\n"), 0o644)
	current := m.Path("pki/kubelet-client-current.pem")
	m.kubeconfig(t, "kubelet.conf", server, trusted, &clientcmdapi.AuthInfo{ClientCertificate: current, ClientKey: current})
	m.kubeconfig(t, "bootstrap-kubelet.conf", server, trusted, &clientcmdapi.AuthInfo{Token: "abcdef.0123456789abcdef"})
	Must(t, os.Mkdir(m.Path("pki"), 0o700))
	serving := &x509.CertificateRequest{DNSNames: []string{Node}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 7)}}
	for name, request := range map[string]*x509.CertificateRequest{"kubelet-client": {}, "kubelet-server": serving} {
		m.write(t, "pki/"+name+"-first.pem", ca.Pair(t, Node, request), 0o600)
		Must(t, os.Symlink(m.Path("pki/"+name+"-first.pem"), m.Path("pki/"+name+"-current.pem")))
	}
	return m
}

func (m Machine) kubeconfig(t *testing.T, name, server string, ca []byte, user *clientcmdapi.AuthInfo) {
	t.Helper()
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"tenant": {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"user": user},
		Contexts:       map[string]*clientcmdapi.Context{"context": {Cluster: "tenant", AuthInfo: "user", Namespace: "kept"}},
		CurrentContext: "context",
	})
	Must(t, err)
	m.write(t, name, content, 0o600)
}

// Path is a path of the machine.
func (m Machine) Path(name string) string { return filepath.Join(m.Folder, name) }

func (m Machine) write(t *testing.T, name string, content []byte, mode os.FileMode) {
	t.Helper()
	Must(t, os.WriteFile(m.Path(name), content, mode))
	Must(t, os.Chmod(m.Path(name), mode))
}

// Write writes a file of the machine.
func (m Machine) Write(t *testing.T, name, content string) {
	t.Helper()
	m.write(t, name, []byte(content), 0o644)
}

// Read reads a file of the machine.
func (m Machine) Read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(m.Path(name))
	Must(t, err)
	return string(content)
}

// Args are what kubelet is started with.
func (m Machine) Args() []string {
	return []string{"--config=" + m.Paths.Configuration, "--kubeconfig=" + m.Paths.Kubeconfig, "--bootstrap-kubeconfig", m.Paths.BootstrapKubeconfig}
}
