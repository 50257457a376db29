// Package probe finds out when a control plane can be used. It asks all control planes in the same way, whatever
// started them, so that their times can be compared.
package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Interval is the time between two questions.
const Interval = 50 * time.Millisecond

// Dial opens connections.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Client makes a client for readiness paths. As kubelet, it does not verify certificates.
func Client(dial Dial) *http.Client {
	return &http.Client{
		Timeout: 2 * time.Second,
		Transport: &http.Transport{
			DialContext:     dial,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a readiness path tells no secret
		},
	}
}

// Direct dials from this machine.
func Direct() Dial { return (&net.Dialer{Timeout: time.Second}).DialContext }

// URL is what a container's readiness probe asks, with the address of the host that its pod runs on.
func URL(container *corev1.Container, address string) (string, error) {
	if container.ReadinessProbe == nil || container.ReadinessProbe.HTTPGet == nil {
		return "", fmt.Errorf("container %s has no readiness probe by HTTP", container.Name)
	}
	get := container.ReadinessProbe.HTTPGet
	if get.Host != "" {
		address = get.Host
	}
	return strings.ToLower(string(get.Scheme)) + "://" + net.JoinHostPort(address, strconv.Itoa(get.Port.IntValue())) + get.Path, nil
}

// UntilOK asks a URL until the answer is 200.
func UntilOK(ctx context.Context, client *http.Client, url string) error {
	return wait.PollUntilContextCancel(ctx, Interval, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // nobody listens yet
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
}
