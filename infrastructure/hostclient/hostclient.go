// Package hostclient works on the host of an IDCHost: it reads the keys from Secrets, logs in by SSH, and runs a probe, a
// bootstrap or a clean-up there. Its errors tell what failed: the way to the host, the host itself, or
// something else.
package hostclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cleanup"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// Client works on hosts. An *ssh.Error says that the host was not reached, or that the connection ended. A *HostError
// says that the host itself failed. Other errors say nothing about the host.
type Client interface {
	// Probe is probe.Run.
	Probe(ctx context.Context, host *infrav1.IDCHost) (*probe.Facts, *probe.Problem, error)
	// Bootstrap is bootstrap.Run.
	Bootstrap(ctx context.Context, host *infrav1.IDCHost, machine bootstrap.Machine) (bootstrap.Progress, error)
	// CleanUp is cleanup.Run.
	CleanUp(ctx context.Context, host *infrav1.IDCHost, instanceID string) error
}

// HostError says that the host failed, or was too slow, after the login.
type HostError struct {
	// Err is what went wrong.
	Err error
}

// Error is what went wrong.
func (e *HostError) Error() string { return e.Err.Error() }

// Unwrap returns what went wrong.
func (e *HostError) Unwrap() error { return e.Err }

// SSH works on hosts by SSH.
type SSH struct {
	// Secrets reads the Secrets with keys; it needs no cache.
	Secrets client.Reader
}

var _ Client = &SSH{}

// Probe logs in and checks whether the host can be made a machine. It writes nothing.
func (c *SSH) Probe(ctx context.Context, host *infrav1.IDCHost) (facts *probe.Facts, problem *probe.Problem, err error) {
	err = c.with(ctx, host, func(h *hosts.Host) error {
		facts, problem, err = probe.Run(ctx, h)
		return err
	})
	return facts, problem, err
}

// Bootstrap logs in and begins to make the host a machine, or goes on with that.
func (c *SSH) Bootstrap(ctx context.Context, host *infrav1.IDCHost, machine bootstrap.Machine) (progress bootstrap.Progress, err error) {
	err = c.with(ctx, host, func(h *hosts.Host) error {
		progress, err = bootstrap.Run(ctx, h, machine)
		return err
	})
	return progress, err
}

// CleanUp logs in and removes from the host what the machine brought.
func (c *SSH) CleanUp(ctx context.Context, host *infrav1.IDCHost, instanceID string) error {
	return c.with(ctx, host, func(h *hosts.Host) error { return cleanup.Run(ctx, h, instanceID) })
}

func (c *SSH) with(ctx context.Context, host *infrav1.IDCHost, work func(*hosts.Host) error) error {
	target := ssh.Target{}
	server, err := c.server(ctx, host.Namespace, &host.Spec.SSHServer)
	if err != nil {
		return err
	}
	target.Host = *server
	if host.Spec.Bastion != nil {
		if target.Bastion, err = c.server(ctx, host.Namespace, host.Spec.Bastion); err != nil {
			return err
		}
	}
	connection, err := ssh.Dial(ctx, target)
	if err != nil {
		return err
	}
	defer connection.Close()
	err = work(hosts.New(connection, host.Spec.User))
	var lost *ssh.Error
	if err == nil || errors.As(err, &lost) || errors.Is(err, context.Canceled) {
		return err
	}
	return &HostError{Err: err}
}

// server reads the credentials for an SSH server.
func (c *SSH) server(ctx context.Context, namespace string, spec *infrav1.SSHServer) (*ssh.Server, error) {
	invalid := func(err error) error {
		return &ssh.Error{Reason: ssh.CredentialsInvalid, Err: err}
	}
	secret := &corev1.Secret{}
	name := spec.KeySecretRef.Name
	if err := c.Secrets.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
		err = fmt.Errorf("read Secret %s with the key: %w", name, err)
		if apierrors.IsNotFound(err) {
			return nil, invalid(fmt.Errorf("%w; create it, with the private key in %s", err, infrav1.SSHPrivateKey))
		}
		return nil, err
	}
	if len(secret.Data[infrav1.SSHPrivateKey]) == 0 {
		return nil, invalid(fmt.Errorf("Secret %s has no %s; put the private key there", name, infrav1.SSHPrivateKey)) //nolint:staticcheck // A kind.
	}
	credentials, err := ssh.ParseCredentials(secret.Data[infrav1.SSHPrivateKey], secret.Data[infrav1.SSHCertificate])
	if err != nil {
		return nil, invalid(fmt.Errorf("Secret %s: %w", name, err)) //nolint:staticcheck // A kind.
	}
	return &ssh.Server{Address: spec.Address, Port: int(spec.Port), User: spec.User, Credentials: credentials, HostKeys: spec.HostKeys}, nil
}

// HostFailed reports whether the host itself failed. Then waiting does not help. Other failures may pass: a host or an API
// server is away, or a Secret is not there.
func HostFailed(err error) bool {
	var failed *HostError
	return errors.As(err, &failed)
}

// Access identifies the way to a host. When it changes, background work on the host starts anew.
func Access(host *infrav1.IDCHost) string {
	data, err := json.Marshal([]any{host.Spec.SSHServer, host.Spec.Bastion})
	if err != nil {
		panic(err) // Strings and numbers.
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
