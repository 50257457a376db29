package controllers

import (
	"errors"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
)

var errRefused = errors.New("connection refused")

// settled is what is observed of a control plane of which all is well.
func settled() *status.Observation {
	return &status.Observation{Workloads: statustest.Workloads(), Pods: statustest.Pods(), Etcd: statustest.Etcd()}
}

// initializedScope is a reconcile in which every step is done.
func initializedScope() *scope {
	return &scope{key: statustest.Cluster, host: &Host{Own: true}, controlPlane: statustest.ControlPlane(), outcomes: statustest.Outcomes()}
}

// end makes a step end otherwise, and those after it not run.
func (s *scope) end(step string, result flow.Result) { statustest.End(s.outcomes, step, result) }

// uninitialized takes back that the tenant's API ever answered.
func (s *scope) uninitialized() { s.controlPlane.Status.Initialization.ControlPlaneInitialized = nil }
