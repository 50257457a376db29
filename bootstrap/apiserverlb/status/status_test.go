package status

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/docs/metrics"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func report() *Report {
	return &Report{
		Version: "v0.1.0", Server: "https://127.0.0.1:6443", Started: now.Add(-2 * time.Hour), Connections: 3,
		Listeners: []Listener{{Address: "127.0.0.1:6443", Open: 2, Max: 10922}, {Address: "10.96.0.1:443", Open: 1, Max: 10922, MaxPerSource: 1365, Refused: 12}},
		Counters:  Counters{Accepted: 100, Failed: 1, FailedAttempts: 7, Hedged: 2, Probes: 50, ProbeBytesReceived: 9000, ProbeBytesSent: 3000, Reset: 4},
		Discovery: Discovery{Confirmed: true, Changed: now.Add(-time.Minute), BytesReceived: 4096, BytesSent: 512},
		Service:   &Service{Address: "10.96.0.1:443", Taken: true},
		Backends: []Backend{
			{Address: "10.0.0.1:6443", State: "ready", Reason: "answers /readyz", Since: now.Add(-time.Hour), Listed: true, Seed: true, Connections: 2},
			{Address: "10.0.0.2:6443", State: "draining", Reason: "/readyz answers 500", Since: now.Add(-5 * time.Second), Listed: true, Connections: 1, LastError: "/readyz answers 500", LastErrorTime: now},
			{Address: "10.0.0.3:6443", State: "dead", Reason: "refuses connections", Since: now.Add(-5 * time.Minute), Seed: true, LastError: "connection refused", LastErrorTime: now.Add(-12 * 24 * time.Hour)},
		},
	}
}

func serve(t *testing.T, r *Report, alive bool) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(NewServer(func() *Report { return r }, func() bool { return alive }).Handler)
	t.Cleanup(server.Close)
	return server
}

func TestAReportArrivesAsItWasSent(t *testing.T) {
	server := serve(t, report(), true)
	got, err := Fetch(t.Context(), strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(report(), got); diff != "" {
		t.Error(diff)
	}
}

func TestFetchSaysWhomItAsked(t *testing.T) {
	_, err := Fetch(t.Context(), "127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "load balancer at 127.0.0.1:1, is it running?") {
		t.Errorf("got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Fetch(ended, "127.0.0.1:1"); err == nil {
		t.Error("no error after the end")
	}
}

func TestHealthAndReadiness(t *testing.T) {
	none := report()
	none.Backends = none.Backends[1:]
	for name, test := range map[string]struct {
		report *Report
		alive  bool
		path   string
		code   int
	}{
		"ready while one backend is":      {report(), true, "/readyz", http.StatusOK},
		"not ready without one":           {none, true, "/readyz", http.StatusServiceUnavailable},
		"healthy without a ready backend": {none, true, "/healthz", http.StatusOK},
		"not healthy when stuck":          {report(), false, "/healthz", http.StatusServiceUnavailable},
		"nothing else is served":          {report(), true, "/", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			response, err := http.Get(serve(t, test.report, test.alive).URL + test.path)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != test.code {
				t.Errorf("answered %s", response.Status)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	response, err := http.Get(serve(t, report(), true).URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`kok_apiserver_lb_backend_state{backend="10.0.0.2:6443",state="draining"} 1`,
		`kok_apiserver_lb_backend_state{backend="10.0.0.2:6443",state="ready"} 0`,
		`kok_apiserver_lb_backend_connections{backend="10.0.0.1:6443"} 2`,
		`kok_apiserver_lb_discovery_received_bytes_total 4096`,
		`kok_apiserver_lb_probes_received_bytes_total 9000`,
		`kok_apiserver_lb_probes_sent_bytes_total 3000`,
		`kok_apiserver_lb_connections_accepted_total 100`,
		`kok_apiserver_lb_service_address_taken 1`,
		`kok_apiserver_lb_connections_refused_total{listener="10.96.0.1:443"} 12`,
		`kok_apiserver_lb_connections_max{listener="10.96.0.1:443"} 10922`,
		`process_resident_memory_bytes`,
	} {
		if !strings.Contains(string(body), line) {
			t.Errorf("%s is not among the metrics", line)
		}
	}
}

func TestMetricsAreAsTheReferenceSays(t *testing.T) {
	response, err := http.Get(serve(t, report(), true).URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	registered := map[string]metrics.Metric{}
	for name, family := range families {
		registered[name] = metrics.Of(family)
	}
	metrics.Compare(t, metrics.LoadBalancer, registered)
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := report().Print(&out, now); err != nil {
		t.Fatal(err)
	}
	want := `Server:       https://127.0.0.1:6443
Up:           120m, version v0.1.0
Connections:  3 open, 100 accepted, 1 failed, 2 hedged
Listener:     127.0.0.1:6443, 2 of 10922 connections open
Listener:     10.96.0.1:443, 1 of 10922 connections open, at most 1365 from one address, 12 refused beyond that
Discovery:    by EndpointSlice, list of 60s ago, 4096 bytes received
Service:      10.96.0.1:443 is served here

BACKEND         STATE      SINCE   CONNECTIONS   MEMBER         REASON                LAST ERROR
10.0.0.1:6443   ready      60m     2             listed, seed   answers /readyz       -
10.0.0.2:6443   draining   5s      1             listed         /readyz answers 500   /readyz answers 500 (0s ago)
10.0.0.3:6443   dead       5m      0             seed           refuses connections   connection refused (12d ago)
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestDiscoveryIsToldInWords(t *testing.T) {
	for want, d := range map[string]Discovery{
		"seeds and the kept list are used":                        {},
		"seeds and the kept list are used: no identity":           {Problem: "no identity"},
		"by EndpointSlice, list of 60s ago, problem: it is empty": {Confirmed: true, Changed: now.Add(-time.Minute), Problem: "it is empty"},
	} {
		if got := d.summary(func(moment time.Time) string { return duration.HumanDuration(now.Sub(moment)) }); got != want {
			t.Errorf("got %q", got)
		}
	}
}
