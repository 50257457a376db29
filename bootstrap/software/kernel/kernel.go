// Package kernel loads modules and sets sysctls, at once and for each boot.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
)

// The files that set modules and sysctls at each boot.
const (
	ModulesFile = "/etc/modules-load.d/90-kok-software.conf"
	SysctlsFile = "/etc/sysctl.d/90-kok-software.conf"
)

var (
	modules = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	sysctls = regexp.MustCompile(`^[a-z0-9_]+([./][A-Za-z0-9_-]+)+$`)
	values  = regexp.MustCompile(`^[ -~\t]{0,512}$`)
)

// Validate refuses names and values that the kernel, or the files for the boot, could take for something else.
func Validate(k bootstrapv1.SoftwareKernel) error {
	for _, name := range k.Modules {
		if !modules.MatchString(name) {
			return fmt.Errorf("kernel.modules: %q is no name of a module", name)
		}
	}
	for name, value := range k.Sysctls {
		if !sysctls.MatchString(name) {
			return fmt.Errorf("kernel.sysctls: %q is no name of a sysctl, such as net.ipv4.ip_forward", name)
		}
		if !values.MatchString(value) {
			return fmt.Errorf("kernel.sysctls: the value of %s must be one line of printable text", name)
		}
	}
	return nil
}

// Kernel is the kernel of a machine.
type Kernel struct {
	Disk *disk.Disk
	// Load loads a module; modprobe if unset.
	Load func(ctx context.Context, module string) error
}

// maxValue is how much of a sysctl or of a file of ours is read, maxList how much of modules.builtin.
const (
	maxValue = 64 << 10
	maxList  = 4 << 20
)

// LoadModules loads those that are neither loaded nor built in.
func (k *Kernel) LoadModules(ctx context.Context, names []string) error {
	for _, name := range names {
		there, err := k.loaded(name)
		if err != nil {
			return err
		}
		if there {
			continue
		}
		load := k.Load
		if load == nil {
			load = modprobe
		}
		if err := load(ctx, name); err != nil {
			return fmt.Errorf("kernel.modules: load %s: %w", name, err)
		}
	}
	return nil
}

// loaded says whether a module is loaded or built in.
func (k *Kernel) loaded(name string) (bool, error) {
	name = strings.ReplaceAll(name, "-", "_")
	if there, err := k.Disk.Exists("/sys/module/" + name); err != nil || there {
		return there, err
	}
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		return false, fmt.Errorf("read the kernel's release: %w", err)
	}
	list, err := k.Disk.Read("/lib/modules/"+unix.ByteSliceToString(uname.Release[:])+"/modules.builtin", maxList)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read which modules are built in: %w", err)
	}
	for line := range strings.Lines(string(list)) {
		file := line[strings.LastIndex(line, "/")+1:]
		if strings.ReplaceAll(strings.TrimSuffix(strings.TrimSpace(file), ".ko"), "-", "_") == name {
			return true, nil
		}
	}
	return false, nil
}

func modprobe(ctx context.Context, module string) error {
	output, err := exec.CommandContext(ctx, "modprobe", "--", module).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %.300s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

// file is the path of a sysctl: dots of its name are slashes, unless it is written with slashes (sysctl.d(5)).
func file(name string) string {
	if first := strings.IndexAny(name, "./"); name[first] == '.' {
		name = strings.NewReplacer(".", "/", "/", ".").Replace(name)
	}
	return "/proc/sys/" + name
}

// Differing are the sysctls that have other values, with those values.
func (k *Kernel) Differing(wanted map[string]string) (map[string]string, error) {
	differing := map[string]string{}
	for name, value := range wanted {
		has, err := k.Disk.Read(file(name), maxValue)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("kernel.sysctls: this kernel has no %s; name the module that brings it in kernel.modules", name)
		}
		if err != nil {
			return nil, fmt.Errorf("kernel.sysctls: read %s: %w", name, err)
		}
		if strings.Join(strings.Fields(string(has)), " ") != strings.Join(strings.Fields(value), " ") {
			differing[name] = strings.TrimSpace(string(has))
		}
	}
	return differing, nil
}

// Set sets sysctls that have other values.
func (k *Kernel) Set(wanted map[string]string) error {
	differing, err := k.Differing(wanted)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(differing)) {
		if err := k.Disk.WriteInPlace(file(name), []byte(wanted[name]+"\n")); err != nil {
			return fmt.Errorf("kernel.sysctls: set %s to %s: %w", name, wanted[name], err)
		}
	}
	return nil
}

// GiveBack sets sysctls to the values that they had before, and returns those that could not be set: the kernel lets some
// change in one direction only, and others are gone with their module.
func (k *Kernel) GiveBack(values map[string]string) (problems []error) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if there, err := k.Disk.Exists(file(name)); err != nil || !there {
			continue
		}
		if err := k.Set(map[string]string{name: values[name]}); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// Files are the files that are read at each boot.
func Files(wanted bootstrapv1.SoftwareKernel) map[string]string {
	const head = "# Written by kok-software.\n"
	files := map[string]string{}
	if len(wanted.Modules) > 0 {
		files[ModulesFile] = head + strings.Join(slices.Sorted(slices.Values(wanted.Modules)), "\n") + "\n"
	}
	if len(wanted.Sysctls) > 0 {
		content := head
		for _, name := range slices.Sorted(maps.Keys(wanted.Sysctls)) {
			content += name + " = " + wanted.Sysctls[name] + "\n"
		}
		files[SysctlsFile] = content
	}
	return files
}
