package bootstrap

import (
	"context"
	"fmt"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/koksoftware"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

const (
	// watchTime is how long one call of Run waits for the end of cloud-init.
	watchTime = 5 * time.Second
	// outputFile has what cloud-init and its commands wrote.
	outputFile = "/var/log/cloud-init-output.log"
)

// look finds out how far cloud-init is, and records that it is done.
func look(ctx context.Context, h *hosts.Host, record *records.Record) (Progress, error) {
	progress, err := progressOf(ctx, h)
	if err != nil {
		return Progress{}, fmt.Errorf("see how far cloud-init is: %w", err)
	}
	switch progress.State {
	case Done:
		if record.Avoided, err = koksoftware.Avoided(ctx, h, software.ResultFile); err != nil {
			return Progress{}, fmt.Errorf("read which sources of software were avoided: %w", err)
		}
		record.Done, progress.Avoided = true, record.Avoided
		return progress, record.Write(ctx, h)
	case Failed:
		if progress.Software, err = koksoftware.Problem(ctx, h, software.ResultFile); err != nil || progress.Software != nil {
			return progress, err
		}
		progress.Output, err = lastWords(ctx, h)
		return progress, err
	default:
		return progress, nil
	}
}

// progressOf reads from the host what judge needs. cloud-init's command line is used only once its unit has ended, because it
// takes longer than all the rest together.
func progressOf(ctx context.Context, h *hosts.Host) (Progress, error) {
	// Read the unit first: once it has ended, no sentinel file comes any more.
	units, err := h.Units(ctx, cloudinit.Unit)
	if err != nil {
		return Progress{}, err
	}
	sentinel, err := h.Existing(ctx, onworker.SentinelFile)
	if err != nil {
		return Progress{}, err
	}
	var status *cloudinit.Status
	if units[0].Active == "activating" {
		status, err = cloudinit.ReadStage(ctx, h)
	} else if len(sentinel) == 0 {
		status, err = cloudinit.ReadStatus(ctx, h)
	}
	if err != nil {
		return Progress{}, err
	}
	return judge(len(sentinel) > 0, units[0], status), nil
}

// lastWords is the end of the output of a failed bootstrap.
func lastWords(ctx context.Context, h *hosts.Host) (string, error) {
	output, err := h.Excerpt(ctx, "tail", "--lines=20", outputFile)
	if err != nil {
		return "", err
	}
	units, err := h.Units(ctx, onworker.BootstrapUnit)
	if err != nil {
		return "", err
	}
	if units[0].Active == "failed" {
		journal, err := h.Excerpt(ctx, "journalctl", "--unit="+onworker.BootstrapUnit, "--boot", "--lines=20", "--output=cat", "--no-pager")
		if err != nil {
			return "", err
		}
		output = append(append(output, "\n"...), journal...)
	}
	return hosts.Tail(output), nil
}
