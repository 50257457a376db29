// Package client asks API servers without a pause, as the nodes of a tenant would, and counts what failed.
//
// A failed request is one for which client-go, with its built-in handling of Retry-After and no other
// retry, returns an error. Every request has a connection of its own, so that none rides on one that was
// opened in better times.
package client

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// serverName is in every tenant's serving certificate; addresses of nodes are not.
const serverName = "kubernetes.default.svc"

// requestTimeout is that of one request; what takes longer failed.
const requestTimeout = 10 * time.Second

// Dial opens a connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Options say how a tenant's API servers are asked.
type Options struct {
	// Config has the credentials; its Host does not matter.
	Config *rest.Config
	// Addresses are those of the API servers, host and port.
	Addresses []string
	// Dial opens connections, from where the client is thought to stand.
	Dial Dial
	// Namespace exists and may be written to.
	Namespace string
	// Pause is the time between two rounds of a read and a write at one API server.
	Pause time.Duration

	serverName string
}

// Client asks until it is stopped.
type Client struct {
	stop context.CancelFunc
	done sync.WaitGroup

	lock    sync.Mutex
	asked   int
	failed  []string
	answers map[int]int
}

// Start begins to ask every API server.
func Start(ctx context.Context, o Options) (*Client, error) {
	if o.serverName == "" {
		o.serverName = serverName
	}
	ctx, stop := context.WithCancel(ctx)
	c := &Client{stop: stop, answers: map[int]int{}}
	for i, address := range o.Addresses {
		api, err := c.connect(o, address)
		if err != nil {
			stop()
			return nil, err
		}
		name := "journal-" + strconv.Itoa(i)
		_, err = api.CoreV1().ConfigMaps(o.Namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			stop()
			return nil, fmt.Errorf("write the first entry at %s: %w", address, err)
		}
		c.done.Go(func() { c.ask(ctx, api, o, address, name) })
	}
	return c, nil
}

// connect makes a client of one API server that opens a connection for each request.
func (c *Client) connect(o Options, address string) (*kubernetes.Clientset, error) {
	config := rest.CopyConfig(o.Config)
	config.Host, config.ServerName = "https://"+address, o.serverName
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the credentials for %s: %w", address, err)
	}
	transport := &http.Transport{TLSClientConfig: tlsConfig, DialContext: o.Dial, DisableKeepAlives: true}
	return kubernetes.NewForConfig(&rest.Config{
		Host: config.Host, Transport: counting{transport, c}, Timeout: requestTimeout, QPS: -1,
	})
}

func (c *Client) ask(ctx context.Context, api *kubernetes.Clientset, o Options, address, name string) {
	ticker := time.NewTicker(o.Pause)
	defer ticker.Stop()
	for entry := 1; ; entry++ {
		patch := fmt.Sprintf(`{"data":{"entry":"%d"}}`, entry)
		_, err := api.CoreV1().ConfigMaps(o.Namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		c.note(ctx, "write", address, err)
		read, err := api.CoreV1().ConfigMaps(o.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && read.Data["entry"] != strconv.Itoa(entry) {
			err = fmt.Errorf("entry %q was read, %d was written", read.Data["entry"], entry)
		}
		c.note(ctx, "read", address, err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (c *Client) note(ctx context.Context, what, address string, err error) {
	if ctx.Err() != nil {
		return // it was stopped in between
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.asked++
	if err != nil {
		c.failed = append(c.failed, fmt.Sprintf("%s %s at %s: %v", time.Now().UTC().Format("15:04:05.000"), what, address, err))
	}
}

// Result is what came of the requests.
type Result struct {
	Asked  int
	Failed []string
	// Answers counts raw HTTP responses by status, those that client-go tried again included; 0 is for
	// connections that broke.
	Answers map[int]int
}

// String sums it up.
func (r Result) String() string {
	return fmt.Sprintf("%d requests, %d failed, raw answers by status %v", r.Asked, len(r.Failed), r.Answers)
}

// Result is what came of the requests until now.
func (c *Client) Result() Result {
	c.lock.Lock()
	defer c.lock.Unlock()
	return Result{Asked: c.asked, Failed: slices.Clone(c.failed), Answers: maps.Clone(c.answers)}
}

// Stop ends the requests and says what came of them.
func (c *Client) Stop() Result {
	c.stop()
	c.done.Wait()
	return c.Result()
}

// counting counts raw answers.
type counting struct {
	next http.RoundTripper
	c    *Client
}

// RoundTrip implements http.RoundTripper.
func (t counting) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	status := 0
	if err == nil {
		status = response.StatusCode
	}
	if request.Context().Err() == nil {
		t.c.lock.Lock()
		t.c.answers[status]++
		t.c.lock.Unlock()
	}
	return response, err
}
