// Package shell runs commands one after the other in one shell, as a person does who follows a document: what one of them
// exports is there for the next.
package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/isolation"
)

// maxOutput bounds what is kept of the output of one command.
const maxOutput = 4 << 20

// Options are what a person has before the first command.
type Options struct {
	// Folder is where the shell starts, Env its environment.
	Folder string
	Env    []string
	// Hosts is a file that the shell and its programs have as /etc/hosts; empty leaves the machine's. It needs root.
	Hosts string
}

// Shell is one bash that waits for commands.
type Shell struct {
	cmd      *exec.Cmd
	commands *os.File
	// statuses has a line for each command that ended, and is closed when the shell ends.
	statuses chan string
	// output is a file without a name, which a command has written whole when its status comes; read is how far it was read.
	output *os.File
	read   int64
}

// Start starts a shell. Its programs read nothing from standard input.
func Start(o Options) (s *Shell, err error) {
	s = &Shell{statuses: make(chan string), cmd: exec.Command("bash", "--noprofile", "--norc", "/dev/fd/3")}
	script, commands, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer script.Close() //nolint:errcheck // The shell has its own.
	s.commands = commands
	ended, status, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, commands.Close())
	}
	defer status.Close() //nolint:errcheck // The shell has its own.
	if s.output, err = anonymous(); err != nil {
		return nil, errors.Join(err, commands.Close(), ended.Close())
	}
	s.cmd.Dir, s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = o.Folder, o.Env, s.output, s.output
	s.cmd.ExtraFiles = []*os.File{script, status}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := start(s.cmd, o.Hosts); err != nil {
		return nil, errors.Join(fmt.Errorf("start a shell: %w", err), commands.Close(), ended.Close(), s.output.Close())
	}
	go s.listen(ended)
	return s, nil
}

// anonymous is a file that is appended to, and goes with the program.
func anonymous() (*os.File, error) {
	named, err := os.CreateTemp("", "shell-output-")
	if err != nil {
		return nil, err
	}
	defer named.Close() //nolint:errcheck // It is opened again.
	file, err := os.OpenFile(named.Name(), os.O_RDWR|os.O_APPEND, 0)
	return file, errors.Join(err, os.Remove(named.Name()))
}

// start starts the shell, in a mount namespace of its own if it has a file of hosts.
func start(cmd *exec.Cmd, hosts string) error {
	if hosts == "" {
		return cmd.Start()
	}
	return isolation.OnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("make a mount namespace (is this root?): %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("keep mounts private: %w", err)
		}
		if err := unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("put %s in the place of /etc/hosts: %w", hosts, err)
		}
		return cmd.Start()
	})
}

func (s *Shell) listen(ended *os.File) {
	defer close(s.statuses)
	defer ended.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(ended); lines.Scan(); {
		s.statuses <- lines.Text()
	}
}

// Result is how a command ended.
type Result struct {
	// Status is its exit status, and Output what it printed, errors included.
	Status int
	Output string
}

// Run runs a command to its end. It is an error when the shell ends with it, and when the context does before it: the shell is
// of no use then.
func (s *Shell) Run(ctx context.Context, command string) (result Result, err error) {
	if _, err := fmt.Fprintf(s.commands, "%s\nprintf '%%d\\n' $? >&4\n", command); err != nil {
		return result, fmt.Errorf("give the shell a command: %w", err)
	}
	select {
	case status, open := <-s.statuses:
		if !open {
			err = errors.New("the shell ended with the command")
		} else {
			result.Status, err = strconv.Atoi(status)
		}
	case <-ctx.Done():
		err = fmt.Errorf("the command did not end in its time: %w", ctx.Err())
	}
	output, readErr := io.ReadAll(io.NewSectionReader(s.output, s.read, maxOutput))
	result.Output = string(output)
	if size, sizeErr := s.output.Seek(0, io.SeekEnd); sizeErr == nil {
		s.read = size
	}
	return result, errors.Join(err, readErr)
}

// Close ends the shell and all that it started.
func (s *Shell) Close() error {
	err := s.commands.Close()
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // none is left, unless one did not end in its time
	_ = s.cmd.Wait()                                      // It was killed.
	for range s.statuses {
		continue // what listens ends with the shell
	}
	return errors.Join(err, s.output.Close())
}

// End is the end of a text, of so many lines at most.
func End(text string, most int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
