//go:build lab

package registers

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
)

// roundTripper is a function that is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

// deaf has every answer be lost while it is set: what was asked is done nevertheless.
type deaf struct{ atomic.Bool }

func (d *deaf) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && d.Load() {
			_ = response.Body.Close()
			return nil, io.ErrUnexpectedEOF
		}
		return response, err
	})
}

func TestARealAPIServerIsLinearizable(t *testing.T) {
	environment := &envtest.Environment{}
	stop, err := interrupt.Guard(func() error { _, err := environment.Start(); return err }, environment.Stop)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	var answers deaf
	good, losing, away := environment.Config, rest.CopyConfig(environment.Config), rest.CopyConfig(environment.Config)
	losing.Wrap(answers.wrap)
	away.Dial = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	r, err := Start(t.Context(), Options{Name: "test", Servers: []*rest.Config{good, losing, away}, Namespace: metav1.NamespaceDefault, Rate: 50})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Stop() })
	until := func(what string, reached func(Verdict) bool) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			return reached(count(r.History())), nil
		}); err != nil {
			t.Fatalf("%s: %v: %s", what, err, count(r.History()))
		}
	}
	until("writes and reads", func(v Verdict) bool { return v.Writes > 50 && v.Reads > 50 })
	answers.Store(true)
	until("open writes", func(v Verdict) bool { return v.Open > 10 })
	answers.Store(false)
	done := count(r.History()).Reads
	until("reads when answers come again", func(v Verdict) bool { return v.Reads > done+50 })

	history := r.Stop()
	if verdict := Judge(history, time.Minute); verdict.Outcome != Yes {
		t.Errorf("%s", verdict)
	}
	if slices.ContainsFunc(history, func(o Operation) bool { return o.Client >= 2*clients }) {
		t.Error("requests of which none was sent are in the history")
	}
	appeared := func(o Operation) bool {
		return o.Open && slices.ContainsFunc(history, func(read Operation) bool { return !read.Write && read.Register == o.Register && read.Value == o.Value })
	}
	if !slices.ContainsFunc(history, appeared) {
		t.Error("no open write was read: it says nothing of those that happened")
	}

	// The same history with one read that is stale.
	last := slices.IndexFunc(history, func(o Operation) bool {
		return !o.Write && o.Value != "" && o.Called > history[len(history)-1].Called/2
	})
	history[last].Value = ""
	if verdict := Judge(history, time.Minute); verdict.Outcome != No || verdict.Register != history[last].Register {
		t.Errorf("with a stale read: %s", verdict)
	}
}
