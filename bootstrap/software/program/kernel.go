package program

import (
	"context"
	"maps"
	"time"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/kernel"
)

var kernelFiles = []string{kernel.ModulesFile, kernel.SysctlsFile}

// setKernel loads modules and sets sysctls, and writes the files for the next boot. Modules come first: some bring sysctls.
func (p *Program) setKernel(ctx context.Context, wanted bootstrapv1.SoftwareKernel) error {
	started := time.Now()
	if err := p.Kernel.LoadModules(ctx, wanted.Modules); err != nil {
		return err
	}
	differing, err := p.Kernel.Differing(wanted.Sysctls)
	if err != nil {
		return err
	}
	if err := p.noteSysctls(wanted.Sysctls, differing); err != nil {
		return err
	}
	if err := p.Kernel.Set(wanted.Sysctls); err != nil {
		return err
	}
	files := kernel.Files(wanted)
	for _, path := range kernelFiles {
		content, ok := files[path]
		if !ok {
			if err := p.Disk.Remove(path); err != nil {
				return err
			}
			continue
		}
		if has, err := p.Disk.Read(path, maxResult); err == nil && string(has) == content {
			continue
		}
		if err := p.store.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	if len(wanted.Modules)+len(wanted.Sysctls) > 0 {
		p.step(started, "the kernel has %d modules and %d sysctls, of which %d were set", len(wanted.Modules), len(wanted.Sysctls), len(differing))
	}
	return nil
}

// noteSysctls notes the values that sysctls had before, and restores those that the document no longer has.
func (p *Program) noteSysctls(wanted, differing map[string]string) error {
	before := p.store.State.Sysctls
	gone := map[string]string{}
	for name, value := range before {
		if _, ok := wanted[name]; !ok {
			gone[name] = value
		}
	}
	for _, err := range p.Kernel.GiveBack(gone) {
		p.Say("a sysctl that the document no longer has cannot be set back, and this is not tried again: %v", err)
	}
	noted := map[string]string{}
	for name := range wanted {
		if value, ok := before[name]; ok {
			noted[name] = value
		} else if value, ok := differing[name]; ok {
			noted[name] = value
		}
	}
	if len(noted) == 0 {
		noted = nil
	}
	if maps.Equal(before, noted) {
		return nil
	}
	p.store.State.Sysctls = noted
	return p.store.Save()
}

// undoKernel sets sysctls to the values that they had before, and removes the files. Modules stay loaded, because others may
// use them by now.
func (p *Program) undoKernel() error {
	for _, path := range kernelFiles {
		if err := p.Disk.Remove(path); err != nil {
			return err
		}
	}
	if err := p.noteSysctls(nil, nil); err != nil {
		return err
	}
	return p.store.RemoveFolders()
}
