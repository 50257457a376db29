package machine

import (
	"fmt"

	"github.com/prometheus/procfs"
)

// Gibibyte is a unit of memory.
const Gibibyte = 1 << 30

// reserve is memory that a benchmark leaves to what else runs, so that no kernel or kubelet ends any of that.
const reserve = Gibibyte

// AvailableMemory is what programs can still take without swapping, in bytes.
func AvailableMemory() (uint64, error) {
	files, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	info, err := files.Meminfo()
	if err != nil {
		return 0, fmt.Errorf("find out how much memory is available: %w", err)
	}
	if info.MemAvailableBytes == nil {
		return 0, fmt.Errorf("find out how much memory is available: /proc/meminfo does not say")
	}
	return *info.MemAvailableBytes, nil
}

// Fit is how many of the wanted things have room in the available memory beside first, all in bytes. None is an error.
func Fit(wanted int, each, first, available uint64) (int, error) {
	if need := reserve + first + each; available < need {
		return 0, fmt.Errorf("this machine has %.1f GiB of memory available and %.1f GiB are needed: end other programs, or delete tenants (kubectl get clusters -A)",
			float64(available)/Gibibyte, float64(need)/Gibibyte)
	}
	return min(wanted, int((available-reserve-first)/each)), nil
}
