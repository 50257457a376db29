// Package check checks whether a component works.
package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/units"
)

// Socket is where the container runtime listens.
const Socket = "/run/containerd/containerd.sock"

// Checker runs checks.
type Checker struct {
	Units units.Manager
	// Socket is where the container runtime listens.
	Socket string
	// Interval is the time between two attempts, Steady how long a unit must be active without a new start.
	Interval, Steady time.Duration
}

// New returns a Checker for this machine.
func New(manager units.Manager) *Checker {
	return &Checker{Units: manager, Socket: Socket, Interval: time.Second, Steady: 3 * time.Second}
}

const (
	attemptTimeout = 10 * time.Second
	// DefaultTimeout is that of a check without timeoutSeconds.
	DefaultTimeout = time.Minute
)

// Timeout is how long a check may take.
func Timeout(c bootstrapv1.SoftwareCheck) time.Duration {
	if c.TimeoutSeconds > 0 {
		return time.Duration(c.TimeoutSeconds) * time.Second
	}
	return DefaultTimeout
}

// Wait repeats a check until it succeeds. After its time it returns the last failure.
func (c *Checker) Wait(ctx context.Context, wanted bootstrapv1.SoftwareCheck) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout(wanted))
	defer cancel()
	ticker := time.NewTicker(c.Interval)
	defer ticker.Stop()
	since := &steady{need: c.Steady}
	var last error
	for {
		err := c.once(ctx, wanted, since)
		if err == nil {
			return nil
		}
		// A timeout is no failure of the component. gRPC has a clock of its own, and may report it before the context ends.
		if last == nil || ctx.Err() == nil && status.Code(errors.Unwrap(err)) != codes.DeadlineExceeded {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("check %s did not succeed within %s: %w", wanted.Type, Timeout(wanted), last)
		case <-ticker.C:
		}
	}
}

func (c *Checker) once(ctx context.Context, wanted bootstrapv1.SoftwareCheck, since *steady) error {
	attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	switch wanted.Type {
	case bootstrapv1.CheckCRI:
		return c.cri(attempt)
	case bootstrapv1.CheckHTTP:
		return request(attempt, wanted.URL)
	case bootstrapv1.CheckUnit:
		return c.unit(attempt, wanted.Unit, since)
	}
	return fmt.Errorf("check.type: %q is none of CRI, HTTP and Unit", wanted.Type)
}

// cri requires that the runtime is ready. It does not require a ready network: the cluster configures the CNI plugin later.
func (c *Checker) cri(ctx context.Context) error {
	connection, err := grpc.NewClient("unix://"+c.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	answer, err := runtimeapi.NewRuntimeServiceClient(connection).Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return fmt.Errorf("read the status of %s by CRI: %w", c.Socket, err)
	}
	for _, condition := range answer.GetStatus().GetConditions() {
		if condition.GetType() != runtimeapi.RuntimeReady {
			continue
		}
		if condition.GetStatus() {
			return nil
		}
		return fmt.Errorf("the container runtime is not ready: %s: %s", condition.GetReason(), condition.GetMessage())
	}
	return fmt.Errorf("the container runtime at %s does not say whether it is ready", c.Socket)
}

// client sends requests to the machine itself, without a proxy. It follows no redirects: a component that redirects does not
// work yet.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func request(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 200))
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("%s answers %s: %q", url, response.Status, body)
	}
	return nil
}

// steady notices a unit that is started over and over.
type steady struct {
	need       time.Duration
	invocation string
	from       time.Time
}

var errShort = errors.New("it is active, but not for long enough to be sure of it")

func (c *Checker) unit(ctx context.Context, unit string, since *steady) error {
	state, err := c.Units.State(ctx, unit)
	if err != nil {
		return err
	}
	if state.Active != "active" {
		since.from = time.Time{}
		return fmt.Errorf("%s is %s (%s)", unit, state.Active, state.Sub)
	}
	if since.from.IsZero() || since.invocation != state.Invocation {
		since.from, since.invocation = time.Now(), state.Invocation
	}
	if time.Since(since.from) < since.need {
		return fmt.Errorf("%s: %w", unit, errShort)
	}
	return nil
}
