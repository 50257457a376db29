// Package program installs the software of a document on a machine, checks it, and undoes it. It has the order of the steps;
// other packages do each of them.
package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/fetch"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/kernel"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/packages"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/store"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/units"
)

// Checker checks whether a component works.
type Checker interface {
	Wait(ctx context.Context, wanted bootstrapv1.SoftwareCheck) error
}

// Fetcher downloads files.
type Fetcher interface {
	All(ctx context.Context, files []fetch.File) error
	Avoided() []string
}

// Program is the program on one machine.
type Program struct {
	Disk     *disk.Disk
	Facts    func() (facts.Facts, error)
	Units    units.Manager
	Checker  Checker
	Packages packages.Installer
	Kernel   *kernel.Kernel
	Fetcher  func(mirrors []software.Mirror) Fetcher
	// RetryFailed also tries revisions whose check failed before.
	RetryFailed bool
	// Log has a line for each step.
	Log io.Writer

	store *store.Store
	// spent is where the time of this run went. clock tells the time; nil stands for time.Now.
	spent spent
	clock func() time.Time
}

// Say writes a line for people.
func (p *Program) Say(format string, args ...any) {
	_, _ = fmt.Fprintln(p.Log, software.WithoutSecrets(fmt.Sprintf(format, args...)))
}

// step logs how long something took.
func (p *Program) step(started time.Time, format string, args ...any) {
	p.Say("%s in %.1f s", fmt.Sprintf(format, args...), time.Since(started).Seconds())
}

// locked runs something with the state of the machine, while no other run is under way, and writes its result.
func (p *Program) locked(run func() ([]string, error)) error {
	release, err := store.Lock(p.Disk)
	if err != nil {
		return software.Problemf(software.NotInstalled, "", "%w", err)
	}
	defer release()
	var avoided []string
	if p.store, err = store.Open(p.Disk); err == nil {
		avoided, err = run()
	}
	result := software.ResultOf(err)
	result.Avoided, result.Took = avoided, p.took()
	return errors.Join(err, p.writeResult(result))
}

// maxResult bounds a result file. No result is as long.
const maxResult = 1 << 20

// writeResult writes the result when it differs from the last one.
func (p *Program) writeResult(result software.Result) error {
	data, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	has, err := p.Disk.Read(software.ResultFile, maxResult)
	if err == nil && string(has) == string(data) {
		return nil
	}
	if there, err := p.Disk.Exists(software.Dir); err != nil || !there {
		// remove has succeeded.
		return err
	}
	if err := p.Disk.Write(software.ResultFile, data, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", software.ResultFile, err)
	}
	return nil
}

// undoTimeout bounds the undoing after the time of a run is over.
const undoTimeout = 5 * time.Minute

// afterwards is a context for undoing: that of the run may have ended.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
}
