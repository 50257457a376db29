package program

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/fetch"
)

// Install brings the machine into the state of the document. When that fails on a machine without a successful install, it
// undoes everything.
func (p *Program) Install(ctx context.Context, read func() (software.Document, error)) error {
	return p.locked(func() ([]string, error) {
		document, err := read()
		if err != nil {
			return nil, err
		}
		avoided, err := p.install(ctx, document)
		if err != nil && !p.store.State.Complete {
			undo, cancel := afterwards(ctx)
			defer cancel()
			p.Say("the first installation failed: it is undone")
			err = errors.Join(err, p.undoAll(undo))
		}
		return avoided, err
	})
}

func (p *Program) install(ctx context.Context, document software.Document) ([]string, error) {
	revisions, err := p.plan(document)
	if err != nil {
		return nil, err
	}
	if err := p.refuseFailed(ctx, revisions); err != nil {
		return nil, err
	}
	files, err := p.downloads(revisions)
	if err != nil {
		return nil, err
	}
	fetcher := p.Fetcher(document.Mirrors)
	if len(files) > 0 {
		if err := p.timed(&p.spent.download, func() error { return fetcher.All(ctx, files) }); err != nil {
			return fetcher.Avoided(), err
		}
	}
	return fetcher.Avoided(), p.apply(ctx, document, revisions)
}

// refuseFailed refuses revisions whose check failed before, and takes back those that a cut-off run left in use.
func (p *Program) refuseFailed(ctx context.Context, revisions []revision) error {
	for _, r := range revisions {
		if !p.failedBefore(r) {
			continue
		}
		said := p.store.Find(r.name).Failed[r.digest]
		if err := p.takeBackIfUsed(ctx, r); err != nil {
			return software.OfComponent(r.name, err)
		}
		return software.Problemf(software.NotWorking, r.name, "revision %.12s failed before and is not tried again: %s. Run %s install --retry-failed to try it again, or give the machine other software",
			r.digest, said, software.Program)
	}
	return nil
}

// apply changes the machine.
func (p *Program) apply(ctx context.Context, document software.Document, revisions []revision) error {
	if err := p.removeOthers(ctx, revisions); err != nil {
		return err
	}
	if err := p.setKernel(ctx, document.Kernel); err != nil {
		return software.Problemf(software.NotInstalled, "", "%w", err)
	}
	names := make([]string, 0, len(revisions))
	for _, r := range revisions {
		names = append(names, r.name)
		if err := p.component(ctx, r); err != nil {
			return software.OfComponent(r.name, err)
		}
	}
	p.store.SetOrder(names)
	p.store.State.Document, p.store.State.Version, p.store.State.Complete = document.Name, document.Version, true
	if err := p.store.Save(); err != nil {
		return err
	}
	return p.Disk.RemoveAll(strings.TrimSuffix(fetch.Dir, "/"))
}

// removeOthers removes components that the document no longer has.
func (p *Program) removeOthers(ctx context.Context, revisions []revision) error {
	names, err := p.store.Names()
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(names) {
		if slices.ContainsFunc(revisions, func(r revision) bool { return r.name == name }) {
			continue
		}
		started := time.Now()
		if err := p.undo(ctx, name); err != nil {
			return software.OfComponent(name, err)
		}
		if err := p.store.Forget(name); err != nil {
			return software.OfComponent(name, err)
		}
		p.step(started, "removed %s, which the document has no more", name)
	}
	return nil
}

// component installs one component, or changes it to the document's revision.
func (p *Program) component(ctx context.Context, r revision) error {
	entry := p.store.Entry(r.name)
	entry.Wanted, entry.Check = r.digest, r.Component.Check
	delete(entry.Failed, r.digest)
	started := time.Now()
	if err := p.stage(r); err != nil {
		return err
	}
	needed, err := p.needed(ctx, r)
	if err != nil {
		return err
	}
	if !needed {
		return errors.Join(p.keepRunning(ctx, r), p.store.Prune(r.name))
	}
	if err := p.noteUnit(ctx, entry, r.Component.Unit.Name); err != nil {
		return err
	}
	entry.Unsettled = true
	if err := p.store.Save(); err != nil {
		return err
	}
	if err := p.replace(ctx, r); err != nil {
		if entry.Working == r.digest {
			// This revision worked before. Something else is wrong, and an older revision would not help.
			return err
		}
		undo, cancel := afterwards(ctx)
		defer cancel()
		return errors.Join(err, p.takeBack(undo, r.name))
	}
	if err := p.settle(r.name, r.digest, r.Component.Unit.Name == "" && r.Component.Check.Type != ""); err != nil {
		return err
	}
	p.step(started, "installed %s, revision %.12s", r.name, r.digest)
	return nil
}

// needed reports whether anything must change.
func (p *Program) needed(ctx context.Context, r revision) (bool, error) {
	inOrder, err := p.store.InOrder(r.name, r.digest)
	if err != nil || !inOrder || p.store.Find(r.name).Unsettled {
		return true, err
	}
	missing, err := p.Packages.Missing(ctx, r.Variant.Packages)
	return len(missing) > 0, err
}

// keepRunning starts a unit that was stopped.
func (p *Program) keepRunning(ctx context.Context, r revision) error {
	unit := r.Component.Unit.Name
	if unit == "" {
		return nil
	}
	state, err := p.Units.State(ctx, unit)
	if err != nil {
		return err
	}
	if !state.Enabled {
		if err := p.Units.Enable(ctx, unit); err != nil {
			return err
		}
	}
	if state.Active == "active" || state.Active == "reloading" {
		return nil
	}
	p.Say("%s is %s, it is started", unit, state.Active)
	return p.Units.Start(ctx, unit)
}

// replace switches to a revision, starts it and checks it.
func (p *Program) replace(ctx context.Context, r revision) error {
	if err := p.dropOtherUnits(ctx, r.name, r.Component.Unit.Name); err != nil {
		return err
	}
	if err := p.store.Switch(r.name, r.digest); err != nil {
		return err
	}
	if err := p.installPackages(ctx, r.Variant.Packages); err != nil {
		return err
	}
	if err := p.Units.Reload(ctx); err != nil {
		return err
	}
	unit := r.Component.Unit.Name
	if unit == "" {
		return nil
	}
	if err := p.Units.Enable(ctx, unit); err != nil {
		return err
	}
	err := p.timed(&p.spent.check, func() error {
		if err := p.restart(ctx, unit, r.Component.Check); err != nil {
			return err
		}
		if wanted, ok := unitCheck(r.Component); ok {
			return p.Checker.Wait(ctx, wanted)
		}
		return nil
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("wait for %s: %w", unit, context.Cause(ctx))
	}
	return p.notWorking(ctx, p.store.Find(r.name), r.digest, unit, err)
}
