package sshtest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// StartWithoutCommands starts a server that is no OpenSSH, for tests that any machine can run. UserKey alone logs in, and
// every command fails with exit status 1; it is a bastion for others on loopback. It has the Ed25519 key of the Server, and
// more host keys on demand. The server ends with the test.
func StartWithoutCommands(t *testing.T, more ...HostKey) *Server {
	t.Helper()
	return start(t, serve, more...)
}

// StartWithoutSessions starts a server that lets users log in, and is silent to who opens a session or forwards. The server ends with the test.
func StartWithoutSessions(t *testing.T) *Server {
	t.Helper()
	return start(t, ignore)
}

// start starts a server that lets the user log in, and leaves to serve what the user then asks for, until the client ends the connection.
func start(t *testing.T, serve func(<-chan ssh.NewChannel), more ...HostKey) *Server {
	t.Helper()
	host, user := NewKey(t), NewKey(t)
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), user.signer.PublicKey().Marshal()) {
			return nil, errors.New("another key than the user's")
		}
		return nil, nil
	}}
	config.AddHostKey(host.signer)
	for _, key := range more {
		config.AddHostKey(key.signer)
	}
	at := loopback.Serve(t, func(connection *net.TCPConn) {
		go func() {
			defer connection.Close() //nolint:errcheck // The client sees it.
			_, channels, requests, err := ssh.NewServerConn(connection, config)
			if err != nil {
				return
			}
			go ssh.DiscardRequests(requests)
			serve(channels)
		}()
	})
	return &Server{Address: at.IP.String(), Port: at.Port, User: "root", HostKey: host.Public, UserKey: user}
}

// ignore answers nobody who opens a session or forwards.
func ignore(channels <-chan ssh.NewChannel) {
	for range channels { // Each waits for an answer.
	}
}

// serve lets every command fail, and forwards.
func serve(channels <-chan ssh.NewChannel) {
	for offered := range channels {
		if offered.ChannelType() == "direct-tcpip" {
			go forward(offered)
			continue
		}
		if offered.ChannelType() != "session" {
			_ = offered.Reject(ssh.UnknownChannelType, "sessions and forwarding alone")
			continue
		}
		if channel, asked, err := offered.Accept(); err == nil {
			go failCommand(channel, asked)
		}
	}
}

// forward connects to where a client wants to go, as RFC 4254, section 7.2, says.
func forward(offered ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(offered.ExtraData(), &to); err != nil {
		_ = offered.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	far, err := net.Dial("tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	if err != nil {
		_ = offered.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer far.Close() //nolint:errcheck // The client sees it.
	near, requests, err := offered.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	_, _ = io.Copy(near, far)
	_ = near.Close()
}

// failCommand answers a session as RFC 4254, section 6, wants it of a command that fails.
func failCommand(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close() //nolint:errcheck // The client sees it.
	for request := range requests {
		isCommand := request.Type == "exec"
		_ = request.Reply(isCommand, nil)
		if isCommand {
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{1}))
			return
		}
	}
}
