package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// Connection runs commands on a host; an *ssh.Client is one.
type Connection interface {
	// Run returns how a command ended. An error means that nobody knows how it ended.
	Run(ctx context.Context, command ssh.Command) (ssh.Result, error)
}

// Host is a host that we are logged in to.
type Host struct {
	connection Connection
	// sudo is put before commands that need root; empty when the user is root.
	sudo []string
}

// New returns the host behind a connection of that user.
func New(connection Connection, user string) *Host {
	h := &Host{connection: connection}
	if user != "root" {
		h.sudo = []string{"sudo", "-n", "--"}
	}
	return h
}

// CommandError says that a command failed on the host.
type CommandError struct {
	// Command is the program and its arguments.
	Command []string
	// ExitStatus is what it ended with.
	ExitStatus int
	// Output is the end of what it wrote to standard error.
	Output string
}

func (e *CommandError) Error() string {
	message := fmt.Sprintf("%s ended with status %d", strings.Join(e.Command, " "), e.ExitStatus)
	if e.Output != "" {
		message += ": " + e.Output
	}
	return message
}

// ProblemError says that work on a host failed because of a problem that a probe found.
type ProblemError struct {
	Problem Problem
	// Err is what went wrong.
	Err error
}

func (e *ProblemError) Error() string { return fmt.Sprintf("%s (%v)", e.Problem.Message, e.Err) }

// Unwrap returns what went wrong.
func (e *ProblemError) Unwrap() error { return e.Err }

// explain probes the host after a command failed: the cause may be a problem that came up since the last probe.
func (h *Host) explain(ctx context.Context, err error) error {
	var failed *CommandError
	if !errors.As(err, &failed) {
		return err
	}
	if _, problem, probeErr := h.Probe(ctx); probeErr == nil && problem != nil {
		return &ProblemError{Problem: *problem, Err: err}
	}
	return err
}

// try runs a command as root; its exit status is no error.
func (h *Host) try(ctx context.Context, args ...string) (ssh.Result, error) {
	return h.connection.Run(ctx, ssh.Command{Args: append(append([]string{}, h.sudo...), args...)})
}

// excerpt is the beginning of what a command writes as root, for texts of which the beginning is enough.
func (h *Host) excerpt(ctx context.Context, args ...string) ([]byte, error) {
	result, err := h.connection.Run(ctx, ssh.Command{Args: append(append([]string{}, h.sudo...), args...), MayBeCut: true})
	return result.Stdout, err
}

// run runs a command as root that must succeed, and returns its output.
func (h *Host) run(ctx context.Context, args ...string) ([]byte, error) {
	return h.feed(ctx, nil, args...)
}

// feed is run with standard input.
func (h *Host) feed(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	result, err := h.connection.Run(ctx, ssh.Command{Args: append(append([]string{}, h.sudo...), args...), Stdin: stdin})
	if err != nil {
		return nil, err
	}
	if result.ExitStatus != 0 {
		return result.Stdout, &CommandError{Command: args, ExitStatus: result.ExitStatus, Output: lastLine(result.Stderr)}
	}
	return result.Stdout, nil
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return line(lines[len(lines)-1], maxLine)
}

// write replaces a file that only root may read. Its folder must exist. A reader sees the old content
// or the new one.
func (h *Host) write(ctx context.Context, file string, content []byte) error {
	temporary := temporaryOf(file)
	steps := [][]string{
		{"install", "-m", "0600", "/dev/null", temporary},
		// Standard input may be a pipe or a socket, and dd reads both.
		{"dd", "of=" + temporary, "status=none", "conv=fsync"},
		{"mv", "-f", temporary, file},
	}
	for i, step := range steps {
		var input []byte
		if i == 1 {
			input = content
		}
		if _, err := h.feed(ctx, input, step...); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	return nil
}

// temporaryOf is where a file is written before it is complete.
func temporaryOf(file string) string {
	return path.Join(path.Dir(file), "."+path.Base(file)+".new")
}

// existing returns the paths that exist. find also prints the root folder: without it the output is not find's, but for
// example a refusal of sudo.
func (h *Host) existing(ctx context.Context, paths ...string) ([]string, error) {
	args := append(append([]string{"find", "/"}, paths...), "-maxdepth", "0", "-print0")
	result, err := h.try(ctx, args...)
	if err != nil {
		return nil, err
	}
	found := list(result.Stdout)
	if len(found) == 0 || found[0] != "/" {
		return nil, &CommandError{Command: args[:1], ExitStatus: result.ExitStatus, Output: lastLine(result.Stderr)}
	}
	return found[1:], nil
}

// list splits an output into records. Each ends with a zero byte.
func list(output []byte) []string {
	var records []string
	for record := range bytes.SplitSeq(output, []byte{0}) {
		if len(record) > 0 {
			records = append(records, string(record))
		}
	}
	return records
}
