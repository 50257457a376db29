package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

// cloudInitStatus is what `cloud-init status --format json` prints (cloud-init, "CLI commands", status).
type cloudInitStatus struct {
	// Status is "not run" or "not started", "running", "done", "error" or "disabled".
	Status string `json:"status"`
	// Detail names the stage while it runs.
	Detail string `json:"detail"`
	// Errors are those of all stages.
	Errors []string `json:"errors"`
	// BootStatusCode says why it is disabled.
	BootStatusCode string `json:"boot_status_code"`
}

func (s *cloudInitStatus) running() bool { return strings.HasPrefix(s.Status, "running") }

// cloudInit reads the status of cloud-init. The exit status repeats what the JSON says, and is ignored.
func (h *Host) cloudInit(ctx context.Context) (*cloudInitStatus, error) {
	result, err := h.try(ctx, "cloud-init", "status", "--format", "json")
	if err != nil {
		return nil, err
	}
	status := &cloudInitStatus{}
	if err := json.Unmarshal(result.Stdout, status); err != nil || status.Status == "" {
		return nil, fmt.Errorf("read the status of cloud-init: exit status %d, %s; cloud-init 22.4 or newer is needed", result.ExitStatus, lastLine(result.Stderr))
	}
	return status, nil
}

// stage reads the stage that cloud-init is in from the file behind `cloud-init status`; nil before that file exists.
func (h *Host) stage(ctx context.Context) (*cloudInitStatus, error) {
	result, err := h.try(ctx, "cat", "/run/cloud-init/status.json")
	if err != nil {
		return nil, err
	}
	kept := struct {
		V1 struct {
			Stage string `json:"stage"`
		} `json:"v1"`
	}{}
	if result.ExitStatus != 0 || json.Unmarshal(result.Stdout, &kept) != nil || kept.V1.Stage == "" {
		return nil, nil //nolint:nilerr // A file that is being written says nothing yet.
	}
	return &cloudInitStatus{Status: "running", Detail: "stage " + kept.V1.Stage}, nil
}

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
func judge(sentinel bool, unit unitState, status *cloudInitStatus) Progress {
	switch {
	case sentinel:
		return Progress{State: Done}
	case unit.active == "activating":
		detail := "cloud-init starts"
		if status != nil && status.running() && status.Detail != "" {
			detail = "cloud-init: " + tidy(status.Detail)
		}
		return Progress{State: Running, Detail: detail}
	case status == nil:
		return Progress{State: Running, Detail: "cloud-init has ended, and its result is read next"}
	case !unit.loaded && status.running():
		// The host was rebooted and the unit is gone: cloud-init runs with the same seed as a part of the boot.
		return Progress{State: Running, Detail: "cloud-init, after a reboot: " + tidy(status.Detail)}
	case len(status.Errors) > 0:
		return Progress{State: Failed, Detail: "cloud-init failed: " + tail([]byte(strings.Join(status.Errors, "; ")))}
	case status.Status == "disabled":
		return Progress{State: Failed, Detail: fmt.Sprintf("cloud-init is switched off on the host (%s); remove /etc/cloud/cloud-init.disabled", tidy(status.BootStatusCode))}
	default:
		return Progress{State: Failed, Detail: fmt.Sprintf("cloud-init ended (%s) and there is no %s: a command of the bootstrap data failed", tidy(status.Status), sentinelFile)}
	}
}
