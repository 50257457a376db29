//go:build envtest

package controllers

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// faults are how one run of a story is disturbed.
type faults struct {
	name string
	// lifetime is the write after which every program is killed; zero for none.
	lifetime int
	// refuse says which writes, by number, are not sent; nil for none.
	refuse func(write int) bool
}

// allFaults leave no write without a kill: a program that is killed after its first write, and so are all after it, goes on
// one write at a time. Those that live longer are killed between writes of one step. Of every five writes each is refused
// in one of the runs.
func allFaults() []faults {
	var all []faults
	for _, lifetime := range []int{1, 3} {
		all = append(all, faults{name: fmt.Sprintf("every program is killed after write %d", lifetime), lifetime: lifetime})
	}
	const every = 5
	for first := range every {
		all = append(all, faults{
			name:   fmt.Sprintf("from write %d on every fifth is refused", first+1),
			refuse: func(write int) bool { return write%every == (first+1)%every },
		})
	}
	return all
}

// withFaults runs a tenant's story with many faults of one kind: in a gate with one of all kinds, which differs between stories.
func withFaults(t *testing.T, before func(*testing.T) *tenantTest, story func(*tenantTest)) {
	t.Helper()
	for _, f := range sample.Of(t, 1, allFaults()) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			tt := before(t)
			tt.lifetime = f.lifetime
			tt.start(&gate{killAfter: f.lifetime, refuse: f.refuse})
			story(tt)
			happened := tt.restarts + tt.program.gate.refused
			t.Logf("there were %d faults", happened)
			if happened < 3 {
				t.Error("these are too few")
			}
		})
	}
}

// newRollingTenantTest is a tenant whose pods are replaced when their templates change, those of etcd too if they
// keep their data, so that one that is replaced without need shows.
func newRollingTenantTest(t *testing.T, edit func(*controlplanev1.KOKControlPlane)) *tenantTest {
	t.Helper()
	tt := newTenantTest(t, edit)
	tt.host.replaces = true
	tt.tellEtcd(1)
	return tt
}

// eachPodWasMade fails unless every pod was made so many times.
func (tt *tenantTest) eachPodWasMade(times int) {
	tt.t.Helper()
	if len(tt.host.made) == 0 {
		tt.t.Error("no pod was made")
	}
	for name, made := range tt.host.made {
		if made != times {
			tt.t.Errorf("pod %s was made %d times, want %d", name, made, times)
		}
	}
}

// start lets another program take over. The etcds that the last one asked are still there.
func (tt *tenantTest) start(g *gate) {
	tt.t.Helper()
	former := tt.program
	tt.program = newProgram(tt.t, g)
	tt.program.etcd, tt.program.EtcdAgentImage, tt.program.NodeKeysImage = former.etcd, former.EtcdAgentImage, former.NodeKeysImage
	if members, told := former.prober.(membersOfKeys); told {
		tt.program.prober = members
	}
}

// startAfterDeath lets another program take over from one that was killed, and tells whether there was one.
func (tt *tenantTest) startAfterDeath() bool {
	tt.t.Helper()
	if !tt.program.gate.died() {
		return false
	}
	tt.start(&gate{killAfter: tt.lifetime})
	tt.restarts++
	return true
}

// settleThroughFaults settles, with a new program whenever one was killed, and checks that the outcome is a
// usable control plane, and key material that never changed once it was there.
func (tt *tenantTest) settleThroughFaults() {
	tt.t.Helper()
	keys := tt.workThroughFaults()
	if !conditions.IsTrue(tt.controlPlane(), conditionsv1.AvailableCondition) {
		tt.t.Errorf("it is not available: %+v", tt.controlPlane().Status.Conditions)
	}
	tt.sameKeys(keys)
}

// total is the number of writes that were ever asked for.
func (g *gate) total() int {
	g.lock.Lock()
	defer g.lock.Unlock()
	return g.writes
}

func (g *gate) died() bool {
	g.lock.Lock()
	defer g.lock.Unlock()
	return g.dead
}

// workThroughFaults returns all key material that was ever seen, by Secret.
func (tt *tenantTest) workThroughFaults() map[string]map[string][]byte {
	tt.t.Helper()
	keys := tt.keys()
	for range manyRounds {
		tt.program.gate.take()
		err := tt.reconcile()
		wrote := len(tt.program.gate.takeWrites()) > 0
		worked, workErr := tt.host.work(tt.t.Context())
		if workErr != nil {
			tt.t.Fatal(workErr)
		}
		for name, data := range tt.keys() {
			if keys[name] == nil {
				keys[name] = data
			}
		}
		if !tt.startAfterDeath() && err == nil && !wrote && !worked {
			return keys
		}
	}
	tt.t.Fatal("it does not come to rest")
	return nil
}

// keys is the key material in the tenant's namespace, by Secret.
func (tt *tenantTest) keys() map[string]map[string][]byte {
	tt.t.Helper()
	list := &corev1.SecretList{}
	if err := environment.Client.List(tt.t.Context(), list, client.InNamespace(tt.key.Namespace),
		client.MatchingLabels(names.ComponentLabels(tt.cluster, names.PKI))); err != nil {
		tt.t.Fatal(err)
	}
	keys := map[string]map[string][]byte{}
	for i := range list.Items {
		if !strings.HasSuffix(list.Items[i].Name, "-kubeconfig") {
			keys[list.Items[i].Name] = list.Items[i].Data
		}
	}
	return keys
}

// sameKeys fails when key material is not what was first seen of it.
func (tt *tenantTest) sameKeys(before map[string]map[string][]byte) {
	tt.t.Helper()
	now := tt.keys()
	if len(before) != 7 || len(now) != 7 {
		tt.t.Errorf("key material was in %d Secrets and is in %d", len(before), len(now))
	}
	for name, data := range before {
		if !maps.EqualFunc(data, now[name], bytes.Equal) {
			tt.t.Errorf("%s changed", name)
		}
	}
}
