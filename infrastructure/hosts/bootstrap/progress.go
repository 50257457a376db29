package bootstrap

import (
	"fmt"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// State is how far a bootstrap is.
type State string

const (
	// Running means that cloud-init works.
	Running State = "Running"
	// Done means that the host is bootstrapped.
	Done State = "Done"
	// Failed means that cloud-init ended without success.
	Failed State = "Failed"
)

// Progress is how far a bootstrap is, for people.
type Progress struct {
	State State
	// Detail is the stage that runs, or what failed.
	Detail string
	// Software says why the machine's software could not be installed, fit for a message; nil when something else failed.
	Software *software.Result
	// Avoided are sources of software that failed before another one gave the file, fit for a message. Only Done has them.
	Avoided []string
	// Output is the end of the output of a failed cloud-init, without secrets; empty when Software says what failed.
	Output string
}

// judge decides how far a bootstrap is. The sentinel file means success (contract for BootstrapConfig, "Sentinel file"), even
// when a module of cloud-init failed.
func judge(sentinel bool, unit hosts.UnitState, status *cloudinit.Status) Progress {
	switch {
	case sentinel:
		return Progress{State: Done}
	case unit.Active == "activating":
		detail := "cloud-init starts"
		if status != nil && status.Running() && status.Detail != "" {
			detail = "cloud-init: " + hosts.Line(status.Detail, hosts.MaxLine)
		}
		return Progress{State: Running, Detail: detail}
	case status == nil:
		return Progress{State: Running, Detail: "cloud-init has ended, and its result is read next"}
	case !unit.Loaded && status.Running():
		// The host was rebooted and the unit is gone: cloud-init runs with the same seed as a part of the boot.
		return Progress{State: Running, Detail: "cloud-init, after a reboot: " + hosts.Line(status.Detail, hosts.MaxLine)}
	case len(status.Errors) > 0:
		return Progress{State: Failed, Detail: "cloud-init failed: " + hosts.Tail([]byte(strings.Join(status.Errors, "; ")))}
	case status.Status == "disabled":
		return Progress{State: Failed, Detail: fmt.Sprintf("cloud-init is switched off on the host (%s); remove /etc/cloud/cloud-init.disabled", hosts.Line(status.BootStatusCode, hosts.MaxLine))}
	default:
		return Progress{State: Failed, Detail: fmt.Sprintf("cloud-init ended (%s) and there is no %s: a command of the bootstrap data failed", hosts.Line(status.Status, hosts.MaxLine), onworker.SentinelFile)}
	}
}
