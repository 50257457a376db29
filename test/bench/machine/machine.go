// Package machine is about the machine that benchmarks run on: how busy it is, what it has memory for, and that no two
// benchmarks run at once.
package machine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the unit of /proc/stat: USER_HZ, which is 100 on every architecture of Go's.
const ticksPerSecond = 100

// CPU is processor time used since the machine booted.
type CPU struct {
	Busy, Total time.Duration
}

// ReadCPU reads /proc/stat.
func ReadCPU() (CPU, error) {
	file, err := os.Open("/proc/stat")
	if err != nil {
		return CPU{}, err
	}
	defer file.Close() //nolint:errcheck // only read
	scanner := bufio.NewScanner(file)
	if !scanner.Scan() {
		return CPU{}, errors.Join(scanner.Err(), errors.New("/proc/stat is empty"))
	}
	// cpu user nice system idle iowait irq softirq steal guest guest_nice; guests are in user and nice.
	fields := strings.Fields(scanner.Text())
	if len(fields) < 9 || fields[0] != "cpu" {
		return CPU{}, fmt.Errorf("/proc/stat: unexpected line %q", scanner.Text())
	}
	var cpu CPU
	for i, field := range fields[1:9] {
		ticks, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return CPU{}, fmt.Errorf("/proc/stat: %w", err)
		}
		used := time.Duration(ticks) * time.Second / ticksPerSecond
		cpu.Total += used
		if i != 3 && i != 4 {
			cpu.Busy += used
		}
	}
	return cpu, nil
}

// Share is the part of all processors that was busy since an earlier reading, from 0 to 1.
func (c CPU) Share(earlier CPU) float64 {
	if c.Total == earlier.Total {
		return 0
	}
	return float64(c.Busy-earlier.Busy) / float64(c.Total-earlier.Total)
}

// LoadAverage is the kernel's, over one, five and fifteen minutes.
func LoadAverage() (string, error) {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", err
	}
	return strings.Join(strings.Fields(string(data))[:3], " "), nil
}
