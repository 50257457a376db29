package workers

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

func TestAPoolHasNoWorkerOfAnother(t *testing.T) {
	hosts := []*host.Host{{Name: "cloud-1"}, {Name: "idc-1"}, {Name: "worker-1"}, {Name: "worker-2"}, {Name: "worker-3", Owner: "bench"}, {Name: "worker-4", System: "debian-13"}}
	known := func(namespace, name, machine string) infrav1.IDCHost {
		h := infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if machine != "" {
			h.Spec.Claim = &infrav1.HostClaim{Name: machine}
		}
		return h
	}
	for name, test := range map[string]struct {
		owner, system string
		known         []infrav1.IDCHost
		want          []string
	}{
		"workers that nobody knows are used":                   {want: []string{"worker-1", "worker-2"}},
		"a machine of this namespace keeps its worker":         {known: []infrav1.IDCHost{known("here", "worker-1", "m")}, want: []string{"worker-1", "worker-2"}},
		"a machine of another namespace keeps its worker":      {known: []infrav1.IDCHost{known("there", "worker-1", "m")}, want: []string{"worker-2"}},
		"a worker that another namespace only knows is used":   {known: []infrav1.IDCHost{known("there", "worker-1", "")}, want: []string{"worker-1", "worker-2"}},
		"an owner has its own workers and leaves all others":   {owner: "bench", want: []string{"worker-3"}},
		"bare workers are used where they are wanted alone":    {system: "debian-13", want: []string{"worker-4"}},
		"no bare worker stands for one with another system":    {system: "debian-12", want: nil},
		"an owner without workers has none before it adds one": {owner: "another", want: nil},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &Pool{Namespace: "here", Owner: test.owner}
			if got := pool.usable(test.system, hosts, test.known); !slices.Equal(got, test.want) {
				t.Errorf("the pool has %v, want %v", got, test.want)
			}
		})
	}
}
