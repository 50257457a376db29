package seen

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
)

var ended = time.Date(2026, 4, 5, 6, 7, 8, 0, time.UTC)

const (
	present = `{"state":"Present","freeBytes":1,"needBytes":1}`
	noSpace = `{"state":"NoSpace","freeBytes":0,"needBytes":1}`
)

// looked is the status of a prepare that ended.
func looked(message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: facts.Container, State: terminated(message, 0)}
}

func terminated(message string, code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: metav1.NewTime(ended)}}
}

// again is the status of a prepare that ended, and that kubelet makes anew.
func again(message string, code int32, now corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: facts.Container, State: now, LastTerminationState: terminated(message, code)}
}

func ready(status corev1.ConditionStatus, after time.Duration) []corev1.PodCondition {
	return []corev1.PodCondition{
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(ended.Add(time.Hour))},
		{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(ended.Add(after))},
	}
}

func TestData(t *testing.T) {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	other := looked(present)
	other.Name = "other"
	for name, test := range map[string]struct {
		prepare    corev1.ContainerStatus
		conditions []corev1.PodCondition
		want       recovery.Data
	}{
		"the pod has no such container":                         {prepare: other, want: recovery.Unknown},
		"it has not looked yet":                                 {prepare: corev1.ContainerStatus{Name: facts.Container, State: running}, want: recovery.Unknown},
		"it said nothing":                                       {prepare: looked(""), want: recovery.Unknown},
		"it said what is no JSON":                               {prepare: looked("exec format error"), want: recovery.Unknown},
		"it said what kubelet cut off":                          {prepare: looked(present[:len(present)-1]), want: recovery.Unknown},
		"a newer agent has another state":                       {prepare: looked(`{"state":"Wet","freeBytes":0,"needBytes":0}`), want: recovery.Unknown},
		"the message is longer than kubelet keeps":              {prepare: looked(present + strings.Repeat(" ", 4096)), want: recovery.Unknown},
		"nothing is there":                                      {prepare: looked(`{"state":"Empty"}`), want: recovery.Empty},
		"data are there":                                        {prepare: looked(present), want: recovery.Present},
		"data are there, and a newer agent says more":           {prepare: looked(`{"state":"Present","color":"blue"}`), want: recovery.Present},
		"data are bad":                                          {prepare: looked(`{"state":"Unreadable","reason":"LogDamaged"}`), want: recovery.Unreadable},
		"data may not be read":                                  {prepare: looked(`{"state":"Unreadable","reason":"NotPermitted"}`), want: recovery.Unknown},
		"another program has the data open":                     {prepare: looked(`{"state":"Unreadable","reason":"InUse"}`), want: recovery.Unknown},
		"the disk gives errors":                                 {prepare: looked(`{"state":"Unreadable","reason":"DiskFails"}`), want: recovery.Unknown},
		"there was no time":                                     {prepare: looked(`{"state":"Unreadable","reason":"NotFinished"}`), want: recovery.Unknown},
		"the look failed":                                       {prepare: looked(`{"state":"Unreadable","reason":"Unknown"}`), want: recovery.Unknown},
		"a newer agent has another reason":                      {prepare: looked(`{"state":"Unreadable","reason":"LogInvented"}`), want: recovery.Unknown},
		"it failed for want of room":                            {prepare: corev1.ContainerStatus{Name: facts.Container, State: terminated(noSpace, 1)}, want: recovery.NoSpace},
		"it failed for want of room, and kubelet waits":         {prepare: again(noSpace, 1, waiting), want: recovery.NoSpace},
		"it failed for want of room, and looks again":           {prepare: again(noSpace, 1, running), want: recovery.NoSpace},
		"it held bad data, and kubelet waits":                   {prepare: again(`{"state":"Unreadable","reason":"LogTooShort"}`, 1, waiting), want: recovery.Unreadable},
		"it looks again in containers that were made anew":      {prepare: again(present, 0, running), want: recovery.Unknown},
		"the pod is ready":                                      {prepare: looked(present), conditions: ready(corev1.ConditionTrue, time.Minute), want: recovery.Stale},
		"the pod is ready by another clock":                     {prepare: looked(present), conditions: ready(corev1.ConditionTrue, -time.Minute), want: recovery.Stale},
		"the pod was ready since":                               {prepare: looked(`{"state":"Empty"}`), conditions: ready(corev1.ConditionFalse, time.Second), want: recovery.Stale},
		"nobody knows whether the pod was ready since":          {prepare: looked(`{"state":"Empty"}`), conditions: ready(corev1.ConditionUnknown, time.Second), want: recovery.Stale},
		"the pod was never ready":                               {prepare: looked(present), conditions: ready(corev1.ConditionFalse, -time.Second), want: recovery.Present},
		"the pod was made in the second in which the look ends": {prepare: looked(present), conditions: ready(corev1.ConditionFalse, 0), want: recovery.Present},
		"the pod is ready, and what was said cannot be read":    {prepare: looked("?"), conditions: ready(corev1.ConditionTrue, time.Minute), want: recovery.Unknown},
		"the pod is ready, and data may not have been read":     {prepare: looked(`{"state":"Unreadable","reason":"InUse"}`), conditions: ready(corev1.ConditionTrue, time.Minute), want: recovery.Unknown},
		"the pod was ready before its containers were new":      {prepare: looked(present), conditions: ready(corev1.ConditionFalse, -time.Hour), want: recovery.Present},
		"it says that there is no room, and the pod is ready":   {prepare: looked(noSpace), conditions: ready(corev1.ConditionTrue, time.Minute), want: recovery.Stale},
		"other conditions changed since":                        {prepare: looked(present), conditions: ready(corev1.ConditionFalse, -time.Second)[:1], want: recovery.Present},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{
				Conditions: test.conditions, InitContainerStatuses: []corev1.ContainerStatus{{Name: "first", State: terminated(`{"state":"Empty"}`, 0)}, test.prepare},
			}}
			if got := Data(pod); got != test.want {
				t.Errorf("the data is %q, and %q was expected", got, test.want)
			}
		})
	}
}

// Of a pod that was ready once, failures in a row are not known: its host node may have started again and again.
func TestDataThatLookWellInAPodThatWasReadyOnceAreLookedAtAgain(t *testing.T) {
	for state, want := range map[facts.State]recovery.Data{facts.Present: recovery.Stale, facts.Empty: recovery.Empty} {
		pod := &corev1.Pod{Status: corev1.PodStatus{
			StartTime: ptr.To(metav1.NewTime(ended.Add(-2 * time.Hour))), Conditions: ready(corev1.ConditionFalse, -time.Hour),
			InitContainerStatuses: []corev1.ContainerStatus{looked(`{"state":"` + string(state) + `"}`)},
		}}
		if got := Data(pod); got != want {
			t.Errorf("the data is %q, and %q was expected", got, want)
		}
	}
}

func TestAPodWithoutAnyStatusIsUnknown(t *testing.T) {
	if got := Data(&corev1.Pod{}); got != recovery.Unknown {
		t.Errorf("the data is %q", got)
	}
}

// run is a run of a container that began some time after the pod's condition Ready changed, and ended with a code.
func run(after time.Duration, code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, StartedAt: metav1.NewTime(ended.Add(after))}}
}

// container is the status of a container that was started again some times.
func container(name string, restarts int32, now, last corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, RestartCount: restarts, State: now, LastTerminationState: last}
}

func TestFailedStarts(t *testing.T) {
	none := corev1.ContainerState{}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	creating := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	prepared := container(facts.Container, 0, run(time.Second, 0), none)
	const sidecar = "sidecar"
	for name, test := range map[string]struct {
		prepare, etcd, other corev1.ContainerStatus
		// conditions are what the pod says; a test without any has a pod that was never ready.
		conditions []corev1.PodCondition
		want       int
	}{
		"nothing has started":                              {prepare: container(facts.Container, 0, creating, none), etcd: container(etcd.Container, 0, creating, none)},
		"the first run goes on":                            {prepare: prepared, etcd: container(etcd.Container, 0, running, none)},
		"it ended once":                                    {prepare: prepared, etcd: container(etcd.Container, 0, run(time.Second, 1), none), want: 1},
		"it ended once without a fault":                    {prepare: prepared, etcd: container(etcd.Container, 0, run(time.Second, 0), none), want: 1},
		"it ended once, and kubelet waits":                 {prepare: prepared, etcd: container(etcd.Container, 0, waiting, run(time.Second, 1)), want: 1},
		"it ended once, and runs again":                    {prepare: prepared, etcd: container(etcd.Container, 1, running, run(time.Second, 1)), want: 1},
		"it ended twice":                                   {prepare: prepared, etcd: container(etcd.Container, 1, run(2*time.Minute, 1), run(time.Minute, 1)), want: 2},
		"it ended five times, and kubelet waits":           {prepare: prepared, etcd: container(etcd.Container, 4, waiting, run(time.Hour, 1)), want: 5},
		"it began in the second in which the pod was made": {prepare: prepared, etcd: container(etcd.Container, 0, run(0, 1), none), want: 1},

		"the pod is ready":                    {prepare: prepared, etcd: container(etcd.Container, 4, running, run(time.Second, 1)), conditions: ready(corev1.ConditionTrue, 0)},
		"the pod has no condition":            {prepare: prepared, etcd: container(etcd.Container, 4, waiting, run(time.Second, 1)), conditions: ready(corev1.ConditionTrue, 0)[:1]},
		"the pod became ready in between":     {prepare: prepared, etcd: container(etcd.Container, 4, running, run(time.Second, 1)), conditions: ready(corev1.ConditionFalse, time.Minute)},
		"what was ready ended":                {prepare: prepared, etcd: container(etcd.Container, 4, waiting, run(time.Second, 1)), conditions: ready(corev1.ConditionFalse, time.Minute)},
		"what was ready ended, and once more": {prepare: prepared, etcd: container(etcd.Container, 1, waiting, run(2*time.Minute, 1)), conditions: ready(corev1.ConditionFalse, time.Minute), want: 2},
		"nobody hears from the pod":           {prepare: prepared, etcd: container(etcd.Container, 1, waiting, run(time.Second, 1)), conditions: ready(corev1.ConditionUnknown, 0), want: 2},

		"prepare failed": {prepare: container(facts.Container, 0, run(time.Second, 1), none), etcd: container(etcd.Container, 0, creating, none), want: 1},
		"prepare failed three times, and kubelet waits": {prepare: container(facts.Container, 2, waiting, run(time.Minute, 1)), etcd: container(etcd.Container, 0, creating, none), want: 3},
		"prepare failed, and looks again":               {prepare: container(facts.Container, 1, running, run(time.Second, 1)), etcd: container(etcd.Container, 0, creating, none), want: 1},
		"prepare failed, then went well":                {prepare: container(facts.Container, 1, run(time.Minute, 0), run(time.Second, 1)), etcd: container(etcd.Container, 0, running, none)},
		"prepare failed, and etcd too":                  {prepare: container(facts.Container, 1, run(time.Minute, 0), run(time.Second, 1)), etcd: container(etcd.Container, 1, waiting, run(time.Hour, 1)), want: 2},
		"prepare failed before the pod was ready":       {prepare: container(facts.Container, 2, run(time.Minute, 0), run(time.Second, 1)), etcd: container(etcd.Container, 0, running, none), conditions: ready(corev1.ConditionFalse, time.Hour)},

		"a sidecar ends":               {prepare: prepared, etcd: container(etcd.Container, 0, running, none), other: container(sidecar, 7, waiting, run(time.Minute, 1))},
		"a sidecar ends, and etcd too": {prepare: prepared, etcd: container(etcd.Container, 1, waiting, run(time.Second, 1)), other: container(sidecar, 7, waiting, run(time.Minute, 1)), want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{
				Conditions:            test.conditions,
				InitContainerStatuses: []corev1.ContainerStatus{container("first", 3, run(time.Second, 1), none), test.prepare},
				ContainerStatuses:     []corev1.ContainerStatus{test.etcd, test.other},
			}}
			if test.conditions == nil {
				pod.Status.Conditions = ready(corev1.ConditionFalse, 0)
			}
			if got := FailedStarts(pod); got != test.want {
				t.Errorf("it failed %d times, and %d were expected", got, test.want)
			}
		})
	}
	if got := FailedStarts(&corev1.Pod{}); got != 0 {
		t.Errorf("in a pod without any status it failed %d times", got)
	}
}

func TestKubeletBacksOffWhereEtcdFailed(t *testing.T) {
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	const backOff = "CrashLoopBackOff"
	for name, test := range map[string]struct {
		status corev1.ContainerStatus
		want   bool
	}{
		"kubelet waits":             {container(etcd.Container, 3, waiting(backOff), run(time.Minute, 1)), true},
		"the pod begins":            {container(etcd.Container, 0, waiting("PodInitializing"), corev1.ContainerState{}), false},
		"its image cannot be had":   {container(etcd.Container, 0, waiting("ImagePullBackOff"), corev1.ContainerState{}), false},
		"etcd runs again":           {container(etcd.Container, 3, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, run(time.Minute, 1)), false},
		"etcd has ended":            {container(etcd.Container, 3, run(time.Hour, 1), run(time.Minute, 1)), false},
		"another container fails":   {container("sidecar", 3, waiting(backOff), run(time.Minute, 1)), false},
		"there is no status at all": {},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "first"}, test.status}}}
		if got := BacksOff(pod); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
