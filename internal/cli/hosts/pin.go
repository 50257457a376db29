package hosts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/terminal"
)

// pin reads the host keys of bastion and host, lets a person or a fingerprint confirm them, and sets them in the IDCHost. It
// reads the keys of a host behind a bastion through the bastion, once the bastion's own keys are confirmed.
func (a *adder) pin(ctx context.Context, host *infrav1.IDCHost, keys []privateKey) (err error) {
	var through *ssh.Server
	if b := host.Spec.Bastion; b != nil {
		through = &ssh.Server{Address: b.Address, Port: int(b.Port), User: b.User, Credentials: keys[len(keys)-1].credentials}
		if b.HostKeys, err = a.confirmed(ctx, "bastion", "--bastion-fingerprint", *through, nil, a.flags.bastion.fingerprints); err != nil {
			return err
		}
		through.HostKeys = b.HostKeys
	}
	server := ssh.Server{Address: host.Spec.Address, Port: int(host.Spec.Port), User: host.Spec.User}
	host.Spec.HostKeys, err = a.confirmed(ctx, "host", "--fingerprint", server, through, a.flags.target.fingerprints)
	return err
}

// confirmed returns the host keys of a server that a person, or a fingerprint, has confirmed.
func (a *adder) confirmed(ctx context.Context, what, flag string, server ssh.Server, through *ssh.Server, fingerprints []string) ([]string, error) {
	a.cluster.Say("Reading the host keys of the %s %s", what, server.String())
	shown, err := ssh.ReadHostKeys(ctx, server, through)
	if err != nil {
		return nil, err
	}
	if len(fingerprints) > 0 {
		return matching(what, flag, server, shown, fingerprints)
	}
	for _, key := range shown {
		a.cluster.Say("  %s  %s", key.Fingerprint, key.Type)
	}
	switch {
	case a.flags.yes:
	case !a.terminal():
		return nil, fmt.Errorf("nobody confirmed the host keys of the %s %s, and there is no terminal to ask at; give %s with one of those above once you compared it, or --yes to trust them unseen", what, server.String(), flag)
	default:
		if err := a.ask(ctx, what); err != nil {
			return nil, err
		}
	}
	return lines(shown), nil
}

// matching are the keys that the fingerprints name. The others came over the same network and are not confirmed.
func matching(what, flag string, server ssh.Server, shown []ssh.HostKey, fingerprints []string) ([]string, error) {
	var kept []ssh.HostKey
	for _, fingerprint := range fingerprints {
		index := slices.IndexFunc(shown, func(key ssh.HostKey) bool { return key.Fingerprint == fingerprint })
		if index < 0 {
			var has []string
			for _, key := range shown {
				has = append(has, key.Fingerprint+" ("+key.Type+")")
			}
			return nil, fmt.Errorf("the %s %s has no host key %s; it has %s; find out who answers there, or correct %s", what, server.String(), fingerprint, strings.Join(has, ", "), flag)
		}
		if !slices.Contains(kept, shown[index]) {
			kept = append(kept, shown[index])
		}
	}
	return lines(kept), nil
}

func lines(keys []ssh.HostKey) []string {
	all := make([]string, 0, len(keys))
	for _, key := range keys {
		all = append(all, key.Line)
	}
	return all
}

// ask lets the person at the terminal confirm.
func (a *adder) ask(ctx context.Context, what string) error {
	_, _ = fmt.Fprintf(a.cluster.ErrOut, "Compare them on the %s: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub\nAre they the keys of the %s? Type yes: ", what, what)
	switch agreed, err := terminal.Agreed(ctx, a.cluster.In); {
	case err != nil:
		return fmt.Errorf("nobody confirmed the host keys, and nothing was created: %w", err)
	case !agreed:
		return errors.New("the host keys were not confirmed; nothing was created")
	}
	return nil
}
