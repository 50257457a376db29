package hosts

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
)

// adder is one run of hosts add.
type adder struct {
	cluster  *access.Cluster
	client   client.Client
	terminal func() bool
	// name and namespace are those of the IDCHost.
	name, namespace string
	flags           addFlags
}

const addLong = `Add a host to the inventory: its IDCHost, and the Secret with the key that the controller logs in with.

The SSH host keys of the host are read over the network. Their fingerprints are shown, and you are asked whether they are
right: on the host, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" shows the same. With --fingerprint nobody is asked,
and the keys that you name are taken, no others. With --yes whatever answers is trusted: use it in networks alone where
nobody can stand between.

Then the command waits until the controller has logged in, and prints what it found. While it waits, it says what keeps the
host from being used. Put that right: the controller probes the host again every 15 seconds.

The same command again changes nothing and waits again. Other values than those of the IDCHost are refused.

It ends with 0 when the host can be used, with 1 when it cannot in time, and with 2 when it was not added.`

const addExample = `  # Show the keys of the host, ask, add it and wait
  kok hosts add rack-1-host-7 --address 192.0.2.7 --user admin --key ~/.ssh/site-a

  # In a script: the fingerprint is known from the installation; hosts with one key share a Secret
  kok hosts add rack-1-host-8 --address 192.0.2.8 --user admin --key ~/.ssh/site-a --key-secret site-a-ssh \
    --fingerprint SHA256:2l8vtX1uTPsmRqYJ7+QnTgJmwJ2yf1dD3pVjPsoBbaQ --label pool=workers --failure-domain rack-1

  # Behind a bastion, which has a key of its own
  kok hosts add rack-2-host-7 --address 10.20.0.7 --user admin --key ~/.ssh/site-a \
    --bastion-address bastion.example.com --bastion-user jump --bastion-key ~/.ssh/bastion`

func newAdd(cluster *access.Cluster, terminal func() bool) *cobra.Command {
	a := &adder{cluster: cluster, terminal: terminal}
	command := &cobra.Command{
		Use: "add NAME", Short: "Add a host: read its SSH host keys, confirm them, and wait until it can be used",
		Long: addLong, Example: addExample, Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			a.name = args[0]
			return cluster.Explain(a.run(command.Context()))
		},
	}
	a.flags.add(command)
	return command
}

func (a *adder) run(ctx context.Context) (err error) {
	if err := a.flags.check(a.name); err != nil {
		return err
	}
	keys, err := a.flags.readKeys()
	if err != nil {
		return err
	}
	if a.namespace, _, err = a.cluster.Namespace(); err != nil {
		return err
	}
	if a.client, err = a.cluster.Client(); err != nil {
		return err
	}
	wanted := a.flags.host(a.name, a.namespace)
	existing := &infrav1.IDCHost{}
	switch err := a.client.Get(ctx, client.ObjectKeyFromObject(wanted), existing); {
	case apierrors.IsNotFound(err):
		if err := a.create(ctx, wanted, keys); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("read IDCHost %s: %w", client.ObjectKeyFromObject(wanted), err)
	default:
		if err := a.same(ctx, existing, wanted, keys); err != nil {
			return err
		}
	}
	return a.wait(ctx)
}

// create makes the Secrets and the host once a person, or a fingerprint, has confirmed the host
// key.
func (a *adder) create(ctx context.Context, host *infrav1.IDCHost, keys []privateKey) error {
	for _, key := range keys {
		if _, err := a.compareSecret(ctx, key); err != nil {
			return err
		}
	}
	if err := a.pin(ctx, host, keys); err != nil {
		return err
	}
	// A dry run: when the API refuses the host, nothing has been made yet.
	if err := a.client.Create(ctx, host.DeepCopy(), client.DryRunAll); err != nil {
		return fmt.Errorf("create IDCHost %s: %w", client.ObjectKeyFromObject(host), err)
	}
	if err := a.ensureSecrets(ctx, keys); err != nil {
		return err
	}
	if err := a.client.Create(ctx, host); err != nil {
		return fmt.Errorf("create IDCHost %s: %w", client.ObjectKeyFromObject(host), err)
	}
	a.cluster.Say("IDCHost %s is created", client.ObjectKeyFromObject(host))
	return nil
}

// same refuses values that differ from those of the existing host. It makes a missing Secret.
func (a *adder) same(ctx context.Context, existing, wanted *infrav1.IDCHost, keys []privateKey) error {
	if !existing.DeletionTimestamp.IsZero() {
		return fmt.Errorf("IDCHost %s is being deleted; wait until it is gone, or choose another name", client.ObjectKeyFromObject(existing))
	}
	if err := compare(existing, wanted, a.flags); err != nil {
		return err
	}
	a.cluster.Say("IDCHost %s is there already, with these values", client.ObjectKeyFromObject(existing))
	return a.ensureSecrets(ctx, keys)
}

// defaultTimeout is long enough for a first probe, and for another one after a person has put something right.
const defaultTimeout = 2 * time.Minute
