package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// worktree is a checkout of HEAD beside the one that people work in. It is always at the same place, so that Go finds in its
// cache what it compiled there before.
type worktree struct {
	// dir is the checkout, and logs the folder that it is in.
	dir, logs string
	// commit is what is checked out.
	commit string
	lock   *os.File
}

// openWorktree checks HEAD out in a folder, which is made, and which one program uses at a time.
func openWorktree(logs string) (*worktree, error) {
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	w := &worktree{dir: filepath.Join(logs, "tree"), logs: logs}
	var err error
	if w.lock, err = os.OpenFile(filepath.Join(logs, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err := unix.Flock(int(w.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s, which another run may use: %w", logs, err), w.lock.Close())
	}
	if err := w.checkOut(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(w.dir), w.lock.Close())
	}
	return w, nil
}

func (w *worktree) checkOut() error {
	// A run that was killed left its checkout. --force is for git, which still lists it.
	if err := os.RemoveAll(w.dir); err != nil {
		return err
	}
	commit, err := git("", "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return err
	}
	w.commit = strings.TrimSpace(commit)
	_, err = git("", "worktree", "add", "--force", "--detach", w.dir, "HEAD")
	return err
}

// reset takes back what a patch and tests changed.
func (w *worktree) reset() error {
	if _, err := git(w.dir, "reset", "--hard", "--quiet"); err != nil {
		return err
	}
	_, err := git(w.dir, "clean", "-ffdxq")
	return err
}

func (w *worktree) apply(patch string) error {
	_, err := git(w.dir, "apply", "--whitespace=nowarn", patch)
	return err
}

// close removes the checkout and lets others use the folder.
func (w *worktree) close() error {
	_, err := git("", "worktree", "remove", "--force", w.dir)
	return errors.Join(err, w.lock.Close())
}

// git runs a command of git in a folder. An interrupt of the terminal does not reach it: it is short, and what it leaves half
// done would be in the way of the clean-up.
func git(dir string, arguments ...string) (output string, err error) {
	cmd := exec.Command("git", arguments...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(arguments, " "), err, strings.ReplaceAll(strings.TrimSpace(problem.String()), "\n", "; "))
	}
	return out.String(), nil
}
