package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// searchPath of commands in a host.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// ExecError is a command in a host that did not succeed.
type ExecError struct {
	Host string
	Argv []string
	// Stderr is what the command wrote there, without surrounding space.
	Stderr string
	Err    error
}

func (e *ExecError) Error() string {
	message := fmt.Sprintf("on %s, %s: %v", e.Host, strings.Join(e.Argv, " "), e.Err)
	if e.Stderr != "" {
		message += ": " + e.Stderr
	}
	return message
}

func (e *ExecError) Unwrap() error { return e.Err }

// Exec runs a command inside the booted host, in its namespaces and cgroups, and gives what it wrote to its standard
// output. A failure is an *ExecError with what it wrote to its standard error. The context's end kills the command.
func (h *Host) Exec(ctx context.Context, stdin io.Reader, argv ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	err := h.Run(ctx, stdin, &stdout, &stderr, argv...)
	if err != nil {
		err = &ExecError{Host: h.Name, Argv: argv, Stderr: strings.TrimSpace(stderr.String()), Err: err}
	}
	return stdout.Bytes(), err
}

// Run runs a command inside the booted host with the given streams; an *exec.ExitError carries its exit code.
func (h *Host) Run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, argv ...string) error {
	if len(argv) == 0 {
		return errors.New("no command given")
	}
	if !h.Booted() {
		return fmt.Errorf("host %s is powered off", h.Name)
	}
	r, err := h.loadRun()
	if err != nil {
		return err
	}
	groups, err := makeExecGroups(r.Groups)
	if err != nil {
		return err
	}
	// What the command left running in the background keeps them.
	defer func() { _ = removeEmptyGroups(groups) }()
	arguments := append([]string{"-t", strconv.Itoa(r.Init.PID), "-m", "-u", "-i", "-n", "-p", "-C", "--"}, argv...)
	cmd := exec.CommandContext(ctx, "nsenter", arguments...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + searchPath, "HOME=/root", "LANG=C.UTF-8", "TERM=" + os.Getenv("TERM")}
	// The command is a child of nsenter, and may have children: all end together.
	cmd.Cancel = func() error { return errors.Join(killControlGroups(groups), cmd.Process.Kill()) }
	cmd.WaitDelay = 5 * time.Second
	if err := startIn(groups, cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

// commands counts what this process ran in hosts.
var commands atomic.Int64

// makeExecGroups makes cgroups for one command, two levels down: in cgroup v2 those of the host must stay empty.
func makeExecGroups(groups []controlGroup) ([]controlGroup, error) {
	all, own := slices.Clone(groups), slices.Clone(groups)
	name := fmt.Sprintf("%d-%d", os.Getpid(), commands.Add(1))
	for i := range groups {
		all[i].Path = filepath.Join(groups[i].Path, "lab-exec")
		own[i].Path = filepath.Join(all[i].Path, name)
	}
	return own, errors.Join(makeControlGroups(all), makeControlGroups(own))
}

// removeEmptyGroups removes cgroups that nothing runs in any more.
func removeEmptyGroups(groups []controlGroup) error {
	var errs []error
	for _, g := range groups {
		errs = append(errs, os.Remove(g.Path))
	}
	return errors.Join(errs...)
}
