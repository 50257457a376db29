package main

import (
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/processes"
)

func TestAFootprintIsTheSumOfItsComponents(t *testing.T) {
	used := func(cpu time.Duration, written uint64) usage {
		return usage{Usage: processes.Usage{CPU: cpu, Resident: 100 * mebibyte, Written: written}, proportional: 60 * mebibyte}
	}
	f := of(map[string]usage{"etcd-data": used(time.Second, 1024), "kube-apiserver": used(time.Second, 0)},
		map[string]usage{"etcd-data": used(3*time.Second, 11*1024), "kube-apiserver": used(2*time.Second, 0)}, 10*time.Second)
	var lines []string
	for line := range strings.Lines(f.table()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	if got, want := strings.Join(lines, "\n"), `component RSS MiB PSS MiB cores KiB/s written
etcd-data 100 60 0.200 1.0
kube-apiserver 100 60 0.100 0.0
all 200 120 0.300 1.0`; got != want {
		t.Errorf("it shows\n%s\nnot\n%s", got, want)
	}
	var all []string
	for _, figure := range f.figures("tenant_ha_") {
		all = append(all, figure.String())
	}
	if got, want := strings.Join(all, "\n"), `figure tenant_ha_mib 200 MiB of resident memory
figure tenant_ha_pss_mib 120 MiB of memory, shared pages by their share
figure tenant_ha_idle_cores 0.300 cores
figure tenant_ha_written_kib_per_second 1.0 KiB/s`; got != want {
		t.Errorf("figures are\n%s\nnot\n%s", got, want)
	}
}

func TestOptionsThatMeasureNothingAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"an unknown shape":      {[]string{"--shapes=ha,large"}, `"large" is none of ha, single, small`},
		"a shape that is twice": {[]string{"--shapes=ha,ha"}, "each shape once"},
		"no window":             {[]string{"--window=0s"}, "--window"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := command()
			cmd.SetArgs(test.args)
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("it says %v, want %q", err, test.says)
			}
		})
	}
}
