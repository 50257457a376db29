//go:build envtest

package controllers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// Whatever write is the last one before the program is killed, the next one goes on from there and the
// outcome is the same.
func TestACreationSurvivesAKillAfterEveryWrite(t *testing.T) {
	t.Parallel()
	smooth := newRollingTenantTest(t, single)
	smooth.settle()
	want, writes := smooth.made(), smooth.program.gate.total()
	t.Logf("a creation takes %d writes", writes)
	if writes < 30 {
		t.Fatalf("a creation took %d writes only", writes)
	}
	var all []int
	for write := 1; write <= writes; write++ {
		all = append(all, write)
	}
	for _, write := range sample.Of(t, 3, all) {
		t.Run(fmt.Sprintf("write %d", write), func(t *testing.T) {
			t.Parallel()
			tt := newRollingTenantTest(t, single)
			tt.program.gate.killAfter = write
			tt.endure(want)
			if tt.restarts != 1 {
				t.Errorf("the program was killed %d times", tt.restarts)
			}
		})
	}
}

func TestACreationSurvivesFaults(t *testing.T) {
	t.Parallel()
	smooth := newRollingTenantTest(t, lasting)
	smooth.settle()
	want := smooth.made()
	withFaults(t, func(t *testing.T) *tenantTest { return newRollingTenantTest(t, lasting) }, func(tt *tenantTest) { tt.endure(want) })
}

// endure settles through the faults of a creation and checks that the outcome is the wanted objects, in a
// usable control plane of which no pod was made twice.
func (tt *tenantTest) endure(want []string) {
	tt.t.Helper()
	tt.settleThroughFaults()
	if got := tt.made(); !slices.Equal(got, want) {
		tt.t.Errorf("got  %v\nwant %v", got, want)
	}
	tt.eachPodWasMade(1)
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
