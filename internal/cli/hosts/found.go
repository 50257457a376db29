package hosts

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/terminal"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/verdict"
)

// printFound prints what the controller found on a host.
func printFound(out io.Writer, host *infrav1.IDCHost) error {
	if _, err := fmt.Fprintf(out, "IDCHost %s can be used: %s\n", client.ObjectKeyFromObject(host), verdict.Of(host).Reason); err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, values ...string) {
		if value := strings.Join(values, ", "); value != "" {
			_, _ = fmt.Fprintf(table, "  %s\t%s\n", name, terminal.Plain(value))
		}
	}
	row("server", server(&host.Spec.SSHServer))
	if host.Spec.Bastion != nil {
		row("bastion", server(host.Spec.Bastion))
	}
	row("failure domain", host.Spec.FailureDomain)
	row("system", host.Status.System.OSImage)
	row("kernel", host.Status.System.KernelVersion)
	row("architecture", host.Status.System.Architecture)
	row("CPUs", quantity(host, corev1.ResourceCPU))
	row("memory", quantity(host, corev1.ResourceMemory))
	row("addresses", host.Status.Addresses...)
	row("programs", host.Status.System.Programs...)
	return table.Flush()
}

func server(s *infrav1.SSHServer) string {
	return s.User + "@" + net.JoinHostPort(s.Address, strconv.Itoa(int(s.Port)))
}

func quantity(host *infrav1.IDCHost, name corev1.ResourceName) string {
	// A value in spec takes precedence over the one that was found.
	for _, list := range []corev1.ResourceList{host.Spec.Capacity, host.Status.Capacity} {
		if found, ok := list[name]; ok {
			return found.String()
		}
	}
	return ""
}
