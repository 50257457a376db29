// Package bootstraptest makes a simulated host a machine, for tests of bootstraps and clean-ups.
package bootstraptest

import (
	"context"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// Worker is a machine with hosttest.UserData.
func Worker() bootstrap.Machine {
	return bootstrap.Machine{
		Claimant: ownership.Claimant{InstanceID: "id-1"}, Namespace: "team", Name: "worker-1", ProviderID: "idc://team/host-1",
		PodRanges: []string{"10.244.0.0/16", "fd00:10:244::/56"}, UserData: []byte(hosttest.UserData),
	}
}

// UntilEnded bootstraps until there is nothing more to do.
func UntilEnded(ctx context.Context, h *hosts.Host, machine bootstrap.Machine) (bootstrap.Progress, error) {
	for {
		progress, err := bootstrap.Run(ctx, h, machine)
		if err != nil || progress.State != bootstrap.Running {
			return progress, err
		}
	}
}

// Bootstrapped makes a simulated host the machine, and returns the host.
func Bootstrapped(t *testing.T, s *hosttest.Simulated, machine bootstrap.Machine) *hosts.Host {
	t.Helper()
	h := hosts.New(s, "admin")
	if progress, err := UntilEnded(t.Context(), h, machine); err != nil || progress.State != bootstrap.Done {
		t.Fatalf("the host is no machine: %+v, %v", progress, err)
	}
	return h
}

// WorkerWriting is a machine whose bootstrap data write more files, which are entries of write_files.
func WorkerWriting(files string) bootstrap.Machine {
	machine := Worker()
	machine.UserData = []byte(strings.Replace(hosttest.UserData, "write_files:\n", "write_files:\n"+files, 1))
	return machine
}

// BareWorker is a machine whose bootstrap data fetch kok-software like other downloads.
func BareWorker() bootstrap.Machine {
	return WorkerWriting("- path: " + onworker.DownloadsFile + "\n  content: '[\"" + software.Program + "\", \"" + software.Program + ".part\"]'\n")
}
