// Package program runs kok-node-keys: it brings the node to what is wanted, again and again, and tells how far that is.
package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/node"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
)

const (
	// interval is how often the node is looked at: kubelet and people write the same files.
	interval = 5 * time.Second
	// stale is when a status is too old to be true. A run may wait for some answers of the tenant.
	stale = 2 * time.Minute
)

// Program is one run.
type Program struct {
	Node *node.Node
	// Folder has what is wanted, and Hash names it.
	Folder, Hash string
	// Lock is a file of the node that one program at a time holds: the pod of another phase may not have ended yet.
	Lock string
	// Status is the file that [Ready] reads.
	Status string
	// Patience is how long something may be waited for before the program ends: what it ends with is in the pod's status, where the manager
	// and people read it.
	Patience time.Duration

	held *os.File
}

// status is what the file has.
type status struct {
	// At is when the node was looked at.
	At time.Time `json:"at"`
	// Problem says what keeps the node from being as wanted; empty when it is.
	Problem string `json:"problem,omitempty"`
}

// Run runs until the context ends. It fails with what it waited for in vain.
func (p *Program) Run(ctx context.Context) error {
	var since time.Time
	told := "" // The log has each problem once.
	for ctx.Err() == nil {
		problem := p.bring(ctx)
		if problem != told {
			p.Node.Log.Info(map[bool]string{true: "The node is as it has to be", false: "The node is not yet as it has to be"}[problem == ""], "Problem", problem)
			told = problem
		}
		if err := p.tell(status{At: time.Now(), Problem: problem}); err != nil {
			return fmt.Errorf("write the status for the readiness probe: %w", err)
		}
		switch {
		case problem == "":
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > p.Patience:
			return errors.New(problem)
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
	return nil
}

// bring returns what keeps the node from being as wanted.
func (p *Program) bring(ctx context.Context) string {
	w, err := wanted.Read(p.Folder, p.Hash)
	if err != nil {
		return err.Error()
	}
	if err := p.lock(); err != nil {
		return err.Error()
	}
	waits, err := p.Node.Bring(ctx, w)
	if err != nil {
		return err.Error()
	}
	return waits
}

// lock holds the lock until this process ends, however that happens.
func (p *Program) lock() error {
	if p.held != nil {
		return nil
	}
	file, err := os.OpenFile(p.Lock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	switch err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return errors.Join(errors.New("another pod of kok-node-keys works on this node: it has to end first"), file.Close())
	case err != nil:
		return errors.Join(fmt.Errorf("lock %s: %w", p.Lock, err), file.Close())
	}
	p.held = file
	return nil
}

func (p *Program) tell(s status) error {
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	part := p.Status + ".part"
	if err := os.WriteFile(part, content, 0o600); err != nil {
		return err
	}
	return os.Rename(part, p.Status)
}

// Ready fails while the node is not as wanted, with the reason.
func Ready(file string, now time.Time) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("the node was not looked at yet: %w", err)
	}
	s := status{}
	if err := json.Unmarshal(content, &s); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if age := now.Sub(s.At); age > stale {
		return fmt.Errorf("the node was last looked at %s ago", age.Round(time.Second))
	}
	if s.Problem != "" {
		return errors.New(s.Problem)
	}
	return nil
}
