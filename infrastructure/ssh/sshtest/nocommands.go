package sshtest

import (
	"bytes"
	"errors"
	"net"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// StartWithoutCommands starts a server that is no OpenSSH, for tests that any machine can run. UserKey alone logs in, and
// every command fails with exit status 1. The server ends with the test.
func StartWithoutCommands(t *testing.T) *Server {
	t.Helper()
	host, user := NewKey(t), NewKey(t)
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), user.signer.PublicKey().Marshal()) {
			return nil, errors.New("another key than the user's")
		}
		return nil, nil
	}}
	config.AddHostKey(host.signer)
	at := loopback.Serve(t, func(connection *net.TCPConn) { go serve(connection, config) })
	return &Server{Address: at.IP.String(), Port: at.Port, User: "root", HostKey: host.Public, UserKey: user}
}

// serve serves a connection until the client ends it.
func serve(connection net.Conn, config *ssh.ServerConfig) {
	defer connection.Close() //nolint:errcheck // The client sees it.
	_, channels, requests, err := ssh.NewServerConn(connection, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		if offered.ChannelType() != "session" {
			_ = offered.Reject(ssh.UnknownChannelType, "sessions alone")
			continue
		}
		if channel, asked, err := offered.Accept(); err == nil {
			go failCommand(channel, asked)
		}
	}
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
