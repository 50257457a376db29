//go:build attack

package namespaceuser

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh/sshtest"
)

// hostAt is an IDCHost that a server of SSH is.
func hostAt(namespace, name string, server *sshtest.Server, key string) *infrav1.IDCHost {
	host := &infrav1.IDCHost{}
	host.Namespace, host.Name = namespace, name
	host.Spec.SSHServer = infrav1.SSHServer{
		Address: server.Address, Port: int32(server.Port), User: server.User, HostKeys: []string{server.HostKey}, //nolint:gosec // It is a port.
		KeySecretRef: infrav1.SecretReference{Name: key},
	}
	return host
}

func sshSecret(namespace, name string, key sshtest.Key) *corev1.Secret {
	secret := &corev1.Secret{Type: corev1.SecretTypeSSHAuth, Data: map[string][]byte{corev1.SSHAuthPrivateKey: key.Private}}
	secret.Namespace, secret.Name = namespace, name
	return secret
}

// loggedIn is what a host says whose SSH server let the manager in: there are no commands in this test.
const loggedIn = "ended with status 1"

func TestNobodyGetsAHostOfAnotherNamespace(t *testing.T) {
	a := newAttacker(t)
	theirs, own := sshtest.StartWithoutCommands(t), sshtest.StartWithoutCommands(t)
	administrate(t, sshSecret(victim, "ssh", theirs.UserKey))
	theirHost := hostAt(victim, "host-1", theirs, "ssh")
	administrate(t, theirHost)
	eventually(t, "the manager is let in to the victim's host", func(ctx context.Context) error {
		if err := management.client.Get(ctx, client.ObjectKeyFromObject(theirHost), theirHost); err != nil {
			return err
		}
		if said := fmt.Sprint(theirHost.Status.Conditions); !strings.Contains(said, loggedIn) {
			return fmt.Errorf("it says %s", said)
		}
		return nil
	})
	a.must(sshSecret(a.namespace, "own", own.UserKey))
	control := once(func(a *attacker) error {
		host := hostAt(a.namespace, a.fresh("host"), own, "own")
		a.must(host)
		if said := a.outcome(a.t, host, loggedIn); !strings.Contains(said, loggedIn) {
			return fmt.Errorf("the manager is not let in to the attacker's own host: %s", said)
		}
		return nil
	})
	host := func(server *sshtest.Server, key string, change func(*infrav1.IDCHost)) func(*attacker) (client.Object, error) {
		return func(a *attacker) (client.Object, error) {
			made := hostAt(a.namespace, a.fresh("host"), server, key)
			change(made)
			return made, a.client.Create(a.t.Context(), made)
		}
	}
	unchanged := func(*infrav1.IDCHost) {}
	tries := map[string]try{
		"the victim's key, by its name":           {control: control, attack: host(theirs, "ssh", unchanged), stoppedBy: "Secret ssh"},
		"the victim's host, with a key of others": {control: control, attack: host(theirs, "own", unchanged), stoppedBy: "does not accept the key"},
		"a machine on the victim's host": {
			control: func(a *attacker) error {
				return a.client.Create(a.t.Context(), a.machineOn("host-1", ""), client.DryRunAll)
			},
			attack: func(a *attacker) (client.Object, error) {
				machine := a.machineOn("host-1", "idc://"+victim+"/host-1/a")
				return machine, a.client.Create(a.t.Context(), machine)
			},
			stoppedBy: "must be idc://",
		},
	}
	for way, written := range abroad {
		name := fmt.Sprintf(written, "ssh")
		tries["the victim's key, "+way] = try{control: control, attack: host(theirs, name, unchanged), stoppedBy: "a lowercase RFC 1123 subdomain"}
		tries["the victim's key at a bastion, "+way] = try{control: control, stoppedBy: "a lowercase RFC 1123 subdomain", attack: host(own, "own", func(h *infrav1.IDCHost) {
			bastion := hostAt(a.namespace, "bastion", theirs, name).Spec.SSHServer
			h.Spec.Bastion = &bastion
		})}
		tries["a machine on the victim's host, "+way] = try{
			control: func(a *attacker) error {
				return a.client.Create(a.t.Context(), a.machineOn("host-1", ""), client.DryRunAll)
			},
			attack: func(a *attacker) (client.Object, error) {
				machine := a.machineOn(strings.Replace(fmt.Sprintf(written, "host-1"), "secrets", "idchosts", 1), "")
				return machine, a.client.Create(a.t.Context(), machine)
			},
			stoppedBy: "a lowercase RFC 1123 subdomain",
		}
	}
	a.attempt(t, tries)
}

// machineOn is an IDCMachine, with its Machine in a Cluster that is up, on the host that it names.
func (a *attacker) machineOn(host, providerID string) *infrav1.IDCMachine {
	a.t.Helper()
	name := a.fresh("green")
	labels := map[string]string{clusterv1.ClusterNameLabel: name}
	cluster := clusterOf(a.namespace, name)
	a.must(cluster)
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	if err := management.client.Status().Update(a.t.Context(), cluster); err != nil {
		a.t.Fatal(err)
	}
	owner := &clusterv1.Machine{ObjectMeta: withLabels(a.meta(name), labels)}
	owner.Spec.ClusterName, owner.Spec.Version = name, "v1.36.3"
	owner.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	owner.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IDCMachine", Name: name}
	a.must(owner)
	machine := &infrav1.IDCMachine{ObjectMeta: withLabels(a.meta(name), labels)}
	machine.OwnerReferences = owned(owner, "Machine")
	machine.Spec.HostRef, machine.Spec.ProviderID = &infrav1.HostReference{Name: host}, providerID
	return machine
}
