package program

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/store"
)

// noteUnit records the state of a unit before the component is installed.
func (p *Program) noteUnit(ctx context.Context, entry *store.Component, unit string) error {
	if _, noted := entry.Units[unit]; noted || unit == "" {
		return nil
	}
	state, err := p.Units.State(ctx, unit)
	if err != nil {
		return err
	}
	if entry.Units == nil {
		entry.Units = map[string]store.Unit{}
	}
	entry.Units[unit] = store.Unit{Enabled: state.Known && state.Enabled, Active: state.Active == "active"}
	return nil
}

// dropOtherUnits stops all units of a component except one.
func (p *Program) dropOtherUnits(ctx context.Context, name, keep string) error {
	_, all, err := p.store.Everything(name)
	if err != nil {
		return err
	}
	for _, unit := range all {
		entry := p.store.Find(name)
		if unit == keep || entry == nil {
			continue
		}
		// We never started a unit without a note.
		if _, noted := entry.Units[unit]; !noted {
			continue
		}
		state, err := p.Units.State(ctx, unit)
		if err != nil {
			return err
		}
		if state.Active != "inactive" && state.Active != "" {
			if err := p.Units.Stop(ctx, unit); err != nil {
				return err
			}
		}
		if state.Enabled {
			if err := p.Units.Disable(ctx, unit); err != nil {
				return err
			}
		}
	}
	return nil
}

// restoreUnits puts back the state that units of a component had before it was installed.
func (p *Program) restoreUnits(ctx context.Context, entry *store.Component, keep string) error {
	for _, unit := range slices.Sorted(maps.Keys(entry.Units)) {
		before := entry.Units[unit]
		if unit == keep {
			continue
		}
		if before.Enabled {
			if err := p.Units.Enable(ctx, unit); err != nil {
				return err
			}
		}
		if before.Active {
			if err := p.Units.Start(ctx, unit); err != nil {
				return err
			}
		}
		delete(entry.Units, unit)
	}
	return nil
}

// undo removes everything of a component.
func (p *Program) undo(ctx context.Context, name string) error {
	if err := p.dropOtherUnits(ctx, name, ""); err != nil {
		return err
	}
	if err := p.store.Undo(name); err != nil {
		return err
	}
	if err := p.Units.Reload(ctx); err != nil {
		return err
	}
	entry := p.store.Find(name)
	if entry == nil {
		return nil
	}
	if err := p.restoreUnits(ctx, entry, ""); err != nil {
		return err
	}
	entry.Unsettled, entry.Working, entry.Before = false, "", ""
	return p.store.Save()
}

// takeBack switches back to the revision that worked before, or removes the component.
func (p *Program) takeBack(ctx context.Context, name string) error {
	entry := p.store.Find(name)
	working := entry.Working
	staged := false
	if working != "" {
		var err error
		if staged, err = p.store.Staged(name, working); err != nil {
			return err
		}
	}
	if !staged {
		p.Say("%s is removed: no revision of it worked before", name)
		return p.undo(ctx, name)
	}
	m, err := p.store.Manifest(name, working)
	if err != nil {
		return err
	}
	if err := p.dropOtherUnits(ctx, name, m.Unit); err != nil {
		return err
	}
	if err := p.store.Switch(name, working); err != nil {
		return fmt.Errorf("bring revision %.12s back: %w", working, err)
	}
	if err := p.Units.Reload(ctx); err != nil {
		return err
	}
	restart := m.Unit
	if restart != "" {
		if err := p.Units.Enable(ctx, restart); err != nil {
			return err
		}
	} else {
		restart = entry.Check.Unit
	}
	if restart != "" {
		if err := p.Units.Restart(ctx, restart); err != nil {
			return fmt.Errorf("start revision %.12s, which is back: %w", working, err)
		}
	}
	if err := p.restoreUnits(ctx, entry, m.Unit); err != nil {
		return err
	}
	entry.Unsettled = false
	p.Say("revision %.12s of %s is back", working, name)
	return p.store.Save()
}

// takeBackIfUsed takes back a revision that a cut-off run left in use.
func (p *Program) takeBackIfUsed(ctx context.Context, r revision) error {
	current, err := p.store.Current(r.name)
	if err != nil {
		return err
	}
	if current != r.digest && !p.store.Find(r.name).Unsettled {
		return nil
	}
	return p.takeBack(ctx, r.name)
}

// undoAll puts the machine back into its state before the first install, except for software.Dir.
func (p *Program) undoAll(ctx context.Context) error {
	names, err := p.store.Names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Backward(names) {
		if err := p.undo(ctx, name); err != nil {
			errs = append(errs, software.OfComponent(name, err))
		}
	}
	return errors.Join(append(errs, p.undoKernel())...)
}
