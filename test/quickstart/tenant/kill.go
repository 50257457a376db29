package tenant

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	controlplane "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/processes"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

const (
	// rate is how many requests a second are sent while an API server is killed.
	rate = 20
	// askFor is how long a pod asks the web server meanwhile.
	askFor = 15 * time.Second
)

// Worker is a worker of the tenant from whose inside connections can be opened.
type Worker struct {
	Name string
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// KillAPIServer ends an API server as kill -9 does, and returns the requests that a worker sent until it was
// back: each on a new connection, through the worker's own load balancer. A pod asks the web server that
// Hello left meanwhile, by its name.
func (t *Tenant) KillAPIServer(ctx context.Context, worker Worker) (*load.Requests, error) {
	requests := &load.Requests{}
	err := t.with(ctx, func(tenant *kubernetes.Clientset) error {
		api, err := t.From(ctx, worker)
		if err != nil {
			return err
		}
		job, err := t.startAsking(ctx, tenant)
		if err != nil {
			return err
		}
		asking, stop := context.WithCancel(ctx)
		var done sync.WaitGroup
		done.Go(func() { requests.Run(asking, rate, func(int) kubernetes.Interface { return api }) })
		err = t.killLast(ctx)
		stop()
		done.Wait()
		if err != nil {
			return err
		}
		failures := requests.Failures(0, load.Forever)
		t.Log.Print("%s asked the API %d times through its own load balancer meanwhile: %d failed", worker.Name, requests.Attempts(), len(failures))
		for _, failure := range failures {
			t.Log.Print("  after %s: %v", failure.Took, failure.Err)
		}
		return t.showAsked(ctx, tenant, job)
	})
	return requests, err
}

// From is a client that reaches the API as everything on a worker does, on a new connection each time.
func (t *Tenant) From(ctx context.Context, worker Worker) (kubernetes.Interface, error) {
	_, trust, err := t.access(ctx)
	if err != nil {
		return nil, err
	}
	transport := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: trust, DialContext: worker.Dial, DisableKeepAlives: true})
	return kubernetes.NewForConfig(&rest.Config{Host: "https://" + controlplane.LocalServer, Transport: transport, QPS: -1, Timeout: load.Timeout})
}

// startAsking makes a pod that asks the web server for a while, and waits until it runs.
func (t *Tenant) startAsking(ctx context.Context, tenant *kubernetes.Clientset) (*batchv1.Job, error) {
	job, err := tenant.BatchV1().Jobs(helloNamespace).Create(ctx, helloJob(metav1.ObjectMeta{GenerateName: "ask-on-"}, "ask", helloURL, askFor.String()), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a Job that asks the web server: %w", err)
	}
	return job, t.Log.Wait(ctx, "a pod that asks the web server", timeout, t.next(), func(ctx context.Context) (bool, string, error) {
		now, err := tenant.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return now.Status.Active > 0 && now.Status.Ready != nil && *now.Status.Ready > 0, "its pod does not run yet", nil
	})
}

// killLast kills the last of the API servers.
func (t *Tenant) killLast(ctx context.Context) error {
	pods, err := t.pods(ctx, names.KubeAPIServer)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return fmt.Errorf("no kube-apiserver pod of %s", t.Key)
	}
	return t.Kill(ctx, &pods[len(pods)-1])
}

// Kill ends the API server of a pod as kill -9 does, and waits until kubelet started it again and it is ready.
func (t *Tenant) Kill(ctx context.Context, pod *corev1.Pod) error {
	id, before := APIServer(pod)
	t.Log.Print("$ kill -9 kube-apiserver of pod %s on %s", pod.Name, pod.Spec.NodeName)
	killed, err := processes.Kill(id)
	if err == nil && killed == 0 {
		err = errors.New("it has no process on this machine")
	}
	if err != nil {
		return fmt.Errorf("kill kube-apiserver of pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	return t.Log.Wait(ctx, "the API server on "+pod.Spec.NodeName+" to be back", timeout, t.next(), func(ctx context.Context) (bool, string, error) {
		if err := t.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return false, "", err
		}
		_, now := APIServer(pod)
		return now.RestartCount > before.RestartCount && now.Ready, "kubelet starts it again", nil
	})
}

// APIServer is a pod's kube-apiserver: its container's ID for processes, and its state.
func APIServer(pod *corev1.Pod) (id string, status corev1.ContainerStatus) {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == names.KubeAPIServer {
			_, id, _ := strings.Cut(status.ContainerID, "://")
			return id, status
		}
	}
	return "", corev1.ContainerStatus{}
}

// showAsked waits until the pod is done with asking, and prints how many of its requests failed.
func (t *Tenant) showAsked(ctx context.Context, tenant *kubernetes.Clientset, job *batchv1.Job) error {
	err := t.Log.Wait(ctx, "the pod to be done", timeout, t.next(), func(ctx context.Context) (bool, string, error) {
		now, err := tenant.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return now.Status.Succeeded > 0, "it asks", nil
	})
	if err != nil {
		return err
	}
	node, answer, err := answerOf(ctx, tenant, job)
	if err == nil {
		t.Log.Print("a pod on %s asked %s by name meanwhile: %s", node, helloURL, answer)
	}
	return err
}
