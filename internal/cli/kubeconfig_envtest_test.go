//go:build envtest

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// tenant makes what the provider keeps of a tenant: its kubeconfig, and the pods of its API servers on the host network.
func (s *site) tenant(name, ca string, hosts ...string) {
	s.t.Helper()
	config := clientcmdapi.NewConfig()
	config.CurrentContext = name + "-admin@" + name
	config.Contexts[config.CurrentContext] = &clientcmdapi.Context{Cluster: name, AuthInfo: name + "-admin"}
	config.Clusters[name] = &clientcmdapi.Cluster{Server: "https://10.96.0.7:6443", CertificateAuthorityData: []byte(ca)}
	config.AuthInfos[name+"-admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: []byte("certificate"), ClientKeyData: []byte("a key")}
	content, err := clientcmd.Write(*config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.create(&corev1.Secret{ObjectMeta: s.named(name + "-kubeconfig"), Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": content}})
	for _, host := range hosts {
		pod := &corev1.Pod{ObjectMeta: s.named(name + "-kube-apiserver-" + strings.ReplaceAll(host, ".", "-")), Spec: corev1.PodSpec{
			HostNetwork: true, Containers: []corev1.Container{{
				Name: "kube-apiserver", Image: "registry.k8s.io/kube-apiserver:v1.36.3",
				Ports: []corev1.ContainerPort{{Name: "agents", ContainerPort: 20010, HostPort: 20010}, {Name: "https", ContainerPort: 20000, HostPort: 20000}},
			}},
		}}
		pod.Labels = names.ComponentLabels(client.ObjectKey{Namespace: s.namespace, Name: name}, names.KubeAPIServer)
		s.create(pod)
		pod.Status.HostIP, pod.Status.HostIPs = host, []corev1.HostIP{{IP: host}}
		s.status(pod)
	}
}

// servers are those of a kubeconfig that was written, by their clusters.
func servers(t *testing.T, file string) map[string]string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for name, cluster := range config.Clusters {
		found[name] = cluster.Server + " " + cluster.TLSServerName
	}
	return found
}

func TestAKubeconfigForThisMachineIsWritten(t *testing.T) {
	s := newSite(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	folder := filepath.Join(home, ".kube", "kok")
	blue := filepath.Join(folder, "blue.kubeconfig")
	s.expect(2, []string{"there is no Secret " + s.namespace + "/blue-kubeconfig; choose the Cluster's --namespace"}, "kubeconfig", "blue")

	s.tenant("blue", "ca of blue", "192.0.2.12", "192.0.2.11")
	out := s.expect(0, []string{blue + " is written", "https://192.0.2.11:20000, https://192.0.2.12:20000", "systemctl --user enable --now kok-apiserver-lb@blue"}, "kubeconfig", "blue")
	if strings.Contains(out, "a key") {
		t.Error("the key is told")
	}
	for file, mode := range map[string]os.FileMode{folder: 0o700 | os.ModeDir, blue: 0o600} {
		if info, err := os.Stat(file); err != nil || info.Mode() != mode {
			t.Errorf("%s has %v, not %v: %v", file, info.Mode(), mode, err)
		}
	}
	first := servers(t, blue)
	if len(first) != 3 || !strings.HasPrefix(first["blue"], "https://127.0.0.1:") || first["blue-api-server-002"] != "https://192.0.2.12:20000 kubernetes.default.svc" {
		t.Errorf("servers are %q", first)
	}

	// A second tenant has ports of its own, and none of them moves when the command is run again.
	s.tenant("green", "ca of green")
	s.expect(0, []string{"https://10.96.0.7:6443"}, "kubeconfig", "green")
	green := servers(t, filepath.Join(folder, "green.kubeconfig"))
	if green["green"] == first["blue"] || green["green-api-server-001"] != "https://10.96.0.7:6443 kubernetes.default.svc" {
		t.Errorf("servers are %q beside %q", green, first)
	}
	s.expect(0, nil, "kubeconfig", "blue", "--api-server", "198.51.100.1:443")
	again := servers(t, blue)
	if again["blue"] != first["blue"] || len(again) != 2 || again["blue-api-server-001"] != "https://198.51.100.1:443 kubernetes.default.svc" {
		t.Errorf("servers are %q after %q", again, first)
	}
	s.expect(0, nil, "kubeconfig", "blue", "--port", "16443")
	if moved := servers(t, blue); moved["blue"] != "https://127.0.0.1:16443 " {
		t.Errorf("servers are %q", moved)
	}

	for says, arguments := range map[string][]string{
		"is of another cluster; choose another --name": {"green", "--name", "blue"},
		"has this port or the next":                    {"green", "--port", "16444"},
		"has no port after it":                         {"green", "--port", "65535"},
		"is not address:port":                          {"green", "--api-server", "192.0.2.1"},
		"choose a name like that of a cluster":         {"green", "--name", "../green"},
	} {
		s.expect(2, []string{says}, append([]string{"kubeconfig"}, arguments...)...)
	}
}
