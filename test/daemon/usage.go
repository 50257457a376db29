package daemon

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// Usage is what a program uses of the machine, all of its processes together.
type Usage struct {
	// CPU is processor time since its start; the kernel counts hundredths of a second.
	CPU time.Duration
	// Resident is memory in bytes. What processes share counts for each of them.
	Resident int
	// Descriptors are open file descriptors.
	Descriptors int
}

// Usage reads /proc.
func (d *Daemon) Usage() (Usage, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return Usage{}, err
	}
	var usage Usage
	found := false
	for _, process := range all {
		stat, err := process.Stat()
		if err != nil || stat.PGRP != d.PID() {
			continue // Another program, which may have ended meanwhile.
		}
		descriptors, err := process.FileDescriptorsLen()
		if err != nil {
			return Usage{}, fmt.Errorf("look at process %d of %s: %w", process.PID, d.name, err)
		}
		found = true
		// The kernel's unit, USER_HZ, is a hundredth of a second on every architecture of Go's.
		usage.CPU += time.Duration(stat.UTime+stat.STime) * 10 * time.Millisecond
		usage.Resident += stat.ResidentMemory()
		usage.Descriptors += descriptors
	}
	if !found {
		return Usage{}, fmt.Errorf("%s has no process", d.name)
	}
	return usage, nil
}
