package restore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
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

// A rendering from before the first restore does not tell members what they begin with: all would stop, and nothing begin.
func TestNoFirstRestoreBeginsWhileNothingNewIsRendered(t *testing.T) {
	const why = "the controller cannot tell members what they begin with, because it renders nothing new: spec.patches[0]: there is no container"
	for name, test := range map[string]struct {
		unrendered error
		before     string
		refused    bool
	}{
		"patches are refused":                  {unrendered: errors.New("spec.patches[0]: there is no container"), refused: true},
		"the same, and it was restored before": {unrendered: errors.New("spec.patches[0]: there is no container"), before: first},
		"all is rendered":                      {},
	} {
		of := &Facts{ControlPlane: &controlplanev1.KOKControlPlane{}, Unrendered: test.unrendered}
		state := rebuild.State{Record: rebuild.Record{Restore: test.before}, Next: rebuild.Record{Seed: "m-0"}}
		got, err := (&Restorer{AgentImage: "agent"}).judge(t.Context(), of, controlplanev1.EtcdRestoreSpec{Survivor: "m-0"}, state, nil, backups.Answer{})
		if err != nil || (got == why) != test.refused {
			t.Errorf("%s: it says %q: %v", name, got, err)
		}
	}
}

// A control plane whose status lists no members, for its etcd is founded anew from m-0, which did not begin.
func TestAnotherSurvivorIsNamedWhileEtcdIsFoundedAnew(t *testing.T) {
	const (
		quorum   = "survivor: members m-0, m-1, m-2 have their data and are a majority"
		restored = "survivor names m-0, which was about to begin with a snapshot: its newest data may be that snapshot's; name another member or a snapshot"
	)
	without := *tried("there are no data to salvage", 2)
	without.Name = "m-0"
	with := *without.DeepCopy()
	with.Status.InitContainerStatuses[0].LastTerminationState.Terminated.Message = `{"state":"Present","freeBytes":1,"needBytes":1}`
	othersLost, all := []string{"m-1", "m-2"}, []string{"h0", "h1", "h2"}
	snapshot := rebuild.Record{Begins: &rebuild.Ask{Snapshot: "one"}}
	triedBefore := rebuild.Record{Begins: &rebuild.Ask{Snapshot: "two"}, Tried: []rebuild.Try{{Snapshot: "one", Member: "m-0"}}}
	for name, test := range map[string]struct {
		record  rebuild.Record
		heard   []string
		givenUp []string
		seed    string
		says    string
		pods    []corev1.Pod
	}{
		"another one":                                   {rebuild.Record{Begins: &rebuild.Ask{Survivor: "m-0"}}, all, nil, "m-1", "", []corev1.Pod{without}},
		"the same once more":                            {rebuild.Record{Begins: &rebuild.Ask{Survivor: "m-0"}}, all, nil, "m-0", "", []corev1.Pod{without}},
		"one whose host node is not heard":              {rebuild.Record{Begins: &rebuild.Ask{Survivor: "m-0"}}, []string{"h0", "h2"}, nil, "m-1", "survivor names m-1, whose data are lost, or which is given up", []corev1.Pod{without}},
		"one that is given up":                          {rebuild.Record{Begins: &rebuild.Ask{Survivor: "m-0"}}, all, []string{"m-1"}, "m-1", "survivor names m-1, whose data are lost, or which is given up", []corev1.Pod{without}},
		"one that there is not":                         {rebuild.Record{Begins: &rebuild.Ask{Survivor: "m-0"}}, all, nil, "m-9", "survivor names m-9, which is no member of the data etcd: name one of m-0, m-1, m-2", []corev1.Pod{without}},
		"it was founded with a snapshot":                {snapshot, all, nil, "m-1", quorum, []corev1.Pod{without}},
		"... and a majority is given up":                {snapshot, all, []string{"m-0", "m-2"}, "m-1", "", []corev1.Pod{without}},
		"it was founded by another release":             {rebuild.Record{}, all, nil, "m-1", quorum, []corev1.Pod{without}},
		"its own data were put aside for a snapshot":    {snapshot, all, othersLost, "m-0", "", []corev1.Pod{without}},
		"a snapshot was restored":                       {snapshot, all, othersLost, "m-0", restored, []corev1.Pod{with}},
		"a snapshot may have been restored":             {snapshot, all, othersLost, "m-0", restored, nil},
		"... and another member is named":               {snapshot, all, []string{"m-0", "m-2"}, "m-1", "", []corev1.Pod{with}},
		"one was restored before another one was named": {triedBefore, all, othersLost, "m-0", restored, []corev1.Pod{without}},
		"its own data were salvaged":                    {rebuild.Record{Begins: &rebuild.Ask{Survivor: "m-0"}}, all, nil, "m-0", "", []corev1.Pod{with}},
	} {
		t.Run(name, func(t *testing.T) {
			state := rebuild.State{Next: rebuild.Record{Seed: test.seed}, Record: test.record, GivenUp: test.givenUp, Heard: map[string]string{}}
			state.Record.Phase, state.Record.Seed, state.Record.Voters = rebuild.Founding, "m-0", 3
			for i := range 3 {
				state.Record.Members = append(state.Record.Members, rebuild.Member{Name: fmt.Sprint("m-", i), Host: fmt.Sprint("h", i)})
			}
			for _, host := range test.heard {
				state.Heard[host] = "uid"
			}
			got := judgeSurvivor(controlplanev1.EtcdStoragePersistentVolumeClaim, state, test.pods, nil)
			if (got == "") != (test.says == "") || !strings.HasPrefix(got, test.says) {
				t.Errorf("it says %q", got)
			}
		})
	}
	got := judgeSurvivor(controlplanev1.EtcdStoragePersistentVolumeClaim, rebuild.State{Next: rebuild.Record{Seed: "m-1"}}, nil, nil)
	if want := "survivor: the data etcd has no members yet: name a snapshot"; got != want {
		t.Errorf("it says %q", got)
	}
}

// Else the condition EtcdRecovering would say that nothing is restored, and the request could be taken away.
func TestARequestThatIsRefusedHidesNoRestoreThatIsUnderWay(t *testing.T) {
	for phase, want := range map[rebuild.Phase]string{
		rebuild.Stopping: "the restore of " + first + " is not over, and a later one is refused", rebuild.Founding: "is not over", rebuild.Over: "",
	} {
		step := Step{Progress: Progress{Record: rebuild.Record{Restore: first, Phase: phase}}}
		(&Restorer{}).take(t.Context(), &Facts{}, &step, rebuild.Action{Kind: rebuild.Refuse, Reason: "its data are lost"})
		if !strings.Contains(step.Says, want) || (step.Says == "") != (want == "") || step.Refused == nil {
			t.Errorf("%s: it says %q, and refuses with %v", phase, step.Says, step.Refused)
		}
	}
}

// Where each member has snapshots of its own, one that has the snapshot begins with it.
func TestTheSeedHasTheSnapshotOnItsVolume(t *testing.T) {
	in := &components.Input{Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}}
	in.Spec.Etcd.Data.Replicas = ptr.To[int32](3)
	member := func(i int) string { return fmt.Sprintf("blue-etcd-data-%d", i) }
	for name, test := range map[string]struct {
		keepers []string
		heard   []int
		givenUp []string
		want    int
	}{
		"all have it":                {keepers: []string{member(0), member(1), member(2)}, heard: []int{0, 1, 2}, want: 0},
		"the last one has it":        {keepers: []string{member(2)}, heard: []int{0, 1, 2}, want: 2},
		"the first one is not heard": {keepers: []string{member(0), member(1)}, heard: []int{1, 2}, want: 1},
		"the first one is given up":  {keepers: []string{member(0), member(2)}, heard: []int{0, 1, 2}, givenUp: []string{member(0)}, want: 2},
		"who has it is not heard":    {keepers: []string{member(1)}, heard: []int{0, 2}, want: 0},
		"nobody has it":              {heard: []int{0, 1, 2}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			state := rebuild.State{Heard: map[string]string{}, GivenUp: test.givenUp}
			for i := range 3 {
				state.Next.Members = append(state.Next.Members, rebuild.Member{Name: member(i), Host: fmt.Sprint("host-", i)})
			}
			for _, i := range test.heard {
				state.Heard[fmt.Sprint("host-", i)] = "uid"
			}
			if got := seedOf(in, state, func(name string) bool { return slices.Contains(test.keepers, name) }); got != member(test.want) {
				t.Errorf("it is %s", got)
			}
		})
	}
	snapshot := &controlplanev1.KOKEtcdSnapshot{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	if says := keptByNobody(snapshot); says != "snapshot names the KOKEtcdSnapshot one, which no member has on its volume: name another" {
		t.Errorf("it says %q", says)
	}
	snapshot.Status.Members = []string{member(1), member(2)}
	if says := keptByNobody(snapshot); !strings.Contains(says, "on the volumes of blue-etcd-data-1, blue-etcd-data-2 alone") {
		t.Errorf("it says %q", says)
	}
}
