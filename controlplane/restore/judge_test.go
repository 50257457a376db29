package restore

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
)

// Two of five members are left, and each may have writes that the other lacks.
func TestASurvivorHasTheLongestLogOfThoseThatAreLeft(t *testing.T) {
	ends := func(term, index uint64) backup.Volume {
		return backup.Volume{FreeBytes: 2, SurvivorBytes: 1, LogTerm: term, LogIndex: index}
	}
	for name, test := range map[string]struct {
		volumes map[string]backup.Volume
		seed    string
		says    string
	}{
		"the longest log":          {map[string]backup.Volume{"m-3": ends(4, 20), "m-4": ends(4, 17)}, "m-3", ""},
		"logs of the same end":     {map[string]backup.Volume{"m-3": ends(4, 20), "m-4": ends(4, 20)}, "m-3", ""},
		"another one is longer":    {map[string]backup.Volume{"m-3": ends(4, 17), "m-4": ends(4, 20)}, "m-3", "survivor names m-3, whose log ends with entry 17 of term 4, and that of m-4 with entry 20 of term 4, so that it may have writes that the first one lacks: name m-4"},
		"another one is not known": {map[string]backup.Volume{"m-3": ends(4, 17)}, "m-3", ""},
		"a lost one was longer":    {map[string]backup.Volume{"m-0": ends(9, 90), "m-3": ends(4, 17)}, "m-3", ""},
		"the longest has no room":  {map[string]backup.Volume{"m-3": {FreeBytes: 1, SurvivorBytes: 3}}, "m-3", "the volume of m-3 has 1 bytes of room, and 3 are needed"},
		"no volume is known":       {nil, "m-4", ""},
		"one that is given up":     {nil, "m-0", "survivor names m-0, whose data are lost, or which is given up"},
		"one that there is not":    {nil, "m-9", "survivor names m-9, which is no member"},
	} {
		t.Run(name, func(t *testing.T) {
			state := rebuild.State{Heard: map[string]string{"host": "uid"}, GivenUp: []string{"m-0", "m-1", "m-2"}}
			state.Next = rebuild.Record{Seed: test.seed, Voters: 5}
			for _, member := range []string{"m-0", "m-1", "m-2", "m-3", "m-4"} {
				state.Next.Members = append(state.Next.Members, rebuild.Member{Name: member, Host: "host"})
			}
			got := judgeSurvivor(controlplanev1.EtcdStoragePersistentVolumeClaim, state, []corev1.Pod{}, test.volumes)
			if (got == "") != (test.says == "") || !strings.HasPrefix(got, test.says) {
				t.Errorf("it says %q", got)
			}
		})
	}
}
