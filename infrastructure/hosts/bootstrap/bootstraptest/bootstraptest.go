// Package bootstraptest has the machine that a simulated host becomes.
package bootstraptest

import (
	"context"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// Worker is a machine with hosttest.UserData.
func Worker() bootstrap.Machine {
	return bootstrap.Machine{Namespace: "team", Name: "worker-1", InstanceID: "id-1", ProviderID: "idc://team/host-1", UserData: []byte(hosttest.UserData)}
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

// BareWorker is a machine whose bootstrap data fetch kok-software like other downloads.
func BareWorker() bootstrap.Machine {
	machine := Worker()
	machine.UserData = []byte(strings.Replace(hosttest.UserData, "write_files:\n", "write_files:\n- path: "+onworker.DownloadsFile+
		"\n  content: '[\""+software.Program+"\", \""+software.Program+".part\"]'\n", 1))
	return machine
}
