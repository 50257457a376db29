package program

import (
	"context"
	"errors"
	"fmt"
	"time"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/store"
)

// Check checks every component. A component that fails and never worked is taken back.
func (p *Program) Check(ctx context.Context) error {
	return p.locked(func() ([]string, error) {
		var errs []error
		for _, entry := range p.store.State.Components {
			if err := p.check(ctx, entry); err != nil {
				errs = append(errs, software.OfComponent(entry.Name, err))
			}
		}
		return p.lastAvoided(), errors.Join(errs...)
	})
}

func (p *Program) check(ctx context.Context, entry *store.Component) error {
	current, err := p.store.Current(entry.Name)
	if err != nil {
		return err
	}
	if entry.Unsettled || current != entry.Wanted {
		return p.unfinished(ctx, entry)
	}
	if entry.Check.Type == "" {
		return nil
	}
	started := time.Now()
	err = p.Checker.Wait(ctx, entry.Check)
	if err == nil {
		p.step(started, "%s works", entry.Name)
		return p.settle(entry.Name, current, false)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("check: %w", context.Cause(ctx))
	}
	worked := entry.Working == current
	problem := p.notWorking(ctx, entry, current, p.unitOf(entry, current), err)
	if worked {
		return problem
	}
	undo, cancel := afterwards(ctx)
	defer cancel()
	return errors.Join(problem, p.takeBack(undo, entry.Name))
}

// unfinished says why the machine does not use the document's revisions, and takes back what a cut-off run left in use.
func (p *Program) unfinished(ctx context.Context, entry *store.Component) error {
	said, failed := entry.Failed[entry.Wanted]
	if !failed {
		return fmt.Errorf("its install did not end; run %s install again", software.Program)
	}
	if entry.Unsettled {
		if err := p.takeBack(ctx, entry.Name); err != nil {
			return err
		}
	}
	return software.Problemf(software.NotWorking, entry.Name, "revision %.12s did not work, and was taken back: %s", entry.Wanted, said)
}

// unitOf is the unit whose journal may say what is wrong.
func (p *Program) unitOf(entry *store.Component, digest string) string {
	if entry.Check.Type == bootstrapv1.CheckUnit {
		return entry.Check.Unit
	}
	m, err := p.store.Manifest(entry.Name, digest)
	if err != nil {
		return ""
	}
	return m.Unit
}
