package ssh

import (
	"errors"
	"fmt"
	"net"
)

// Reason is what kept a connection from being made, or ended it.
type Reason string

const (
	// Away means that nobody answers, or that what answers is no SSH server.
	Away Reason = "Away"
	// Lost means that the connection ended while a command ran.
	Lost Reason = "Lost"
	// HostKeyMismatch means that who answers has none of the pinned host keys.
	HostKeyMismatch Reason = "HostKeyMismatch"
	// AuthenticationFailed means that the server does not accept the key for that user.
	AuthenticationFailed Reason = "AuthenticationFailed"
	// CredentialsInvalid means that the private key, certificate or a pinned key cannot be read.
	CredentialsInvalid Reason = "CredentialsInvalid"
)

// Error says why there is no connection, or none any more.
type Error struct {
	// Reason is what programs decide by.
	Reason Reason
	// Server is who could not be reached, as user@address:port; empty when none was tried.
	Server string
	// Bastion is true when Server is the bastion in front of the host.
	Bastion bool
	// Err is the cause.
	Err error
}

// Error says what was tried and what to do.
func (e *Error) Error() string {
	what := "host"
	if e.Bastion {
		what = "bastion"
	}
	switch e.Reason {
	case HostKeyMismatch:
		return fmt.Sprintf("the %s %s %v; if its keys were changed on purpose, put the new ones into hostKeys", what, e.Server, e.Err)
	case AuthenticationFailed:
		return fmt.Sprintf("the %s %s does not accept the key: %v; add the public key to that user's authorized_keys, or put the right key into the Secret", what, e.Server, e.Err)
	case CredentialsInvalid:
		return e.Err.Error()
	case Lost:
		return fmt.Sprintf("the connection to the %s %s ended: %v; check its power and its network", what, e.Server, e.Err)
	default:
		return fmt.Sprintf("the %s %s cannot be reached: %v; check that it is switched on, its address, its network and its SSH server", what, e.Server, e.Err)
	}
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// withoutSource is an error without our own end of the connection, whose port is another one each time: the same
// failure has the same words. What wraps an error keeps its old words, so it is left out.
func withoutSource(err error) error {
	var operation *net.OpError
	if !errors.As(err, &operation) || operation.Source == nil {
		return err
	}
	plain := *operation
	plain.Source = nil
	return &plain
}
