package program

import (
	"context"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

// Remove makes the machine as it was before the first install. Packages stay, and so do modules of the kernel.
func (p *Program) Remove(ctx context.Context) error {
	if there, err := p.Disk.Exists(software.Dir); err != nil || !there {
		return err
	}
	return p.locked(func() ([]string, error) {
		if err := p.undoAll(ctx); err != nil {
			return nil, err
		}
		p.Say("everything is removed, but packages")
		return nil, p.Disk.RemoveAll(strings.TrimSuffix(software.Dir, "/"))
	})
}
