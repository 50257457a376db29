// Package bootstrap makes a host a machine. Run is called again and again: each call reads from the host how far it is, and
// goes on from there. A host that is in use is not changed.
package bootstrap

import (
	"context"
	"errors"
	"fmt"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cleanup"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/koksoftware"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
)

// ErrNoBootstrapData says that a host cannot become a machine without bootstrap data.
var ErrNoBootstrapData = errors.New("there is no bootstrap data for the host")

// Run begins to make a host a machine, or goes on with that, and returns after a few seconds how far it is. Call it again until
// the state is Done or Failed. After a failure, other bootstrap data start anew. The error is an *ownership.InUseError when the
// host is in use; then nothing on it was changed. It is a *ProblemError when a probe finds a problem of the host.
func Run(ctx context.Context, h *hosts.Host, machine Machine) (Progress, error) {
	progress, err := run(ctx, h, machine)
	return progress, explain(ctx, h, err)
}

func run(ctx context.Context, h *hosts.Host, machine Machine) (Progress, error) {
	record, err := records.Read(ctx, h)
	if err != nil {
		return Progress{}, err
	}
	if record != nil && record.InstanceID != machine.InstanceID {
		return Progress{}, &ownership.InUseError{Record: record}
	}
	if record != nil && record.Done {
		return Progress{State: Done, Avoided: koksoftware.Tellable(record.Avoided)}, nil
	}
	if record == nil {
		if err := machine.check(); err != nil {
			return Progress{}, err
		}
	}
	if len(machine.UserData) == 0 {
		return Progress{}, ErrNoBootstrapData
	}
	takenOver := ""
	if record == nil {
		if takenOver, err = mayHave(ctx, h, &machine); err != nil {
			return Progress{}, err
		}
	}
	units, err := h.Units(ctx, cloudinit.Unit)
	if err != nil {
		return Progress{}, err
	}
	if record != nil && record.DataHash != machine.dataHash() && units[0].Active != "activating" {
		if err := cleanup.Run(ctx, h, machine.InstanceID); err != nil {
			return Progress{}, fmt.Errorf("start anew with other bootstrap data: %w", err)
		}
		record, units[0] = nil, hosts.UnitState{}
	}
	if record == nil {
		record = machine.record(takenOver)
		if err := cleanup.Note(ctx, h, record, machine.UserData); err != nil {
			return Progress{}, fmt.Errorf("note what is on the host: %w", err)
		}
	}
	if record.TakenOver != "" && !record.Seeded {
		if err := cleanup.EndNode(ctx, h, record); err != nil {
			return Progress{}, fmt.Errorf("remove the node that the host was: %w", err)
		}
	}
	begins, err := start(ctx, h, machine, record, units[0])
	if err != nil {
		return Progress{}, err
	}
	if begins || units[0].Active == "activating" {
		if err := h.AwaitStart(ctx, cloudinit.Unit, watchTime); err != nil {
			return Progress{}, fmt.Errorf("watch cloud-init: %w", err)
		}
	}
	return look(ctx, h, record)
}

// mayHave decides, before the first change, whether the machine may have a host without Record. It returns the fact that a
// person allowed in spec.takeOver; empty for a free host.
func mayHave(ctx context.Context, h *hosts.Host, machine *Machine) (takenOver string, err error) {
	programs, err := h.Programs(ctx)
	if err != nil {
		return "", err
	}
	usage, err := ownership.Observe(ctx, h, programs)
	if err != nil {
		return "", fmt.Errorf("look whose the host is: %w", err)
	}
	found := ownership.Judge(usage, &machine.Claimant)
	if err := found.Err(); err != nil {
		return "", err
	}
	problem, err := probe.Linked(ctx, h)
	if err != nil {
		return "", fmt.Errorf("look where a node's folders are: %w", err)
	}
	if problem != nil {
		return "", &ProblemError{Problem: *problem, Err: errors.New("nothing on it was changed")}
	}
	return found.Fact, nil
}

// start seeds and starts cloud-init, unless that is done already, or a restart of the host does it. It reports whether it started
// cloud-init.
func start(ctx context.Context, h *hosts.Host, machine Machine, record *records.Record, unit hosts.UnitState) (begins bool, err error) {
	seeded := record.Seeded
	if !seeded {
		if err := prepare(ctx, h, &machine); err != nil {
			return false, fmt.Errorf("prepare the host for cloud-init: %w", err)
		}
		record.Seeded = true
		if err := record.Write(ctx, h); err != nil {
			return false, err
		}
	}
	if record.Started {
		return false, nil
	}
	// Only a restart removes the unit after the seed was recorded. The cloud-init of that boot reads the seed.
	restarted := seeded && !unit.Loaded
	// The unit may run already, or have ended: a start is recorded only after it was made.
	if !restarted && (!unit.Loaded || unit.Active == "inactive") {
		if err := h.Change(ctx, "systemctl", "start", "--no-block", cloudinit.Unit); err != nil {
			return false, fmt.Errorf("start cloud-init: %w", err)
		}
		begins = true
	}
	record.Started = true
	return begins, record.Write(ctx, h)
}
