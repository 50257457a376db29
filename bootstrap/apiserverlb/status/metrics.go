package status

import (
	"github.com/prometheus/client_golang/prometheus"
)

const prefix = "kok_apiserver_lb_"

var states = []string{"ready", "draining", "dead"}

var (
	accepted       = counter("connections_accepted_total", "Connections of clients that were accepted.")
	failed         = counter("connections_failed_total", "Connections of clients that no backend had.")
	open           = gauge("connections", "Connections of clients that are open.")
	refused        = counter("connections_refused_total", "Connections of clients beyond the bounds of their listener.", "listener")
	most           = gauge("connections_max", "Connections that clients of a listener may have open.", "listener")
	failedAttempts = counter("failed_attempts_total", "Attempts at a backend that ended without a byte from it.")
	hedged         = counter("hedged_attempts_total", "Attempts made because another backend was silent.")
	probes         = counter("probes_total", "Requests for /readyz of backends.")
	probesIn       = counter("probes_received_bytes_total", "Bytes received by probes of backends, those of TLS included.")
	probesOut      = counter("probes_sent_bytes_total", "Bytes sent by probes of backends, those of TLS included.")
	reset          = counter("connections_reset_total", "Connections closed because their backend was dead.")
	confirmed      = gauge("discovery_confirmed", "1 when the EndpointSlice was read in this run.")
	discoveryIn    = counter("discovery_received_bytes_total", "Bytes received to learn where the API servers are, those of TLS included.")
	discoveryOut   = counter("discovery_sent_bytes_total", "Bytes sent to learn where the API servers are, those of TLS included.")
	serviceTaken   = gauge("service_address_taken", "1 when connections to the Service kubernetes of this machine come here.")
	backendState   = gauge("backend_state", "1 for the state that a backend is in.", "backend", "state")
	backendOpen    = gauge("backend_connections", "Connections that a backend carries.", "backend")
	backendIn      = counter("backend_received_bytes_total", "Bytes that came from a backend.", "backend")
	backendOut     = counter("backend_sent_bytes_total", "Bytes that went to a backend.", "backend")
)

// metric is a description with its kind.
type metric struct {
	description *prometheus.Desc
	kind        prometheus.ValueType
}

func counter(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(prefix+name, help, labels, nil), prometheus.CounterValue}
}

func gauge(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(prefix+name, help, labels, nil), prometheus.GaugeValue}
}

// collector makes metrics from a report when they are collected.
type collector struct{ report func() *Report }

// Describe sends nothing, because the metrics depend on the backends.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics of the present report.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	r := c.report()
	send := func(m metric, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(m.description, m.kind, value, labels...)
	}
	send(accepted, float64(r.Counters.Accepted))
	send(failed, float64(r.Counters.Failed))
	send(open, float64(r.Connections))
	for _, l := range r.Listeners {
		send(refused, float64(l.Refused), l.Address)
		send(most, float64(l.Max), l.Address)
	}
	send(failedAttempts, float64(r.Counters.FailedAttempts))
	send(hedged, float64(r.Counters.Hedged))
	send(probes, float64(r.Counters.Probes))
	send(probesIn, float64(r.Counters.ProbeBytesReceived))
	send(probesOut, float64(r.Counters.ProbeBytesSent))
	send(reset, float64(r.Counters.Reset))
	send(confirmed, truth(r.Discovery.Confirmed))
	send(discoveryIn, float64(r.Discovery.BytesReceived))
	send(discoveryOut, float64(r.Discovery.BytesSent))
	if r.Service != nil {
		send(serviceTaken, truth(r.Service.Taken))
	}
	for _, b := range r.Backends {
		for _, state := range states {
			send(backendState, truth(b.State == state), b.Address, state)
		}
		send(backendOpen, float64(b.Connections), b.Address)
		send(backendIn, float64(b.BytesReceived), b.Address)
		send(backendOut, float64(b.BytesSent), b.Address)
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
