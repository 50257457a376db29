//go:build envtest

package templates

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"syscall"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/daemon"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// startManager starts Cluster API's manager and waits until it is ready and shows its metrics. It ends with the management cluster.
func (m *management) startManager(t *testing.T) {
	t.Helper()
	health, metrics := loopback.Free(t).String(), loopback.Free(t).String()
	m.metrics = "http://" + metrics + "/metrics"
	arguments := []string{
		m.program, "--kubeconfig=" + m.path("kubeconfig"), "--feature-gates=ClusterTopology=true",
		// What it watches is reconciled every second, with and without a change.
		"--sync-period=1s",
		"--health-addr=" + health, "--diagnostics-address=" + metrics, "--insecure-diagnostics",
		"--webhook-port=" + strconv.Itoa(m.hooks.LocalServingPort), "--webhook-cert-dir=" + m.hooks.LocalServingCertDir,
	}
	var manager *daemon.Daemon
	var err error
	m.kill, err = interrupt.Guard(func() (err error) {
		manager, err = daemon.Start(m.path("manager.log"), arguments...)
		return err
	}, func() error {
		if manager != nil {
			manager.Kill()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	m.manager = manager
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	requests := probe.Client(probe.Direct())
	defer requests.CloseIdleConnections()
	if err := m.manager.While(ctx, func(ctx context.Context) error {
		// The listeners start side by side: that one answers says nothing of the other.
		return errors.Join(probe.UntilOK(ctx, requests, "http://"+health+"/readyz"), probe.UntilOK(ctx, requests, m.metrics))
	}); err != nil {
		t.Fatal(err)
	}
}

// restartManager starts the manager anew: it has forgotten what it compared before.
func (m *management) restartManager(t *testing.T) {
	t.Helper()
	if err := m.manager.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := m.manager.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if err := m.kill(); err != nil {
		t.Fatal(err)
	}
	m.startManager(t)
}

// topologyReconciles is how often the manager that runs has finished to compare topologies with their objects.
func (m *management) topologyReconciles(t *testing.T) float64 {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.metrics, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // What is read is read.
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	finished := 0.0
	for _, metric := range families["controller_runtime_reconcile_total"].GetMetric() {
		labels := map[string]string{}
		for _, label := range metric.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		if labels["controller"] == "topology/cluster" && labels["result"] == "success" {
			finished += metric.GetCounter().GetValue()
		}
	}
	return finished
}
