package bootstrap

import (
	"context"
	"path"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// prepare writes what cloud-init and kubelet read.
func prepare(ctx context.Context, h *hosts.Host, machine *Machine) error {
	metaData, err := machine.metaData()
	if err != nil {
		return err
	}
	arguments, err := kubeletDefaults(ctx, h, machine.ProviderID)
	if err != nil {
		return err
	}
	if err := h.Remove(ctx, path.Clean(onworker.SentinelDir)); err != nil {
		return err
	}
	if err := h.Change(ctx, "install", "-d", "-m", "0755", path.Dir(onworker.KubeletEnvironment)); err != nil {
		return err
	}
	if err := h.Write(ctx, onworker.KubeletEnvironment, arguments); err != nil {
		return err
	}
	return cloudinit.Seed(ctx, h, metaData, machine.UserData)
}

// kubeletDefaults is the host's own file of arguments for kubelet, with the provider ID added.
func kubeletDefaults(ctx context.Context, h *hosts.Host, providerID string) ([]byte, error) {
	there, err := h.Existing(ctx, onworker.KubeletEnvironment)
	if err != nil || len(there) == 0 {
		return withProviderID("", providerID), err
	}
	content, err := h.Run(ctx, "cat", onworker.KubeletEnvironment)
	return withProviderID(string(content), providerID), err
}

const kubeletArguments = "KUBELET_EXTRA_ARGS="

// withProviderID adds the argument to an environment file (systemd.exec(5), EnvironmentFile).
func withProviderID(content, providerID string) []byte {
	argument := "--provider-id=" + providerID
	if strings.Contains(content, argument) {
		return []byte(content)
	}
	var lines []string
	added := false
	for line := range strings.SplitSeq(strings.TrimRight(content, "\n"), "\n") {
		if value, ok := strings.CutPrefix(line, kubeletArguments); ok && !added {
			added = true
			quote := ""
			if value != "" && (value[0] == '"' || value[0] == '\'') {
				quote, value = value[:1], value[1:]
			}
			separator := " "
			if value == "" || value == quote {
				separator = ""
			}
			line = kubeletArguments + quote + argument + separator + value
		}
		lines = append(lines, line)
	}
	if !added {
		lines = append(lines, kubeletArguments+argument)
	}
	return []byte(strings.TrimLeft(strings.Join(lines, "\n"), "\n") + "\n")
}
