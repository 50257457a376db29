package hosts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
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

// Failure is the error that says how a command ended.
func Failure(command []string, result ssh.Result) *CommandError {
	return &CommandError{Command: command, ExitStatus: result.ExitStatus, Output: lastLine(result.Stderr)}
}

func (e *CommandError) Error() string {
	message := fmt.Sprintf("%s ended with status %d", Line(strings.Join(e.Command, " "), MaxLine), e.ExitStatus)
	if e.Output != "" {
		message += ": " + e.Output
	}
	return message
}

// Try runs a command as root; its exit status is no error.
func (h *Host) Try(ctx context.Context, args ...string) (ssh.Result, error) {
	return h.connection.Run(ctx, h.asRoot(ssh.Command{Args: args}))
}

// Excerpt runs a command as root, and returns the beginning of its output. Its exit status is no error.
func (h *Host) Excerpt(ctx context.Context, args ...string) ([]byte, error) {
	result, err := h.connection.Run(ctx, h.asRoot(ssh.Command{Args: args, MayBeCut: true}))
	return result.Stdout, err
}

// SudoRefusal says why the user may not run commands as root without a password; empty when the user may.
func (h *Host) SudoRefusal(ctx context.Context) (string, error) {
	if len(h.sudo) == 0 {
		return "", nil
	}
	result, err := h.Try(ctx, "true")
	if err != nil || result.ExitStatus == 0 {
		return "", err
	}
	return lastLine(result.Stderr), nil
}

// Run runs a command as root that must succeed, and returns its output.
func (h *Host) Run(ctx context.Context, args ...string) ([]byte, error) {
	return h.Feed(ctx, nil, args...)
}

// Feed is Run with standard input.
func (h *Host) Feed(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	result, err := h.connection.Run(ctx, h.asRoot(ssh.Command{Args: args, Stdin: stdin}))
	return output(args, result, err)
}

// output is what a command printed that had to succeed.
func output(args []string, result ssh.Result, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if result.ExitStatus != 0 {
		return result.Stdout, Failure(args, result)
	}
	return result.Stdout, nil
}

// Change is Run of a command that changes the host. The log has it, as it has writes to API servers.
func (h *Host) Change(ctx context.Context, args ...string) error {
	return h.ChangeBy(ctx, nil, args...)
}

// ChangeBy is Change with standard input.
func (h *Host) ChangeBy(ctx context.Context, stdin []byte, args ...string) error {
	_, err := h.Feed(ctx, stdin, args...)
	return changed(ctx, args, err)
}

// TryChange is Change of a command whose exit status is no error.
func (h *Host) TryChange(ctx context.Context, args ...string) error {
	return h.TryChangeBy(ctx, nil, args...)
}

// TryChangeBy is TryChange with standard input.
func (h *Host) TryChangeBy(ctx context.Context, stdin []byte, args ...string) error {
	_, err := h.connection.Run(ctx, h.asRoot(ssh.Command{Args: args, Stdin: stdin, MayBeCut: true}))
	return changed(ctx, args, err)
}

// ChangeSilently is Change for a command whose output is of no use. The output may have any length.
func (h *Host) ChangeSilently(ctx context.Context, args ...string) error {
	result, err := h.connection.Run(ctx, h.asRoot(ssh.Command{Args: args, MayBeCut: true}))
	if err == nil && result.ExitStatus != 0 {
		err = Failure(args, result)
	}
	return changed(ctx, args, err)
}

// changed logs a command that did not fail, and returns the error of one that did.
func changed(ctx context.Context, command []string, err error) error {
	if err == nil {
		logChange(ctx, command...)
	}
	return err
}

func logChange(ctx context.Context, command ...string) {
	ctrl.LoggerFrom(ctx).V(writes.Verbosity).Info("Changed the host", "command", strings.Join(command, " "))
}

func (h *Host) asRoot(command ssh.Command) ssh.Command {
	command.Args = slices.Concat(h.sudo, command.Args)
	return command
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return Line(lines[len(lines)-1], MaxLine)
}
