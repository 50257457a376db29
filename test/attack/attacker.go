package attack

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

var silent = log.New(io.Discard, "", 0)

// patience is how long a request of a try waits for its answer.
const patience = 8 * time.Second

// Attacker administers a tenant and is root on its worker.
type Attacker struct {
	// Config, API and Client are those of an administrator of the tenant.
	Config *rest.Config
	API    *kubernetes.Clientset
	Client client.Client
	// Worker is the host of the tenant's machine, Node its Node.
	Worker *host.Host
	Node   string
	// CA is what canaries are trusted by, as PEM.
	CA []byte
	// certificate is what its own servers show.
	certificate *tls.Certificate

	count atomic.Int64
}

// name is one that no other object of a try has.
func (a *Attacker) name(what string) string {
	return fmt.Sprintf("attack-%s-%s-%d", what, run, a.count.Add(1))
}

// run tells the objects of this process from what an interrupted one left.
var run = strings.ToLower(rand.Text()[:6])

// remove deletes what a try made, however the try went.
func (a *Attacker) remove(ctx context.Context, objects ...client.Object) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for _, object := range objects {
		_ = a.Client.Delete(ctx, object, client.GracePeriodSeconds(0))
	}
}

// get asks the tenant's API server for a path, and gives what came.
func (a *Attacker) get(ctx context.Context, path ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return said(a.API.RESTClient().Get().AbsPath(path...).Do(ctx))
}

// said is an answer, also where it tells of a failure: that is in its body.
func said(result rest.Result) (string, error) {
	body, err := result.Raw()
	status := metav1.Status{}
	if err == nil || len(body) == 0 {
		return string(body), err
	}
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return string(body), fmt.Errorf("%d: %s: %w", status.Code, status.Message, err)
	}
	return string(body), fmt.Errorf("%s: %w", body, err)
}

// forge makes a Node that is none, at an address and with a port that kubelet would have.
func (a *Attacker) forge(ctx context.Context, kind corev1.NodeAddressType, address string, port int32) (*corev1.Node, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.name("node")}}
	if err := a.Client.Create(ctx, node); err != nil {
		return nil, fmt.Errorf("forge a Node: %w", err)
	}
	// Controllers write to it, too.
	base := client.MergeFrom(node.DeepCopy())
	node.Status.Addresses = []corev1.NodeAddress{{Type: kind, Address: address}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = port
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := a.Client.Status().Patch(ctx, node, base); err != nil {
		a.remove(ctx, node)
		return nil, fmt.Errorf("forge the status of a Node: %w", err)
	}
	return node, nil
}

// ListenAt opens listeners in the network of a lab's host, at an address there.
func ListenAt(h *host.Host, address netip.Addr) Listen {
	return func(port uint16) (listener net.Listener, err error) {
		err = h.InNetwork(func() error {
			listener, err = net.Listen("tcp4", netip.AddrPortFrom(address, port).String())
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("listen at %s of %s: %w", address, h.Name, err)
		}
		return listener, nil
	}
}

// eventually asks again while API servers have not heard of what was made.
func (a *Attacker) eventually(ctx context.Context, ask func(context.Context) (string, error)) (answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if answer, err = ask(ctx); !unknownYet(err) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Within waits until something is so, at most for some time. It tells whether it is.
func Within(ctx context.Context, limit time.Duration, holds func() bool) bool {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, limit, true, func(context.Context) (bool, error) { return holds(), nil }) == nil
}

// unknownYet is true for the answer of an API server that has not heard of an object that was made a moment ago.
func unknownYet(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err) && strings.Contains(err.Error(), "available") ||
		errors.Is(err, errNotCalled)
}
