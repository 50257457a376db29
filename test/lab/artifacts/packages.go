package artifacts

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// machinePackages are what the lab needs on the machine, by a file that shows that a package is there.
var machinePackages = map[string]string{
	"mmdebstrap":        "/usr/bin/mmdebstrap",
	"systemd-container": "/usr/bin/systemd-nspawn",
	"nftables":          "/usr/sbin/nft",
	"conntrack":         "/usr/sbin/conntrack",
	"openssh-server":    "/usr/sbin/sshd",
	"rpm":               "/usr/bin/rpm",
	"iproute2":          "/usr/sbin/ip",
	"util-linux":        "/usr/bin/nsenter",
	"gcc":               "/usr/bin/gcc",
	"libc6-dev":         "/usr/lib/x86_64-linux-gnu/libc.a",
}

// mirrorPackages are what else a mirror of upstream's programs is built with, likewise.
var mirrorPackages = map[string]string{
	"libseccomp-dev": "/usr/lib/x86_64-linux-gnu/libseccomp.a",
	"pkgconf":        "/usr/bin/pkgconf",
}

// compilerPackages are those of machinePackages that compile C.
var compilerPackages = []string{"gcc", "libc6-dev"}

// EnsureCompiler installs a C compiler by apt, unless there is one. Go's race detector needs it.
func EnsureCompiler(ctx context.Context, progress func(string)) error {
	return installPackages(ctx, slices.Values(compilerPackages), progress)
}

// missingOf are those of some machinePackages or mirrorPackages that this machine lacks, in the order of their names.
func missingOf(names iter.Seq[string]) []string {
	var missing []string
	for name := range names {
		if !exists(machinePackages[name]) && !exists(mirrorPackages[name]) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// installPackages installs by apt what is missing of some machinePackages or mirrorPackages.
func installPackages(ctx context.Context, names iter.Seq[string], progress func(string)) error {
	missing := missingOf(names)
	if len(missing) == 0 {
		return nil
	}
	by := "apt-get install --no-install-recommends " + strings.Join(missing, " ")
	if os.Geteuid() != 0 {
		return fmt.Errorf("this machine lacks %s; run as root: %s", strings.Join(missing, ", "), by)
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this machine lacks %s, and the lab installs them only on Debian (apt-get): %w", strings.Join(missing, ", "), err)
	}
	progress("install missing packages: " + strings.Join(missing, ", "))
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	if _, err := run(ctx, command{name: "apt-get", args: []string{"update", "-q"}, env: env}); err != nil {
		return err
	}
	args := append([]string{"install", "-y", "-q", "--no-install-recommends"}, missing...)
	if _, err := run(ctx, command{name: "apt-get", args: args, env: env}); err != nil {
		return fmt.Errorf("%w (by hand: %s)", err, by)
	}
	return nil
}
