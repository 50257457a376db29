package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/machine"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

const (
	// idle is the share of busy processors below which a run begins.
	idle = 0.15
	// disturbed is the share of the processors that others than the lab may use in a run.
	disturbed = 0.15
)

// use is what was used of the processors up to a time.
type use struct {
	at      time.Time
	machine machine.CPU
	// tenants are the hosts that carry control planes, cloud the host cluster's own control plane and the controllers, workers
	// those of tenants beside.
	tenants, cloud, workers time.Duration
}

func (b *bench) readUse() (use, error) {
	u := use{at: time.Now()}
	var err error
	if u.machine, err = machine.ReadCPU(); err != nil {
		return u, err
	}
	hosts, err := b.lab.Hosts()
	if err != nil {
		return u, err
	}
	for _, h := range hosts {
		if !h.Booted() {
			continue
		}
		used, err := h.Usage()
		if err != nil {
			return u, err
		}
		switch {
		case h.Worker():
			u.workers += used.CPU
		case h.Site == host.SiteIDC:
			u.tenants += used.CPU
		default:
			u.cloud += used.CPU
		}
	}
	return u, nil
}

// settle waits until the machine is idle or stays as busy as it is, and tells how busy that is.
func (b *bench) settle(ctx context.Context) (use, error) {
	busy, err := machine.Settle(ctx, idle, b.settleLimit)
	if err != nil {
		return use{}, err
	}
	load, err := machine.LoadAverage()
	if err != nil {
		return use{}, err
	}
	fmt.Printf("  before: %.0f%% of the processors busy, load average %s\n", 100*busy, load)
	if busy >= idle {
		fmt.Printf("  WARNING: the machine is busy with something else: times are too long, ratios less so\n")
	}
	return b.readUse()
}

// printUse tells who used the processors since then.
func (b *bench) printUse(since use) {
	now, err := b.readUse()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	busy, tenants, cloud, workers := now.machine.Busy-since.machine.Busy, now.tenants-since.tenants, now.cloud-since.cloud, now.workers-since.workers
	others := busy - tenants - cloud - workers
	fmt.Printf("  %.2f s; processor time %.1f s (%.0f%% busy): control planes' hosts %.1f s, host cluster's control plane %.1f s, workers %.1f s, others %.1f s\n",
		now.at.Sub(since.at).Seconds(), busy.Seconds(), 100*now.machine.Share(since.machine),
		tenants.Seconds(), cloud.Seconds(), workers.Seconds(), others.Seconds())
	if float64(others) > disturbed*float64(now.machine.Total-since.machine.Total) {
		fmt.Printf("  WARNING: others than the lab used much of the processors: this time is too long\n")
	}
}
