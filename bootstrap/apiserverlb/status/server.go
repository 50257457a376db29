package status

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// longestReport is how much of a report is read.
const longestReport = 4 << 20

// NewServer returns a server of /status, /metrics, /healthz and /readyz. report makes the present report. alive is false when
// the program is stuck.
func NewServer(report func() *Report, alive func() bool) *http.Server {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{report}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(report())
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, alive(), "this program is stuck")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, report().Ready() > 0, "no backend is ready")
	})
	return &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
}

func answer(w http.ResponseWriter, good bool, problem string) {
	if !good {
		http.Error(w, problem, http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// Fetch reads the report of the program whose status address is given.
func Fetch(ctx context.Context, address string) (*Report, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/status", http.NoBody)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{}).DialContext, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read the status of the load balancer at %s, is it running? %w", address, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read the status of the load balancer at %s: it answers %s", address, response.Status)
	}
	report := &Report{}
	if err := json.NewDecoder(io.LimitReader(response.Body, longestReport)).Decode(report); err != nil {
		return nil, fmt.Errorf("read the report of the load balancer at %s: %w", address, err)
	}
	return report, nil
}
