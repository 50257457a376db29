package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"
)

// HostKey is a public key whose private half a server proved to have.
type HostKey struct {
	// Line is the key as in /etc/ssh/ssh_host_ed25519_key.pub, without a comment.
	Line string
	// Type is for example ssh-ed25519.
	Type string
	// Fingerprint is what ssh-keygen -l shows of the key, SHA256:...
	Fingerprint string
}

// keyKinds are requested one after the other: a server shows one key in a handshake.
var keyKinds = [][]string{
	{ssh.KeyAlgoED25519}, {ssh.KeyAlgoECDSA256}, {ssh.KeyAlgoECDSA384}, {ssh.KeyAlgoECDSA521}, {ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256},
}

// errShown ends a handshake once the server has proved its key, before a login.
var errShown = errors.New("the key was shown")

// ReadHostKeys reads the host keys of a server, through a bastion if there is one. It uses only address and port of
// server. It trusts any server that answers, so a person has to compare the keys that it returns. Every error that is not
// the context's is an *Error.
func ReadHostKeys(ctx context.Context, server Server, bastion *Server) ([]HostKey, error) {
	open := (&net.Dialer{}).DialContext
	if bastion != nil {
		through, err := connect(ctx, bastion, open)
		if err != nil {
			return nil, onBastion(err)
		}
		defer through.Close() //nolint:errcheck // Nothing is written.
		open = through.DialContext
	}
	var keys []HostKey
	var none error
	for _, algorithms := range keyKinds {
		key, err := showKey(ctx, &server, algorithms, open)
		var unknown *ssh.AlgorithmNegotiationError
		switch {
		case err == nil:
			keys = append(keys, HostKey{Line: lineOf(key), Type: key.Type(), Fingerprint: ssh.FingerprintSHA256(key)})
		case errors.As(err, &unknown):
			none = err
		default:
			return nil, failure(ctx, &server, &pinned{}, err)
		}
	}
	if len(keys) == 0 {
		return nil, failure(ctx, &server, &pinned{}, fmt.Errorf("it has no host key of a type that is known here: %w", none))
	}
	return keys, nil
}

// showKey begins a login for which the server proves itself with a key for one of the algorithms.
func showKey(ctx context.Context, server *Server, algorithms []string, open func(ctx context.Context, network, address string) (net.Conn, error)) (ssh.PublicKey, error) {
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	connection, err := open(bounded, "tcp", server.endpoint())
	if err != nil {
		return nil, err
	}
	defer connection.Close() //nolint:errcheck // Nothing is written.
	// The handshake takes no context. It ends when its connection is closed.
	release := context.AfterFunc(bounded, func() { _ = connection.Close() })
	var shown ssh.PublicKey
	_, _, _, err = ssh.NewClientConn(connection, server.endpoint(), &ssh.ClientConfig{
		HostKeyAlgorithms: algorithms,
		// The library calls this once it has verified the signature.
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			shown = key
			return errShown
		},
	})
	switch {
	case !release() && shown == nil:
		return nil, fmt.Errorf("the handshake took longer than %s: %w", dialTimeout, bounded.Err())
	case shown == nil && err == nil:
		return nil, errors.New("it proved no host key")
	case shown == nil:
		return nil, err
	}
	return shown, nil
}

func lineOf(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// Fingerprint is what ssh-keygen -l shows of a key that ParseHostKey reads.
func Fingerprint(line string) (string, error) {
	key, err := ParseHostKey(line)
	if err != nil {
		return "", err
	}
	return ssh.FingerprintSHA256(key), nil
}

// PublicLine is the public half of the key, as in authorized_keys.
func (c *Credentials) PublicLine() string { return lineOf(c.signer.PublicKey()) }
