package ssh_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh/sshtest"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

func server(s *sshtest.Server) ssh.Server { return ssh.Server{Address: s.Address, Port: s.Port} }

// through is a server as a bastion that we may log in to.
func through(t *testing.T, s *sshtest.Server) *ssh.Server {
	t.Helper()
	key, err := ssh.ParseCredentials(s.UserKey.Private, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &ssh.Server{Address: s.Address, Port: s.Port, User: s.User, Credentials: key, HostKeys: []string{s.HostKey}}
}

func TestEveryHostKeyOfAServerIsRead(t *testing.T) {
	t.Parallel()
	more := sshtest.HostKeys(t)
	all := sshtest.StartWithoutCommands(t, slices.Collect(maps.Values(more))...)
	for name, by := range map[string]*ssh.Server{"directly": nil, "through a bastion": through(t, sshtest.StartWithoutCommands(t))} {
		t.Run(name, func(t *testing.T) {
			keys, err := ssh.ReadHostKeys(t.Context(), server(all), by)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{all.HostKey}
			for _, key := range more {
				want = append(want, key.Public)
			}
			var got []string
			for _, key := range keys {
				got = append(got, key.Line)
				if fingerprint, err := ssh.Fingerprint(key.Line); err != nil || fingerprint != key.Fingerprint {
					t.Errorf("%s has the fingerprint %s, not %s, %v", key.Line, fingerprint, key.Fingerprint, err)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got\n%q\nwant\n%q", got, want)
			}
		})
	}
}

func TestWhoShowsNoHostKeyIsAway(t *testing.T) {
	t.Parallel()
	bastion := sshtest.StartWithoutCommands(t)
	stranger := through(t, bastion)
	stranger.HostKeys = []string{sshtest.NewKey(t).Public}
	gone := loopback.Free(t)
	away := ssh.Server{Address: gone.IP.String(), Port: gone.Port}
	for name, test := range map[string]struct {
		at        ssh.Server
		by        *ssh.Server
		reason    ssh.Reason
		ofBastion bool
	}{
		"nobody listens":                   {away, nil, ssh.Away, false},
		"nobody listens behind a bastion":  {away, through(t, bastion), ssh.Away, false},
		"the bastion is another":           {server(bastion), stranger, ssh.HostKeyMismatch, true},
		"what listens speaks another word": {at: plainServer(t), reason: ssh.Away},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ssh.ReadHostKeys(t.Context(), test.at, test.by)
			var failed *ssh.Error
			if !errors.As(err, &failed) || failed.Reason != test.reason || failed.Bastion != test.ofBastion {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("and a context that ends ends it", func(t *testing.T) {
		silent := loopback.Listen(t).Addr().(*net.TCPAddr)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := ssh.ReadHostKeys(ctx, ssh.Server{Address: silent.IP.String(), Port: silent.Port}, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// plainServer speaks no SSH.
func plainServer(t *testing.T) ssh.Server {
	t.Helper()
	at := loopback.Serve(t, func(connection *net.TCPConn) {
		_, _ = connection.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		_ = connection.Close()
	})
	return ssh.Server{Address: at.IP.String(), Port: at.Port}
}
