package tenant

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Wait is how long a tenant said that it waits for something.
type Wait struct {
	For  string
	Time time.Duration
}

// Waits are what the tenants' Available conditions said until they were true, the longest first, added up.
func Waits(tenants []*Tenant) []Wait {
	sum := map[string]time.Duration{}
	for _, t := range tenants {
		t.lock.Lock()
		for message, d := range t.waited {
			sum[message] += d
		}
		t.lock.Unlock()
	}
	waits := make([]Wait, 0, len(sum))
	for message, d := range sum {
		waits = append(waits, Wait{message, d})
	}
	slices.SortFunc(waits, func(a, b Wait) int { return cmp.Compare(b.Time, a.Time) })
	return waits
}

// Restarts are the containers that were started more than once.
func (t *Tenant) Restarts() []Restart {
	t.lock.Lock()
	defer t.lock.Unlock()
	return slices.SortedFunc(maps.Values(t.restarts), func(a, b Restart) int { return cmp.Compare(a.Pod, b.Pod) })
}

// Trouble is what else the host cluster reported of the tenant's pods: what, and how often.
func (t *Tenant) Trouble() []string {
	t.lock.Lock()
	defer t.lock.Unlock()
	var trouble []string
	for _, what := range slices.Sorted(maps.Keys(t.trouble)) {
		trouble = append(trouble, fmt.Sprintf("%dx %s", t.trouble[what], what))
	}
	return trouble
}

// says is what Available says now.
func (t *Tenant) says() string {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.waitsFor
}

func (t *Tenant) noteRestarts(pod *corev1.Pod, status *corev1.ContainerStatus) {
	if status.RestartCount == 0 {
		return
	}
	reason := "unknown"
	for _, terminated := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
		if terminated != nil {
			reason = fmt.Sprintf("%s, exit code %d", terminated.Reason, terminated.ExitCode)
		}
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	t.restarts[pod.Name+"/"+status.Name] = Restart{Pod: pod.Name, Count: status.RestartCount, Reason: reason}
}

// failedMount is kubelet's reason of an Event when a volume cannot be mounted yet.
const failedMount = "FailedMount"

// noteTrouble counts an event of a pod while the tenant lives: one that is deleted has its containers killed.
func (t *Tenant) noteTrouble(event *corev1.Event) {
	if t.ctx.Err() != nil {
		return
	}
	t.note(fmt.Sprintf("%s %s: %s", t.componentOf(event.InvolvedObject.Name), event.Reason, event.Message))
	if event.Reason == failedMount {
		t.lock.Lock()
		t.failedMounts++
		t.lock.Unlock()
	}
}

// FailedMounts is how often the host cluster reported that a volume of the tenant's pods could not be mounted yet. A pod then waits.
func (t *Tenant) FailedMounts() int {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.failedMounts
}

func (t *Tenant) note(what string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.trouble[what]++
}
