//go:build root

package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh/sshtest"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

func credentials(t *testing.T, key sshtest.Key, certificate []byte) *ssh.Credentials {
	t.Helper()
	c, err := ssh.ParseCredentials(key.Private, certificate)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func target(t *testing.T, s *sshtest.Server) ssh.Target {
	t.Helper()
	return ssh.Target{Host: ssh.Server{
		Address: s.Address, Port: s.Port, User: s.User, Credentials: credentials(t, s.UserKey, nil), HostKeys: []string{s.HostKey},
	}}
}

// at is the target with its host at another address.
func at(to ssh.Target, address *net.TCPAddr) ssh.Target {
	to.Host.Address, to.Host.Port = address.IP.String(), address.Port
	return to
}

func dial(t *testing.T, to ssh.Target) *ssh.Client {
	t.Helper()
	c, err := ssh.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestCommands(t *testing.T) {
	t.Parallel()
	c := dial(t, target(t, sshtest.Start(t)))
	for name, test := range map[string]struct {
		command ssh.Command
		want    ssh.Result
	}{
		"arguments arrive as they are": {ssh.Command{Args: []string{"printf", "%s|", "a b", "$HOME", "it's", "*", ""}}, ssh.Result{Stdout: []byte("a b|$HOME|it's|*||")}},
		"input is read":                {ssh.Command{Args: []string{"cat"}, Stdin: []byte("a\x00b\n")}, ssh.Result{Stdout: []byte("a\x00b\n")}},
		"an exit status is no error":   {ssh.Command{Args: []string{"cat", "/no-such-file"}}, ssh.Result{Stderr: []byte("cat: /no-such-file: No such file or directory\n"), ExitStatus: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.Run(t.Context(), test.command)
			if err != nil || !bytes.Equal(got.Stdout, test.want.Stdout) || !bytes.Equal(got.Stderr, test.want.Stderr) || got.ExitStatus != test.want.ExitStatus {
				t.Errorf("%q %q %d, %v", got.Stdout, got.Stderr, got.ExitStatus, err)
			}
		})
	}
	t.Run("a program that is not there is told from one that fails", func(t *testing.T) {
		got, err := c.Run(t.Context(), ssh.Command{Args: []string{"no-such-program"}})
		if err != nil || got.ExitStatus != 127 {
			t.Errorf("%d, %v", got.ExitStatus, err)
		}
	})
	t.Run("a host cannot fill our memory", func(t *testing.T) {
		got, err := c.Run(t.Context(), ssh.Command{Args: []string{"head", "--bytes=5000000", "/dev/zero"}, MayBeCut: true})
		if err != nil || len(got.Stdout) != 1<<20 {
			t.Errorf("%d bytes, %v", len(got.Stdout), err)
		}
	})
	t.Run("a list that is cut is none", func(t *testing.T) {
		command := ssh.Command{Args: []string{"head", "--bytes=1048577", "/dev/zero"}}
		got, err := c.Run(t.Context(), command)
		if want := "run head --bytes=1048577 /dev/zero: it wrote more than 1048576 bytes, and the rest is lost"; err == nil || err.Error() != want {
			t.Errorf("%d bytes, %v", len(got.Stdout), err)
		}
		command.Args[1] = "--bytes=1048576"
		if got, err := c.Run(t.Context(), command); err != nil || len(got.Stdout) != 1<<20 {
			t.Errorf("a whole one: %d bytes, %v", len(got.Stdout), err)
		}
	})
	t.Run("what is said of a failure may be cut", func(t *testing.T) {
		got, err := c.Run(t.Context(), ssh.Command{Args: []string{"dd", "if=/dev/zero", "of=/dev/stderr", "bs=5000000", "count=1", "status=none"}})
		if err != nil || len(got.Stderr) != 1<<20 || got.ExitStatus != 0 {
			t.Errorf("%d bytes, %d, %v", len(got.Stderr), got.ExitStatus, err)
		}
	})
	t.Run("a signal that ends a command is an error", func(t *testing.T) {
		// A shell is what can kill itself.
		if _, err := c.Run(t.Context(), ssh.Command{Args: []string{"sh", "-c", "kill -9 $$"}}); err == nil {
			t.Error("it is none")
		}
	})
}

// What a command prints may be more than the manager has memory for.
func TestLongOutputIsReadAsItArrives(t *testing.T) {
	t.Parallel()
	c := dial(t, target(t, sshtest.Start(t)))
	enough := errors.New("it is enough")
	all := func(output io.Reader) (int64, error) { return io.Copy(io.Discard, output) }
	some := func(output io.Reader) (int64, error) { return io.CopyN(io.Discard, output, 10) }
	for name, test := range map[string]struct {
		args []string
		read func(io.Reader) (int64, error)
		want int64
		// status is the exit status, fails the error.
		status int
		fails  string
	}{
		"all of it":                         {args: []string{"head", "--bytes=9000000", "/dev/zero"}, read: all, want: 9_000_000},
		"a part":                            {args: []string{"head", "--bytes=9000000", "/dev/zero"}, read: some, want: 10},
		"a command that fails":              {args: []string{"sh", "-c", "echo read; exit 3"}, read: all, want: 5, status: 3},
		"one that fails and is not read":    {args: []string{"sh", "-c", "exit 3"}, read: some, status: 3},
		"output that ends before it should": {args: []string{"true"}, read: some, fails: "read what true prints on " + c.User + "@"},
		"a command without end": {args: []string{"cat", "/dev/zero"}, want: 10, fails: "it is enough", read: func(output io.Reader) (int64, error) {
			n, _ := some(output)
			return n, enough
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var read int64
			got, err := c.Run(t.Context(), ssh.Command{Args: test.args, Read: func(output io.Reader) (err error) {
				read, err = test.read(output)
				return err
			}})
			if read != test.want || got.ExitStatus != test.status || len(got.Stdout) > 0 {
				t.Errorf("%d bytes are read, it ended with status %d", read, got.ExitStatus)
			}
			if (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("until the context ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := c.Run(ctx, ssh.Command{Args: []string{"sh", "-c", "echo 345678901; exec sleep 600"}, Read: func(output io.Reader) error {
			if _, err := some(output); err != nil {
				return err
			}
			cancel()
			_, err := all(output)
			return err
		}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

// whenRunning is a context that ends once a command has made the file running.
func whenRunning(t *testing.T) (ctx context.Context, running string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	running = filepath.Join(t.TempDir(), "running")
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if _, err := os.Stat(running); err == nil {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return ctx, running
}

func TestACommandEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := dial(t, target(t, sshtest.Start(t)))
	ctx, running := whenRunning(t)
	started := time.Now()
	if _, err := c.Run(ctx, ssh.Command{Args: []string{"sh", "-c", `touch "$0"; exec sleep 600`, running}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if took := time.Since(started); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	// The connection is the next command's, however long that takes.
	if _, err := c.Run(t.Context(), ssh.Command{Args: []string{"sleep", "2"}}); err != nil {
		t.Errorf("the next command: %v", err)
	}
}

// What a command does to a host must be over when the next one is run.
func TestACommandIsWaitedForWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	c := dial(t, target(t, sshtest.Start(t)))
	ctx, running := whenRunning(t)
	file := filepath.Join(t.TempDir(), "made")
	if _, err := c.Run(ctx, ssh.Command{Args: []string{"sh", "-c", `trap '' TERM; touch "$0"; sleep 2; touch "$1"`, running, file}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("it was not waited for: %v", err)
	}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	key := sshtest.NewKey(t)
	to := target(t, s)
	to.Host.Credentials = credentials(t, key, s.CA.Certify(t, key, s.User))
	dial(t, to)

	t.Run("of an authority that the host does not know are refused", func(t *testing.T) {
		to.Host.Credentials = credentials(t, key, sshtest.NewKey(t).Certify(t, key, s.User))
		_ = expect(t, to, ssh.AuthenticationFailed, "does not accept the key")
	})
	t.Run("of another key are not used", func(t *testing.T) {
		_, err := ssh.ParseCredentials(sshtest.NewKey(t).Private, s.CA.Certify(t, key, s.User))
		if err == nil || err.Error() != "the certificate belongs to another private key" {
			t.Errorf("%v", err)
		}
	})
}

// expect dials and compares why it fails.
func expect(t *testing.T, to ssh.Target, reason ssh.Reason, message string) *ssh.Error {
	t.Helper()
	c, err := ssh.Dial(t.Context(), to)
	if err == nil {
		c.Close()
	}
	var failed *ssh.Error
	if !errors.As(err, &failed) || failed.Reason != reason || !strings.Contains(failed.Error(), message) {
		t.Fatalf("%v, want %s: %s", err, reason, message)
	}
	return failed
}

func TestWhatKeepsFromAHost(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	for name, test := range map[string]struct {
		edit    func(*ssh.Server)
		reason  ssh.Reason
		message string
	}{
		"another host key": {func(h *ssh.Server) { h.HostKeys = []string{sshtest.NewKey(t).Public} },
			ssh.HostKeyMismatch, "(ssh-ed25519), which is not among hostKeys; if its keys were changed on purpose, put the new ones into hostKeys"},
		"another key": {func(h *ssh.Server) { h.Credentials = credentials(t, sshtest.NewKey(t), nil) },
			ssh.AuthenticationFailed, "does not accept the key: "},
		"another user": {func(h *ssh.Server) { h.User = "nobody" },
			ssh.AuthenticationFailed, "nobody@" + s.Address},
		"nobody listens": {func(h *ssh.Server) { h.Port = 1 },
			ssh.Away, "cannot be reached: dial tcp " + s.Address + ":1: connect: connection refused; check that it is switched on"},
		"a pinned key that is none": {func(h *ssh.Server) { h.HostKeys = []string{"SHA256:abc"} },
			ssh.CredentialsInvalid, "hostKeys[0] must be a public key as in /etc/ssh/ssh_host_ed25519_key.pub"},
	} {
		t.Run(name, func(t *testing.T) {
			to := target(t, s)
			test.edit(&to.Host)
			_ = expect(t, to, test.reason, test.message)
		})
	}
	t.Run("one of several pinned keys is enough", func(t *testing.T) {
		to := target(t, s)
		to.Host.HostKeys = []string{sshtest.NewKey(t).Public, s.HostKey + " comment"}
		dial(t, to)
	})
}

func TestAServerThatSaysNothingIsAway(t *testing.T) {
	t.Parallel()
	to := target(t, sshtest.Start(t))
	to = at(to, loopback.Listen(t).Addr().(*net.TCPAddr))
	first := expect(t, to, ssh.Away, "cannot be reached: the login took longer than 10s")
	if again := expect(t, to, ssh.Away, ""); again.Error() != first.Error() {
		t.Errorf("the same failure is told as %q and as %q", first, again)
	}
}

// A server that ends connections is told of in the same words each time, though each has another port of ours.
func TestAServerThatEndsConnectionsIsToldOfInTheSameWords(t *testing.T) {
	t.Parallel()
	to := target(t, sshtest.Start(t))
	to = at(to, loopback.Serve(t, func(connection *net.TCPConn) {
		// It resets the connection instead of ending it in order.
		_ = connection.SetLinger(0)
		_, _ = connection.Read(make([]byte, 1))
		_ = connection.Close()
	}))
	words := map[string]bool{}
	for range 5 {
		words[expect(t, to, ssh.Away, "connection reset by peer").Error()] = true
	}
	if len(words) != 1 {
		t.Errorf("the same failure is told in %d ways: %v", len(words), words)
	}
}

func TestBastion(t *testing.T) {
	t.Parallel()
	bastion := sshtest.Start(t)
	through := target(t, bastion).Host
	t.Run("the host is reached through it", func(t *testing.T) {
		to := target(t, sshtest.Start(t))
		to.Bastion = &through
		got, err := dial(t, to).Run(t.Context(), ssh.Command{Args: []string{"printenv", "SSH_CONNECTION"}})
		if err != nil || !strings.HasPrefix(string(got.Stdout), "127.0.0.1 ") {
			t.Errorf("%s, %v", got.Stdout, err)
		}
	})
	t.Run("is named when it does not let us in", func(t *testing.T) {
		to := target(t, bastion)
		wrong := through
		wrong.Credentials = credentials(t, sshtest.NewKey(t), nil)
		to.Bastion = &wrong
		if failed := expect(t, to, ssh.AuthenticationFailed, "the bastion "); !failed.Bastion {
			t.Error("it is not")
		}
	})
	t.Run("a host behind it that is away is not blamed on it", func(t *testing.T) {
		to := target(t, bastion)
		to.Bastion, to.Host.Port = &through, 1
		if failed := expect(t, to, ssh.Away, "the host "); failed.Bastion {
			t.Error("it is")
		}
	})
	t.Run("the host's key is checked through it, too", func(t *testing.T) {
		to := target(t, sshtest.Start(t))
		to.Bastion, to.Host.HostKeys = &through, []string{bastion.HostKey}
		_ = expect(t, to, ssh.HostKeyMismatch, "the host ")
	})
}

func TestHostKeysAreRead(t *testing.T) {
	t.Parallel()
	bastion, host := sshtest.Start(t), sshtest.Start(t)
	at := ssh.Server{Address: host.Address, Port: host.Port}
	through := target(t, bastion).Host
	for name, by := range map[string]*ssh.Server{"directly": nil, "through a bastion": &through} {
		t.Run(name, func(t *testing.T) {
			keys, err := ssh.ReadHostKeys(t.Context(), at, by)
			if err != nil || len(keys) != 1 || keys[0].Line != host.HostKey || keys[0].Type != "ssh-ed25519" {
				t.Errorf("%v, %v; it is %s", keys, err, host.HostKey)
			}
		})
	}
	t.Run("of every type", func(t *testing.T) {
		var lines, configuration []string
		for kind, key := range sshtest.HostKeys(t) {
			configuration = append(configuration, "HostKey "+key.File)
			lines = append(lines, kind+" "+strings.Fields(key.Public)[1])
		}
		many := sshtest.Start(t, configuration...)
		keys, err := ssh.ReadHostKeys(t.Context(), ssh.Server{Address: many.Address, Port: many.Port}, nil)
		if err != nil || len(keys) < len(lines) {
			t.Fatalf("%v, %v", keys, err)
		}
		for _, line := range lines {
			if !slices.ContainsFunc(keys, func(k ssh.HostKey) bool { return k.Line == line && strings.HasPrefix(k.Fingerprint, "SHA256:") }) {
				t.Errorf("%s is not among %v", line, keys)
			}
		}
	})
	t.Run("of nobody", func(t *testing.T) {
		var failed *ssh.Error
		if _, err := ssh.ReadHostKeys(t.Context(), ssh.Server{Address: host.Address, Port: 1}, nil); !errors.As(err, &failed) || failed.Reason != ssh.Away {
			t.Errorf("%v", err)
		}
	})
}

// A host that loses power ends no connection: its peer must notice by itself.
func TestAConnectionThatFallsSilentEnds(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	to := target(t, s)
	wire := newWire(t, net.JoinHostPort(s.Address, strconv.Itoa(s.Port)))
	to = at(to, wire.address)
	c := dial(t, to)
	started := time.Now()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(context.WithoutCancel(t.Context()), ssh.Command{Args: []string{"sleep", "600"}})
		ended <- err
	}()
	wire.cut.Store(true)
	if err := <-ended; err == nil {
		t.Error("no error")
	}
	if took := time.Since(started); took > 3*time.Minute {
		t.Errorf("it took %s", took)
	}
}

// wire passes bytes on until it is cut; then they vanish.
type wire struct {
	address *net.TCPAddr
	cut     atomic.Bool
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	listener := loopback.Listen(t)
	w := &wire{address: listener.Addr().(*net.TCPAddr)}
	go func() {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", to)
		if err != nil {
			_ = near.Close()
			return
		}
		go w.pass(near, far)
		w.pass(far, near)
	}()
	return w
}

func (w *wire) pass(from, to net.Conn) {
	defer func() { _ = to.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err == nil && !w.cut.Load() {
			_, err = to.Write(buffer[:n])
		}
		if errors.Is(err, io.EOF) || err != nil {
			return
		}
	}
}
