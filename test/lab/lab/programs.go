package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// ProgramFolder is where a program of the lab, such as its mirror, keeps what it has. It goes with the lab's disks.
func (l *Lab) ProgramFolder(name string) string { return filepath.Join(l.state, "programs", name) }

// ProgramLog is the file that a program of the lab writes its log to.
func (l *Lab) ProgramLog(name string) string { return filepath.Join(l.ProgramFolder(name), "log") }

func (l *Lab) programRecord(name string) string {
	return filepath.Join(l.ProgramFolder(name), "process.json")
}

// BecomeProgram makes this process a program of the lab, which is up: Down ends it. There is one of a name at a time.
func (l *Lab) BecomeProgram(ctx context.Context, name string) error {
	// Before the lock as well: a lab that is gone leaves no lock behind.
	if err := l.checkUp(); err != nil {
		return err
	}
	return l.locked(ctx, func() error {
		if err := l.checkUp(); err != nil {
			return err
		}
		if err := host.RecordProgram(l.programRecord(name)); err != nil {
			return fmt.Errorf("become the lab's program %s: %w", name, err)
		}
		return nil
	})
}

func (l *Lab) checkUp() error {
	owner, err := host.Owner(l.network)
	if err == nil && owner != l.state {
		err = errors.New("the lab is not up: bring it up first")
	}
	return err
}

// Program is the number of the process that is a program of the lab; 0 when none is.
func (l *Lab) Program(name string) (pid int, err error) { return host.Program(l.programRecord(name)) }

// EndProgram ends a program of the lab at once, if it runs.
func (l *Lab) EndProgram(ctx context.Context, name string) error {
	return l.locked(ctx, func() error { return l.endProgram(ctx, name) })
}

func (l *Lab) endProgram(ctx context.Context, name string) error {
	if err := host.EndProgram(ctx, l.programRecord(name)); err != nil {
		return fmt.Errorf("end the lab's program %s: %w", name, err)
	}
	return nil
}

// endPrograms ends all programs of the lab.
func (l *Lab) endPrograms(ctx context.Context) error {
	entries, err := os.ReadDir(filepath.Join(l.state, "programs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var failed []error
	for _, entry := range entries {
		failed = append(failed, l.endProgram(ctx, entry.Name()))
	}
	return errors.Join(failed...)
}

// collectPrograms copies what programs of the lab said.
func (l *Lab) collectPrograms(directory string) error {
	logs, err := filepath.Glob(l.ProgramLog("*"))
	failed := []error{err}
	for _, log := range logs {
		failed = append(failed, copyRegular(log, filepath.Join(directory, filepath.Base(filepath.Dir(log))+".log")))
	}
	return errors.Join(failed...)
}
