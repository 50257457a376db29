//go:build envtest

package controllers

import (
	"context"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hostclient"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh/sshtest"
)

// multiTenancy is the rule, credentials of tenants in one manager, and its note: the flag --watch-filter of many managers.
// Their flag --namespace bounds the cache and is controller-runtime's.
func multiTenancy(t *testing.T, _ *site) {
	t.Run("every visit to a host is with the key of its tenant", hostsHaveKeysOfTheirOwn)
	t.Run("an object is active for when it has the watch label", watchFilterIsObeyed)
}

func hostsHaveKeysOfTheirOwn(t *testing.T) {
	s := newSite(t)
	s.hostClient = &loggedIn{fleet: s.fleet, ssh: &hostclient.SSH{Secrets: (&mortal{}).client(t)}}
	other := map[string]string{"a": "b", "b": "a"}
	for tenant := range other {
		server := sshtest.StartWithoutCommands(t)
		s.create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "tenant-" + tenant},
			Data:       map[string][]byte{infrav1.SSHPrivateKey: server.UserKey.Private},
		})
		s.host("host-"+tenant, func(h *infrav1.IDCHost) {
			h.Spec.SSHServer = infrav1.SSHServer{
				Address: server.Address, Port: int32(server.Port), User: server.User,
				KeySecretRef: infrav1.SecretReference{Name: "tenant-" + tenant}, HostKeys: []string{server.HostKey},
			}
		})
		s.machine("worker-"+tenant, nil)
	}
	s.manager(nil)
	for tenant := range other {
		s.ready("worker-" + tenant)
		s.delete(&infrav1.IDCMachine{}, "worker-"+tenant)
	}
	for tenant := range other {
		s.eventually("the machine is gone", func() bool { return s.gone(&infrav1.IDCMachine{}, "worker-"+tenant) })
		says(s, &infrav1.IDCHost{}, "host-"+tenant, infrav1.AvailableCondition, infrav1.FreeReason)
		if h := s.fleet.edit("host-"+tenant, nil); h.bootstraps != 1 || h.cleanUps != 1 {
			t.Errorf("host-%s: %+v", tenant, h)
		}
	}
	for tenant, stranger := range other {
		named := func(tenant string) func(*infrav1.IDCHost) {
			return func(h *infrav1.IDCHost) { h.Spec.KeySecretRef.Name = "tenant-" + tenant }
		}
		edit(s, "host-"+tenant, named(stranger))
		says(s, &infrav1.IDCHost{}, "host-"+tenant, infrav1.ReachableCondition, infrav1.AuthenticationFailedReason)
		edit(s, "host-"+tenant, named(tenant))
		says(s, &infrav1.IDCHost{}, "host-"+tenant, infrav1.ReachableCondition, infrav1.ReachableReason)
	}
}

// loggedIn is a hostclient.Client that logs in to SSH servers, and then does in a fleet what it would do there. Their commands fail.
type loggedIn struct {
	fleet *fleet
	ssh   *hostclient.SSH
}

func (o *loggedIn) Probe(ctx context.Context, host *infrav1.IDCHost) (*probe.Facts, *probe.Problem, error) {
	if _, _, err := o.ssh.Probe(ctx, host); !wasLoggedIn(err) {
		return nil, nil, err
	}
	return o.fleet.Probe(ctx, host)
}

func (o *loggedIn) Bootstrap(ctx context.Context, host *infrav1.IDCHost, machine bootstrap.Machine) (bootstrap.Progress, error) {
	if progress, err := o.ssh.Bootstrap(ctx, host, machine); !wasLoggedIn(err) {
		return progress, err
	}
	return o.fleet.Bootstrap(ctx, host, machine)
}

func (o *loggedIn) CleanUp(ctx context.Context, host *infrav1.IDCHost, instanceID string) error {
	if err := o.ssh.CleanUp(ctx, host, instanceID); !wasLoggedIn(err) {
		return err
	}
	return o.fleet.CleanUp(ctx, host, instanceID)
}

// wasLoggedIn is also true without an error: a user who is not root and may not become it is a problem that a probe tells.
func wasLoggedIn(err error) bool { return err == nil || hostclient.HostFailed(err) }

func watchFilterIsObeyed(t *testing.T) {
	s := newSite(t)
	s.watchFilter = "mine"
	s.manager(nil)
	for name, labels := range map[string]map[string]string{"unlabelled": {}, "labelled": {clusterv1.WatchLabel: "theirs"}} {
		s.host(name, func(h *infrav1.IDCHost) { h.Labels = labels })
		infra := s.ofCluster(name)
		infra.Labels = labels
		s.create(infra)
		s.machine(name, func(m *infrav1.IDCMachine, _ *clusterv1.Machine) {
			maps.Copy(m.Labels, labels)
		})
	}
	p := s.program(&mortal{writesLeft: 0})
	leftAlone := func(name string) {
		t.Helper()
		for _, one := range []struct {
			object interface {
				client.Object
				conditions.Getter
			}
			controller reconcile.Reconciler
		}{{s.getHost(name), p.hosts}, {s.getMachine(name), p.machines}, {get[infrav1.IDCCluster](s, name), p.clusters}} {
			if _, err := one.controller.Reconcile(t.Context(), requestFor(one.object)); err != nil {
				t.Errorf("%T %s is written to: %v", one.object, name, err)
			}
			if said, held := one.object.GetConditions(), one.object.GetFinalizers(); len(said) > 0 || len(held) > 0 {
				t.Errorf("%T %s has conditions %v and finalizers %v", one.object, name, said, held)
			}
		}
	}
	leftAlone("unlabelled")
	leftAlone("labelled")

	edit(s, "labelled", func(c *infrav1.IDCCluster) { c.Labels[clusterv1.WatchLabel] = "mine" })
	says(s, &infrav1.IDCCluster{}, "labelled", infrav1.ReadyCondition, infrav1.ReadyReason)
	edit(s, "labelled", func(h *infrav1.IDCHost) { h.Labels[clusterv1.WatchLabel] = "mine" })
	says(s, &infrav1.IDCHost{}, "labelled", infrav1.AvailableCondition, infrav1.FreeReason)
	edit(s, "labelled", func(m *infrav1.IDCMachine) { m.Labels[clusterv1.WatchLabel] = "mine" })
	s.ready("labelled")
	leftAlone("unlabelled")
}
