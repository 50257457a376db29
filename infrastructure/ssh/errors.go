package ssh

import (
	"fmt"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// Reason says why a connection was not made, or ended.
type Reason string

const (
	// Away means that nothing answers, or that the answer is not from an SSH server.
	Away Reason = "Away"
	// Lost means that the connection ended while a command ran.
	Lost Reason = "Lost"
	// HostKeyMismatch means that the server has none of the pinned host keys.
	HostKeyMismatch Reason = "HostKeyMismatch"
	// AuthenticationFailed means that the server does not accept the key for that user.
	AuthenticationFailed Reason = "AuthenticationFailed"
	// CredentialsInvalid means that the private key, certificate or a pinned key cannot be read.
	CredentialsInvalid Reason = "CredentialsInvalid"
)

// Error says why a connection was not made, or ended.
type Error struct {
	// Reason is for programs.
	Reason Reason
	// Server is the one that was not reached, as user@address:port; empty when none was tried.
	Server string
	// Bastion is true when Server is the bastion in front of the host.
	Bastion bool
	// Err is the cause.
	Err error
}

// Error says what was tried and what to do. The same failure always has the same text.
func (e *Error) Error() string {
	what, cause := "host", errortext.Steady(e.Err)
	if e.Bastion {
		what = "bastion"
	}
	switch e.Reason {
	case HostKeyMismatch:
		return fmt.Sprintf("the %s %s %s; if its keys were changed on purpose, put the new ones into hostKeys", what, e.Server, cause)
	case AuthenticationFailed:
		return fmt.Sprintf("the %s %s does not accept the key: %s; add the public key to that user's authorized_keys, or put the right key into the Secret", what, e.Server, cause)
	case CredentialsInvalid:
		return cause
	case Lost:
		return fmt.Sprintf("the connection to the %s %s ended: %s; check its power and its network", what, e.Server, cause)
	default:
		return fmt.Sprintf("the %s %s cannot be reached: %s; check that it is switched on, its address, its network and its SSH server", what, e.Server, cause)
	}
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
