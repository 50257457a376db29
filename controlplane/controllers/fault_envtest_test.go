//go:build envtest

package controllers

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Whatever write is the last one before the program is killed, the next one goes on from there and the
// outcome is the same.
func TestACreationSurvivesAKillAfterEveryWrite(t *testing.T) {
	smooth := newTenantTest(t, single)
	smooth.settle()
	want, writes := smooth.made(), smooth.program.gate.total()
	t.Logf("a creation takes %d writes", writes)
	if writes < 30 {
		t.Fatalf("a creation took %d writes only", writes)
	}
	for write := 1; write <= writes; write++ {
		t.Run(fmt.Sprintf("write %d", write), func(t *testing.T) {
			t.Parallel()
			tt := newTenantTest(t, single)
			tt.program.gate.killAfter = write
			tt.endure(want)
			if tt.restarts != 1 {
				t.Errorf("the program was killed %d times", tt.restarts)
			}
		})
	}
}

// Every fifth write is refused, from the first, the second, ... on: each is refused in one of the runs.
func TestACreationSurvivesRefusedWrites(t *testing.T) {
	smooth := newTenantTest(t, single)
	smooth.settle()
	want := smooth.made()
	const every = 5
	for from := range every {
		t.Run(fmt.Sprintf("from write %d on", from+1), func(t *testing.T) {
			t.Parallel()
			tt := newTenantTest(t, single)
			tt.program.gate.refuse = func(write int) bool { return write%every == from }
			tt.endure(want)
			if tt.program.gate.refused < 5 {
				t.Errorf("%d writes were refused", tt.program.gate.refused)
			}
		})
	}
}

// endure settles through faults and checks that the outcome is the wanted objects, a usable control
// plane, and key material that never changed once it was there.
func (tt *tenantTest) endure(want []string) {
	tt.t.Helper()
	keys := tt.settleThroughFaults()
	if got := tt.made(); !slices.Equal(got, want) {
		tt.t.Errorf("got  %v\nwant %v", got, want)
	}
	if !conditions.IsTrue(tt.controlPlane(), controlplanev1.AvailableCondition) {
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

// settleThroughFaults starts a new program whenever one was killed. It returns all key material that
// was ever seen, by Secret.
func (tt *tenantTest) settleThroughFaults() map[string]map[string][]byte {
	tt.t.Helper()
	keys := map[string]map[string][]byte{}
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
		switch {
		case tt.program.gate.died():
			tt.program = newProgram(tt.t, &gate{})
			tt.restarts++
		case err == nil && !wrote && !worked:
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

// made are the objects that the controller made, with the ports left out of their names.
func (tt *tenantTest) made() []string {
	tt.t.Helper()
	var made []string
	for _, name := range kindsAndNames(tt.objects()) {
		if strings.HasPrefix(name, "ConfigMap kok-ports-") {
			name = "a claim of ports"
		}
		if !strings.HasPrefix(name, "Pod ") {
			made = append(made, name)
		}
	}
	slices.Sort(made)
	return made
}
