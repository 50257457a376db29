package processes

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Usage is what a process uses of its machine.
type Usage struct {
	// CPU is the processor time since its start; the kernel counts hundredths of a second.
	CPU time.Duration
	// Resident is memory in bytes, with files that it has mapped.
	Resident int
	// Written are the bytes that it has had written to disk since its start.
	Written uint64
	// Sockets are those that it has open: connections and listeners.
	Sockets int
}

// UsageOf reads what a process uses.
func UsageOf(pid int) (Usage, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return Usage{}, err
	}
	stat, err := process.Stat()
	if err != nil {
		return Usage{}, fmt.Errorf("read the usage of process %d: %w", pid, err)
	}
	io, err := process.IO()
	if err != nil {
		return Usage{}, fmt.Errorf("read what process %d has written: %w", pid, err)
	}
	sockets, err := socketsOf(pid)
	if err != nil {
		return Usage{}, fmt.Errorf("read the sockets of process %d: %w", pid, err)
	}
	return Usage{
		CPU:      time.Duration(stat.CPUTime() * float64(time.Second)),
		Resident: stat.ResidentMemory(), Written: io.WriteBytes, Sockets: len(sockets),
	}, nil
}

// Plus is the usage of both.
func (u Usage) Plus(other Usage) Usage {
	return Usage{u.CPU + other.CPU, u.Resident + other.Resident, u.Written + other.Written, u.Sockets + other.Sockets}
}

// Proportional is the memory of a process in bytes, where a page that several processes have counts for each by its share: proc_pid_smaps(5)
// calls it Pss.
func Proportional(pid int) (uint64, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	maps, err := process.ProcSMapsRollup()
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return maps.Pss, nil
}

// Variable is the value of a variable that the process was started with; empty if it has none of that name.
func Variable(pid int, name string) (string, error) {
	data, err := os.ReadFile(file(pid, "environ"))
	if err != nil {
		return "", err
	}
	for variable := range strings.SplitSeq(string(data), "\x00") {
		if key, value, _ := strings.Cut(variable, "="); key == name {
			return value, nil
		}
	}
	return "", nil
}
