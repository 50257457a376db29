package cloudinit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
)

// Status is what `cloud-init status --format json` prints (cloud-init, "CLI commands", status).
type Status struct {
	// Status is "not run" or "not started", "running", "done", "error" or "disabled".
	Status string `json:"status"`
	// Detail names the stage while it runs.
	Detail string `json:"detail"`
	// Errors are those of all stages.
	Errors []string `json:"errors"`
	// BootStatusCode says why it is disabled.
	BootStatusCode string `json:"boot_status_code"`
}

// Running reports whether cloud-init works.
func (s *Status) Running() bool { return strings.HasPrefix(s.Status, "running") }

// ReadStatus reads the status of cloud-init. The exit status repeats what the JSON says, and is ignored.
func ReadStatus(ctx context.Context, h *hosts.Host) (*Status, error) {
	command := []string{"cloud-init", "status", "--format", "json"}
	result, err := h.Try(ctx, command...)
	if err != nil {
		return nil, err
	}
	status := &Status{}
	if err := json.Unmarshal(result.Stdout, status); err != nil || status.Status == "" {
		return nil, fmt.Errorf("read the status of cloud-init: exit status %d, %s; cloud-init 22.4 or newer is needed", result.ExitStatus, hosts.Failure(command, result).Output)
	}
	return status, nil
}

// ReadStage reads the stage that cloud-init is in from the file behind `cloud-init status`; nil before that file exists.
func ReadStage(ctx context.Context, h *hosts.Host) (*Status, error) {
	result, err := h.Try(ctx, "cat", "/run/cloud-init/status.json")
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
	return &Status{Status: "running", Detail: "stage " + kept.V1.Stage}, nil
}
