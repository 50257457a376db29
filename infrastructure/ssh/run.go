package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// MaxOutput is how much of a command's output is kept, in bytes: a host must not fill the manager's memory.
const MaxOutput = 1 << 20

// endTime is how long Run waits for a command whose context ended. sshd passes no signal on to root's commands.
const endTime = 10 * time.Second

// Command is a program and its arguments.
type Command struct {
	// Args are the program and its arguments. Each arrives unchanged.
	Args []string
	// Stdin is what the program reads.
	Stdin []byte
	// MayBeCut lets Run keep the first MaxOutput bytes of standard output and drop the rest. Without it Run fails when a command prints
	// more: a caller must not mistake a part of a list for the whole list.
	MayBeCut bool
	// Read, if set, reads standard output as it arrives, and Run keeps none of it. Run drops what Read leaves unread. An error of
	// Read ends the command.
	Read func(io.Reader) error
}

// Result is how a command ended.
type Result struct {
	// Stdout and Stderr are the first MaxOutput bytes of each.
	Stdout []byte
	Stderr []byte
	// ExitStatus is 0 for success, 127 when the program is not there (POSIX shell, section 2.8.2).
	ExitStatus int
}

// Run runs a command and waits for its end. An exit status other than 0 is no error. An error means that nobody knows how
// the command ended; it is an *Error when the connection ended. When the context ends, Run signals the command and waits
// some seconds for its end. A server that opens no session until then loses the connection. Standard output of more than
// MaxOutput is an error, unless MayBeCut or Read is set. When Read fails while the command runs, Run ends the command and returns
// Read's error. When the command ended first with another status than 0, Run returns that status alone.
func (c *Client) Run(ctx context.Context, command Command) (Result, error) {
	result := Result{}
	session, err := c.open(ctx)
	if err != nil {
		return result, fmt.Errorf("run %s: open a session: %w", command.Args[0], err)
	}
	stdout, stderr := &bounded{}, &bounded{}
	session.Stdout, session.Stderr = stdout, stderr
	session.Stdin = bytes.NewReader(command.Stdin)
	output, arriving := io.Pipe()
	if command.Read != nil {
		session.Stdout = unstoppable{arriving}
	}
	ended := make(chan struct{})
	var ending error
	go func() {
		ending = session.Run(Quote(command.Args))
		close(ended)
		_ = arriving.Close()
	}()
	unread := command.read(ctx, output)
	if unread == nil {
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
	select {
	case <-ended:
	default:
		if ctx.Err() != nil {
			end(session, ended)
			return result, fmt.Errorf("run %s: %w", command.Args[0], ctx.Err())
		}
		go func() { _ = session.Close() }() // Its next write ends a command, also one of root's.
		end(session, ended)
		return result, c.unread(&command, unread)
	}
	_ = session.Close()

	result.Stdout, result.Stderr = stdout.kept, stderr.kept
	err = ending
	var exit *ssh.ExitError
	if errors.As(err, &exit) && exit.Signal() == "" {
		result.ExitStatus, err = exit.ExitStatus(), nil
	}
	switch {
	case err != nil:
		return result, c.explain(fmt.Errorf("run %s: %w", command.Args[0], err))
	case stdout.dropped && !command.MayBeCut:
		return result, fmt.Errorf("run %s: it wrote more than %d bytes, and the rest is lost", Quote(command.Args), MaxOutput)
	case unread != nil && result.ExitStatus == 0:
		return result, c.unread(&command, unread)
	}
	return result, nil
}

// end signals a command and waits some seconds for its end. It must end before other work on the host begins. But a command that
// ignores the signal, or a silent peer, must not delay other commands on the same connection.
func end(session *ssh.Session, ended <-chan struct{}) {
	go func() { _ = session.Signal(ssh.SIGTERM) }()
	select {
	case <-ended:
	case <-time.After(endTime):
	}
	go func() { _ = session.Close() }()
}

// read has the command's reader read until it has enough, or the context ends.
func (c *Command) read(ctx context.Context, output *io.PipeReader) error {
	defer func() { _ = output.Close() }()
	if c.Read == nil {
		return nil
	}
	defer context.AfterFunc(ctx, func() { _ = output.CloseWithError(ctx.Err()) })()
	return c.Read(output)
}

// unread says which output was not read, and why.
func (c *Client) unread(command *Command, err error) error {
	return fmt.Errorf("read what %s prints on %s: %w", Quote(command.Args), c.server, err)
}

// unstoppable passes what a command prints on to its reader. Once the reader has ended, it drops the rest, so that the command can come
// to its end.
type unstoppable struct{ to *io.PipeWriter }

func (u unstoppable) Write(data []byte) (int, error) {
	_, _ = u.to.Write(data)
	return len(data), nil
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

// bounded keeps the first MaxOutput bytes and drops the rest.
type bounded struct {
	kept    []byte
	dropped bool
}

func (b *bounded) Write(data []byte) (int, error) {
	free := MaxOutput - len(b.kept)
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
