package ssh

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// MaxOutput is how much of a command's output is kept, in bytes, unless the command says otherwise: a host must not fill the
// manager's memory.
const MaxOutput = 1 << 20

// endTime is how long Run waits for a command whose context ended. sshd passes no signal on to root's commands.
const endTime = 10 * time.Second

// Command is a program and its arguments.
type Command struct {
	// Args are the program and its arguments. Each arrives unchanged.
	Args []string
	// Stdin is what the program reads.
	Stdin []byte
	// MayBeCut accepts that only the first bytes of standard output are kept. Without it, more is an error: a reader of a list
	// must not take a part for the whole.
	MayBeCut bool
	// MaxOutput is how much of standard output is kept, in bytes; 0 for the constant of that name.
	MaxOutput int
}

// Result is how a command ended.
type Result struct {
	// Stdout and Stderr are the first bytes of each: a MiB, unless the command has another MaxOutput for Stdout.
	Stdout []byte
	Stderr []byte
	// ExitStatus is 0 for success, 127 when the program is not there (POSIX shell, section 2.8.2).
	ExitStatus int
}

// Run runs a command and waits for its end. An exit status other than 0 is no error. An error means that nobody knows how
// the command ended; it is an *Error when the connection ended. When the context ends, Run signals the command and waits
// some seconds for its end. A server that opens no session until then loses the connection. Standard output of more than MaxOutput is an error, unless MayBeCut is set.
func (c *Client) Run(ctx context.Context, command Command) (Result, error) {
	result := Result{}
	session, err := c.open(ctx)
	if err != nil {
		return result, fmt.Errorf("run %s: open a session: %w", command.Args[0], err)
	}
	stdout, stderr := &bounded{most: command.Bound()}, &bounded{most: MaxOutput}
	session.Stdout, session.Stderr = stdout, stderr
	session.Stdin = bytes.NewReader(command.Stdin)
	ended := make(chan struct{})
	var ending error
	go func() {
		defer close(ended)
		ending = session.Run(Quote(command.Args))
	}()
	select {
	case <-ended:
		err = ending
	case <-ctx.Done():
		// The command must end before other work on the host begins. But a command that ignores the signal, or a silent
		// peer, must not delay other commands on the same connection.
		go func() { _ = session.Signal(ssh.SIGTERM) }()
		select {
		case <-ended:
		case <-time.After(endTime):
		}
		go func() { _ = session.Close() }()
		return result, fmt.Errorf("run %s: %w", command.Args[0], ctx.Err())
	}
	_ = session.Close()

	result.Stdout, result.Stderr = stdout.kept, stderr.kept
	var exit *ssh.ExitError
	if errors.As(err, &exit) && exit.Signal() == "" {
		result.ExitStatus, err = exit.ExitStatus(), nil
	}
	switch {
	case err == nil && stdout.dropped && !command.MayBeCut:
		return result, fmt.Errorf("run %s: it wrote more than %d bytes, and the rest is lost", Quote(command.Args), stdout.most)
	case err != nil:
		return result, c.explain(fmt.Errorf("run %s: %w", command.Args[0], err))
	}
	return result, nil
}

// open opens a session. When the context ends first, it ends the connection: nothing else ends the wait for a server that is silent to this
// alone.
func (c *Client) open(ctx context.Context) (*ssh.Session, error) {
	stays := context.AfterFunc(ctx, c.Close)
	session, err := c.client.NewSession()
	switch {
	case !stays():
		return nil, ctx.Err()
	case err != nil:
		return nil, c.explain(err)
	}
	return session, nil
}

// explain returns an *Error for a connection that ended. It returns other errors as they are: a signal ended the command, or
// the server refused to run it.
func (c *Client) explain(err error) error {
	var exit *ssh.ExitError
	var refused *ssh.OpenChannelError
	switch {
	case errors.As(err, &exit):
		return err
	case errors.As(err, &refused):
		return fmt.Errorf("the server refuses a session: %s (%s)", errortext.SteadyText(strings.ToValidUTF8(refused.Message, "?")), refused.Reason)
	}
	return &Error{Reason: Lost, Server: c.server, Err: err}
}

// Bound is how much of the command's standard output is kept, in bytes.
func (c *Command) Bound() int { return cmp.Or(c.MaxOutput, MaxOutput) }

// bounded keeps the first bytes and drops the rest.
type bounded struct {
	most    int
	kept    []byte
	dropped bool
}

func (b *bounded) Write(data []byte) (int, error) {
	free := b.most - len(b.kept)
	b.kept = append(b.kept, data[:min(free, len(data))]...)
	b.dropped = b.dropped || len(data) > free
	return len(data), nil
}

// plain matches arguments in which no character has a meaning for a shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*$`)

// Quote writes arguments so that a POSIX shell reads them back as they are.
func Quote(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		if plain.MatchString(arg) {
			quoted[i] = arg
			continue
		}
		quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
