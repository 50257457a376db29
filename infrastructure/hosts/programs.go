package hosts

import (
	"context"
	"path"
	"slices"
)

// known are the programs that probes and clean-ups look for.
var known = []string{
	"cloud-init", "systemctl", "containerd", "ctr", "crictl", "kubelet", "kubeadm", "ip", "nft", "iptables-save", "ip6tables-save", "sshd",
}

// Programs are those of known that the host has, sorted.
func (h *Host) Programs(ctx context.Context) ([]string, error) {
	args := []string{"find", "-L", "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "-maxdepth", "1", "-type", "f", "("}
	for i, name := range known {
		if i > 0 {
			args = append(args, "-o")
		}
		args = append(args, "-name", name)
	}
	// find ends with status 1 when a folder does not exist.
	result, err := h.Try(ctx, append(args, ")", "-print0")...)
	if err != nil {
		return nil, err
	}
	if result.ExitStatus > 1 || result.ExitStatus == 1 && len(result.Stdout) == 0 {
		return nil, Failure(args[:1], result)
	}
	var found []string
	for _, file := range list(result.Stdout) {
		found = append(found, path.Base(file))
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}
