// Package probe checks whether a host can be made a machine: what it is, and which problem keeps it from becoming one. It
// changes nothing on the host.
package probe

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cleanup"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
)

const (
	// minFreeBytes is the least space that bootstrap data, logs and images' metadata need.
	minFreeBytes = 1 << 30
	// minFreeInodes is the least number of free inodes.
	minFreeInodes = 10000
)

// diskFolders are on the file systems that a node writes to. Some do not exist before the node's programs do.
var diskFolders = []string{"/", "/var/lib", "/var/lib/cloud", "/var/lib/containerd", "/var/lib/kubelet", "/var/log", "/run"}

// maxMessage bounds the message of a problem in which a host names a path.
const maxMessage = 1024

// Bytes that fields of an IDCHost's status have room for. Longer texts are cut.
const (
	maxArchitecture = 64
	maxSystem       = 256
)

// Problem says what is wrong with a host: Reason for programs, Message for people.
type Problem struct {
	Reason  string
	Message string
}

// Reasons of problems.
const (
	SudoMissing     = "SudoMissing"
	DiskFull        = "DiskFull"
	SoftwareMissing = "SoftwareMissing"
	// FolderIsLink is the reason for a host on which a node's folder, or one above it, is a symbolic link.
	FolderIsLink = "FolderIsLink"
	// InUse is the reason for a host that is in use, by ownership.Judge.
	InUse = "InUse"
)

// Facts are what a probe reads from a host.
type Facts struct {
	// Architecture is the processor's, as Go names it, KernelVersion the kernel's release.
	Architecture, KernelVersion string
	// OSImage is the system's pretty name.
	OSImage string
	// Programs are those of containerd, ctr, crictl, kubelet and kubeadm that are installed.
	Programs []string
	// CPUs is the number of processors, Memory the amount in bytes.
	CPUs   int64
	Memory int64
	// Usage is what ownership.Judge decides from.
	ownership.Usage
}

// Run reads facts of the host, and looks for problems that keep it from becoming a machine. ownership.Judge decides
// whether it is in use. A nil problem means that none was found. An error means that the probe itself failed.
func Run(ctx context.Context, h *hosts.Host) (*Facts, *Problem, error) {
	refusal, err := h.SudoRefusal(ctx)
	if err != nil {
		return nil, nil, err
	}
	if refusal != "" {
		return nil, &Problem{SudoMissing, fmt.Sprintf("the user may not run commands as root without a password (%s); "+
			"allow it, for example with \"<user> ALL=(ALL) NOPASSWD: ALL\" in /etc/sudoers.d", refusal)}, nil
	}
	programs, err := h.Programs(ctx)
	if err != nil {
		return nil, nil, err
	}
	facts, err := factsOf(ctx, h, programs)
	if err != nil {
		return nil, nil, err
	}
	for _, check := range []func(context.Context, *hosts.Host) (*Problem, error){
		func(context.Context, *hosts.Host) (*Problem, error) { return missing(programs), nil },
		switchedOff,
		full,
		Linked,
	} {
		if problem, err := check(ctx, h); err != nil || problem != nil {
			return facts, problem, err
		}
	}
	return facts, nil, nil
}

// needed are programs that a host must have, with Debian's packages of them.
var needed = []struct{ program, debianPackage string }{
	{"systemctl", "systemd"}, {"cloud-init", "cloud-init"}, {"ip", "iproute2"}, {"nft", "nftables"},
}

func missing(programs []string) *Problem {
	for _, n := range needed {
		if !slices.Contains(programs, n.program) {
			return &Problem{SoftwareMissing, fmt.Sprintf("%s is not in /usr/bin, /usr/sbin or below /usr/local; install it, for example with apt-get install %s",
				n.program, n.debianPackage)}
		}
	}
	return nil
}

// disabledFile switches cloud-init off (cloud-init, "Disable cloud-init").
const disabledFile = "/etc/cloud/cloud-init.disabled"

func switchedOff(ctx context.Context, h *hosts.Host) (*Problem, error) {
	there, err := h.Existing(ctx, disabledFile)
	if err != nil || len(there) == 0 {
		return nil, err
	}
	return &Problem{SoftwareMissing, "cloud-init is switched off by " + disabledFile + "; remove that file"}, nil
}

func full(ctx context.Context, h *hosts.Host) (*Problem, error) {
	// Free blocks, their size, free and all inodes; some file systems have no fixed number of inodes.
	args := append([]string{"stat", "--file-system", "--format=%n %a %S %d %c"}, diskFolders...)
	result, err := h.Try(ctx, args...)
	if err != nil {
		return nil, err
	}
	// stat ends with status 1 when a folder does not exist. An output without the root folder is not stat's.
	if !strings.HasPrefix(string(result.Stdout), "/ ") {
		return nil, hosts.Failure(args, result)
	}
	for line := range strings.Lines(string(result.Stdout)) {
		var folder string
		var blocks, size, inodes, allInodes uint64
		if _, err := fmt.Sscan(line, &folder, &blocks, &size, &inodes, &allInodes); err != nil {
			return nil, fmt.Errorf("read what stat says of file systems, %q: %w", hosts.Line(line, hosts.MaxLine), err)
		}
		folder = hosts.Line(folder, validation.DNS1123SubdomainMaxLength)
		least := uint64(minFreeBytes)
		if folder == "/run" {
			least = minFreeBytes / 64
		}
		switch {
		case blocks*size < least:
			return &Problem{DiskFull, fmt.Sprintf("the file system of %s has %d MiB free, %d MiB are needed; make room on it", folder, blocks*size>>20, least>>20)}, nil
		case allInodes > 0 && inodes < minFreeInodes:
			return &Problem{DiskFull, fmt.Sprintf("the file system of %s has %d inodes free, %d are needed; remove small files from it", folder, inodes, minFreeInodes)}, nil
		}
	}
	return nil, nil
}

// Linked finds a problem when a node's folder is a symbolic link, or is below one: a clean-up could not empty it.
func Linked(ctx context.Context, h *hosts.Host) (*Problem, error) {
	links, err := cleanup.Links(ctx, h)
	if err != nil || len(links) == 0 {
		return nil, err
	}
	first := links[0]
	return &Problem{FolderIsLink, hosts.Line(fmt.Sprintf("%s is %s because of a symbolic link, and a clean-up would leave a machine's keys and volumes there; "+
		"mount the disk at %s instead of the link, or bind it there", first.Path, first.Target, first.Path), maxMessage)}, nil
}

// architectures maps what uname -m prints to Go's names.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}

func factsOf(ctx context.Context, h *hosts.Host, programs []string) (*Facts, error) {
	facts := &Facts{}
	for _, name := range programs {
		if slices.Contains([]string{"containerd", "ctr", "crictl", "kubelet", "kubeadm"}, name) {
			facts.Programs = append(facts.Programs, name)
		}
	}
	answers := map[string]string{}
	for name, command := range map[string][]string{
		"machine": {"uname", "-m"}, "release": {"uname", "-r"}, "cpus": {"nproc", "--all"},
		"system": {"cat", "/etc/os-release"}, "memory": {"cat", "/proc/meminfo"},
	} {
		output, err := h.Run(ctx, command...)
		if err != nil {
			return nil, err
		}
		answers[name] = strings.TrimSpace(string(output))
	}
	facts.Architecture = hosts.Line(answers["machine"], maxArchitecture)
	if name, ok := architectures[facts.Architecture]; ok {
		facts.Architecture = name
	}
	facts.KernelVersion = hosts.Line(answers["release"], maxSystem)
	facts.OSImage = hosts.Line(value(answers["system"], "PRETTY_NAME", "="), maxSystem)
	facts.CPUs = count(answers["cpus"])
	facts.Memory = min(count(strings.TrimSuffix(value(answers["memory"], "MemTotal", ":"), " kB")), math.MaxInt64>>10) << 10
	usage, err := ownership.Observe(ctx, h, programs)
	if err != nil {
		return nil, err
	}
	facts.Usage = *usage
	return facts, nil
}

// count reads a number of things. It gives 0 for a text that is not a number.
func count(text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return max(0, number)
}

// value is the value of a name in lines like those of os-release(5) and proc_meminfo(5).
func value(text, name, separator string) string {
	for line := range strings.Lines(text) {
		if key, found, ok := strings.Cut(strings.TrimSpace(line), separator); ok && key == name {
			return hosts.Tidy(strings.Trim(strings.TrimSpace(found), `"'`))
		}
	}
	return ""
}
