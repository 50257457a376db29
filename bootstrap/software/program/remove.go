package program

import (
	"context"
	"os"
	"path"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

// Remove puts the machine back into its state before the first install. Packages and modules of the kernel stay.
func (p *Program) Remove(ctx context.Context) error {
	if there, err := p.Disk.Exists(software.Dir); err != nil || !there {
		return err
	}
	return p.locked(func() ([]string, error) {
		if err := p.undoAll(ctx); err != nil {
			return nil, err
		}
		if err := p.forgetAll(); err != nil {
			return nil, err
		}
		p.Say("everything is removed, but packages")
		return nil, p.removeDir()
	})
}

// forgetAll removes all revisions. removeDir does that, too, but when it is cut off, it may leave half of a revision that looks whole.
func (p *Program) forgetAll() error {
	names, err := p.store.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := p.store.Forget(name); err != nil {
			return software.OfComponent(name, err)
		}
	}
	return nil
}

// removeDir removes software.Dir. The program itself goes last: while anything is left, the program is there to remove it.
func (p *Program) removeDir() error {
	entries, err := os.ReadDir(p.Disk.Place(software.Dir))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if own := path.Join(software.Dir, entry.Name()); own != path.Dir(software.Program) {
			if err := p.Disk.RemoveAll(own); err != nil {
				return err
			}
		}
	}
	return p.Disk.RemoveAll(strings.TrimSuffix(software.Dir, "/"))
}
