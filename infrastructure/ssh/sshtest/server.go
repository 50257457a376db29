// Package sshtest starts SSH servers on loopback for tests. Start starts a real OpenSSH server: Debian's /usr/sbin/sshd as
// an ordinary child process with a throwaway configuration.
package sshtest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

const program = "/usr/sbin/sshd"

// Key is a key pair.
type Key struct {
	// Private is in OpenSSH's format.
	Private []byte
	// Public is one line as in authorized_keys.
	Public string

	signer ssh.Signer
}

// NewKey makes an Ed25519 key pair.
func NewKey(t *testing.T) Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return Key{Private: pem.EncodeToMemory(block), Public: line(signer.PublicKey()), signer: signer}
}

// Certify signs the public key of another for the user, as ssh-keygen -s does.
func (k Key) Certify(t *testing.T, other Key, principal string) []byte {
	t.Helper()
	certificate := &ssh.Certificate{
		Key: other.signer.PublicKey(), CertType: ssh.UserCert, KeyId: "test", ValidPrincipals: []string{principal},
		ValidBefore: ssh.CertTimeInfinity,
	}
	if err := certificate.SignCert(rand.Reader, k.signer); err != nil {
		t.Fatal(err)
	}
	return ssh.MarshalAuthorizedKey(certificate)
}

func line(key ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) }

// Server is a running SSH server.
type Server struct {
	// Address and Port are where it listens.
	Address string
	Port    int
	// User is the user that may log in: with OpenSSH the one who runs the test.
	User string
	// HostKey is its public key.
	HostKey string
	// UserKey is the key that the user may log in with, CA the authority whose certificates OpenSSH accepts.
	UserKey Key
	CA      Key

	process *os.Process
}

// Start starts an OpenSSH server that ends with the test. Lines of configuration come before its own.
func Start(t *testing.T, configuration ...string) *Server {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("these tests need a real OpenSSH server, apt-get install openssh-server gives one: %v", err)
	}
	current, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	host, free := NewKey(t), loopback.Free(t)
	s := &Server{Address: free.IP.String(), Port: free.Port, User: current.Username, HostKey: host.Public, UserKey: NewKey(t), CA: NewKey(t)}
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if os.Geteuid() == 0 {
		// sshd's own folder, which its service would make.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	lines := slices.Concat(configuration, []string{
		"ListenAddress " + net.JoinHostPort(s.Address, strconv.Itoa(s.Port)),
		"HostKey " + write("host", host.Private),
		"AuthorizedKeysFile " + write("authorized", []byte(s.UserKey.Public+"\n")),
		"TrustedUserCAKeys " + write("ca", []byte(s.CA.Public+"\n")),
		"PidFile none", "StrictModes no", "UsePAM no", "PermitRootLogin prohibit-password", "PasswordAuthentication no",
		"AllowTcpForwarding yes", "MaxStartups 100", "LogLevel VERBOSE",
	})
	s.run(t, write("config", []byte(strings.Join(lines, "\n")+"\n")))
	return s
}

func (s *Server) run(t *testing.T, configuration string) {
	t.Helper()
	log := &bytes.Buffer{}
	cmd := exec.Command(program, "-D", "-e", "-f", configuration)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	s.process = cmd.Process
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		// With what it started for its connections: all are in its process group.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		if t.Failed() {
			t.Logf("sshd said:\n%s", log)
		}
	})
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		select {
		case <-ended:
			return false, fmt.Errorf("it ended: %s", log)
		default:
		}
		connection, err := net.Dial("tcp", net.JoinHostPort(s.Address, strconv.Itoa(s.Port)))
		if err == nil {
			_ = connection.Close()
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("wait for %s: %v", program, err)
	}
}
