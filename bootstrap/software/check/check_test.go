package check

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/units"
)

// containerRuntime answers as a container runtime.
type containerRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	conditions []*runtimeapi.RuntimeCondition
}

func (c *containerRuntime) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: c.conditions}}, nil
}

func runtimeWith(t *testing.T, conditions ...*runtimeapi.RuntimeCondition) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, &containerRuntime{conditions: conditions})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return socket
}

func condition(kind string, status bool) *runtimeapi.RuntimeCondition {
	return &runtimeapi.RuntimeCondition{Type: kind, Status: status, Reason: "Why"}
}

func checker() *Checker { return &Checker{Interval: time.Millisecond} }

// until bounds a check that has to fail. One that has to work has the time that it has by default.
func until(want string, c bootstrapv1.SoftwareCheck) bootstrapv1.SoftwareCheck {
	if want != "" {
		c.TimeoutSeconds = 1
	}
	return c
}

func TestCRI(t *testing.T) {
	for name, c := range map[string]struct {
		conditions []*runtimeapi.RuntimeCondition
		want       string
	}{
		"a runtime that is ready works without network": {[]*runtimeapi.RuntimeCondition{condition("RuntimeReady", true), condition("NetworkReady", false)}, ""},
		"one that is not ready does not work":           {[]*runtimeapi.RuntimeCondition{condition("RuntimeReady", false)}, "is not ready: Why"},
		"one that does not say it does not work":        {nil, "does not say whether it is ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checker := checker()
			checker.Socket = runtimeWith(t, c.conditions...)
			err := checker.Wait(t.Context(), until(c.want, bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckCRI}))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Error(err)
			}
		})
	}
	t.Run("one that does not listen does not work", func(t *testing.T) {
		checker := checker()
		checker.Socket = filepath.Join(t.TempDir(), "none")
		err := checker.Wait(t.Context(), until("no such file", bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckCRI}))
		if err == nil || !strings.Contains(err.Error(), "did not succeed within 1s") || !strings.Contains(err.Error(), "no such file") {
			t.Error(err)
		}
	})
}

func TestHTTP(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/later" && asked.Add(1) < 3, r.URL.Path == "/never":
			http.Error(w, "starting", http.StatusServiceUnavailable)
		case r.URL.Path == "/elsewhere":
			http.Redirect(w, r, "/", http.StatusFound)
		}
	}))
	t.Cleanup(server.Close)
	for path, want := range map[string]string{"/": "", "/later": "", "/never": `answers 503 Service Unavailable: "starting\n"`, "/elsewhere": "answers 302"} {
		err := checker().Wait(t.Context(), until(want, bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckHTTP, URL: server.URL + path}))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// answers are states of a unit, one after the other; the last stays.
type answers struct {
	units.Manager
	states []units.State
	asked  int
}

func (a *answers) State(context.Context, string) (units.State, error) {
	a.asked++
	return a.states[min(a.asked, len(a.states))-1], nil
}

func TestUnit(t *testing.T) {
	active := func(invocation string) units.State {
		return units.State{Active: "active", Sub: "running", Invocation: invocation}
	}
	var restarting []units.State
	for i := range 1_000_000 {
		restarting = append(restarting, active(string(rune('a'+i%2))))
	}
	for name, c := range map[string]struct {
		states []units.State
		want   string
	}{
		"one that is active works":                       {[]units.State{active("a")}, ""},
		"one that becomes active works":                  {[]units.State{{Active: "activating"}, active("a")}, ""},
		"one that failed does not work":                  {[]units.State{{Active: "failed", Sub: "failed"}}, "kubelet.service is failed (failed)"},
		"one that starts over and over does not work":    {restarting, "not for long enough"},
		"one that was active for a moment does not work": {[]units.State{active("a"), {Active: "activating", Sub: "auto-restart"}}, "is activating (auto-restart)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checker := checker()
			checker.Units, checker.Steady = &answers{states: c.states}, 50*time.Millisecond
			err := checker.Wait(t.Context(), until(c.want, bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckUnit, Unit: "kubelet.service"}))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Error(err)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	for seconds, want := range map[int32]time.Duration{0: time.Minute, 5: 5 * time.Second} {
		if got := Timeout(bootstrapv1.SoftwareCheck{TimeoutSeconds: seconds}); got != want {
			t.Errorf("%d: %s", seconds, got)
		}
	}
}
