package program

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/check"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/store"
)

// maxStart bounds the start of a unit without a check.
const maxStart = 5 * time.Minute

// restart restarts a unit, which may take no longer than its check.
func (p *Program) restart(ctx context.Context, unit string, c bootstrapv1.SoftwareCheck) error {
	timeout := maxStart
	if c.Type != "" {
		timeout = check.Timeout(c)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it did not start within %s", timeout))
	defer cancel()
	return p.Units.Restart(ctx, unit)
}

// notWorking records that a revision failed, before it is taken back.
func (p *Program) notWorking(ctx context.Context, entry *store.Component, digest, unit string, err error) error {
	text := err.Error()
	if unit != "" {
		if words := p.Units.Journal(ctx, unit); words != "" {
			text += "; the last that " + unit + " said: " + words
		}
	}
	text = strings.TrimSuffix(software.WithoutSecrets(text), ".")
	if entry.Working == digest {
		return software.Problemf(software.NotWorking, entry.Name, "revision %.12s does not work, and did before: %s", digest, text)
	}
	back := "nothing was there before, and it is removed"
	if entry.Working != "" {
		back = fmt.Sprintf("revision %.12s, which was there before, comes back", entry.Working)
	}
	if entry.Failed == nil {
		entry.Failed = map[string]string{}
	}
	entry.Failed[digest], entry.Unsettled = text, true
	return errors.Join(software.Problemf(software.NotWorking, entry.Name, "revision %.12s does not work, and %s: %s", digest, back, text), p.store.Save())
}

// settle records that a revision is in use. A component without a unit is checked later, when the bootstrap has started the
// programs that use it.
func (p *Program) settle(name, digest string, later bool) error {
	entry := p.store.Find(name)
	entry.Unsettled = false
	if !later && entry.Working != digest {
		entry.Before, entry.Working = entry.Working, digest
	}
	if err := p.store.Save(); err != nil {
		return err
	}
	return p.store.Prune(name)
}

func (p *Program) installPackages(ctx context.Context, wanted []bootstrapv1.Package) error {
	missing, err := p.Packages.Missing(ctx, wanted)
	if err != nil || len(missing) == 0 {
		return err
	}
	started := time.Now()
	if err := p.Packages.Install(ctx, missing); err != nil {
		return err
	}
	p.step(started, "installed %d packages", len(missing))
	return nil
}
