// Package status tells how the load balancer does: as JSON, as a table for people, as Prometheus
// metrics and as answers to health checks, all on loopback.
package status

import (
	"time"
)

// Report is the state of the program at one moment.
type Report struct {
	// Version is the program's.
	Version string `json:"version"`
	// Server is the URL for a kubeconfig.
	Server string `json:"server"`
	// Started is when the program began.
	Started time.Time `json:"started"`
	// Connections are the clients' that are open.
	Connections int `json:"connections"`
	// Listeners are where clients connect, with their bounds.
	Listeners []Listener `json:"listeners"`
	Counters  Counters   `json:"counters"`
	Discovery Discovery  `json:"discovery"`
	// Service is absent when the program serves no Service's address.
	Service  *Service  `json:"service,omitempty"`
	Backends []Backend `json:"backends"`
}

// Counters count since the start.
type Counters struct {
	// Accepted are connections of clients, Failed those that no backend had.
	Accepted uint64 `json:"accepted"`
	Failed   uint64 `json:"failed"`
	// FailedAttempts are attempts at a backend that ended without a byte from it.
	FailedAttempts uint64 `json:"failedAttempts"`
	// Hedged are attempts made because another backend was silent.
	Hedged uint64 `json:"hedged"`
	// Probes are requests for /readyz.
	Probes uint64 `json:"probes"`
	// ProbeBytesSent and ProbeBytesReceived are the bytes of probes on the wire.
	ProbeBytesSent     uint64 `json:"probeBytesSent"`
	ProbeBytesReceived uint64 `json:"probeBytesReceived"`
	// Reset are connections that were closed because their backend was dead.
	Reset uint64 `json:"reset"`
}

// Listener is one address where clients connect.
type Listener struct {
	Address string `json:"address"`
	// Open is the number of its clients' connections. It is at most Max, and at most MaxPerSource from one address where
	// that is not 0.
	Open         int `json:"open"`
	Max          int `json:"max"`
	MaxPerSource int `json:"maxPerSource,omitempty"`
	// Refused are the connections that were beyond these bounds, since the start.
	Refused uint64 `json:"refused"`
}

// Discovery is the state of the list of API servers.
type Discovery struct {
	// Confirmed is true when the EndpointSlice was read in this run.
	Confirmed bool `json:"confirmed"`
	// Changed is when the list was read or changed last.
	Changed time.Time `json:"changed,omitzero"`
	// Problem says why the list cannot be read, or cannot be written for the next start; empty when all is well.
	Problem string `json:"problem,omitempty"`
	// BytesReceived and BytesSent are the bytes of discovery on the wire.
	BytesReceived uint64 `json:"bytesReceived"`
	BytesSent     uint64 `json:"bytesSent"`
}

// Service is the address of the Service kubernetes on this machine.
type Service struct {
	Address string `json:"address"`
	// Taken is true while connections to it arrive here.
	Taken   bool   `json:"taken"`
	Problem string `json:"problem,omitempty"`
}

// Backend is one API server.
type Backend struct {
	Address string `json:"address"`
	// State is ready, draining or dead.
	State string `json:"state"`
	// Reason says why it is in this state, Since when that began.
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	// Listed is true for a member by the present list, Seed for one in the configuration.
	Listed bool `json:"listed"`
	Seed   bool `json:"seed"`
	// Suspect is a ready backend whose last probe is unanswered.
	Suspect       bool   `json:"suspect"`
	Connections   int    `json:"connections"`
	BytesSent     uint64 `json:"bytesSent"`
	BytesReceived uint64 `json:"bytesReceived"`
	// LastError is the last thing that went wrong, empty when nothing did.
	LastError string `json:"lastError,omitempty"`
	// LastErrorTime is when that was.
	LastErrorTime time.Time `json:"lastErrorTime,omitzero"`
}

// Ready is the number of backends that are ready.
func (r *Report) Ready() int {
	ready := 0
	for _, backend := range r.Backends {
		if backend.State == "ready" {
			ready++
		}
	}
	return ready
}
