// Package events decides which Events a reconcile makes: from the status before and after it, and from what it did.
package events

import (
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

// Reasons of Events that Of makes; docs/reference/events.md lists them with the others.
const (
	reasonUpgradeStarted  = "UpgradeStarted"
	reasonUpgradeFinished = "UpgradeFinished"
	reasonRolloutStarted  = "RolloutStarted"
	reasonRolloutFinished = "RolloutFinished"
	reasonScaleStarted    = "ScaleStarted"
	reasonScaleFinished   = "ScaleFinished"
	reasonRepaired        = "Repaired"
	reasonRestoreStarted  = "EtcdRestoreStarted"
	reasonRestored        = "EtcdRestored"
)

// Deeds are what a reconcile did that status does not tell. Steps add to them side by side.
type Deeds struct {
	lock     sync.Mutex
	adopted  []revision.Adoption
	repaired []apply.Repair
	rotated  []Rotated
	// UpgradeTook is how long an upgrade took that ended, from when API servers were rendered for it; zero for no such end.
	UpgradeTook time.Duration
}

// Adopt adds a rendering that a component took in place of another. What is stored of Services is their addresses.
func (d *Deeds) Adopt(adoption revision.Adoption) {
	if adoption.Component == names.Services {
		return
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	d.adopted = append(d.adopted, adoption)
}

// Repair adds a repair; nil for none.
func (d *Deeds) Repair(repair *apply.Repair) {
	if repair == nil {
		return
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	d.repaired = append(d.repaired, *repair)
}

// Rotated is a phase of a rotation that was stored.
type Rotated struct {
	// Kind is that of the key, What what people call it.
	Kind controlplanev1.KeyKind
	What string
	// From is the phase before, which is Over or empty for a rotation that begins.
	From, To rotation.Phase
}

// Rotate adds a phase that was stored.
func (d *Deeds) Rotate(rotated Rotated) {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.rotated = append(d.rotated, rotated)
}

// Event is one Event about a control plane.
type Event struct {
	kind, reason, action, note string
	// related tells apart Events of one reason, which Kubernetes would fold into one; nil for none.
	related *corev1.ObjectReference
}

// Written is the status that this program last wrote of each control plane. A cache may still show the one before,
// from which each change would be found again.
type Written struct {
	lock sync.Mutex
	of   map[client.ObjectKey]*controlplanev1.KOKControlPlane
}

// Last is what was last written, or what is stored when this program wrote nothing yet.
func (w *Written) Last(stored *controlplanev1.KOKControlPlane) *controlplanev1.KOKControlPlane {
	w.lock.Lock()
	defer w.lock.Unlock()
	if written := w.of[client.ObjectKeyFromObject(stored)]; written != nil && written.UID == stored.UID {
		return written
	}
	return stored
}

// Keep remembers the status that was just written.
func (w *Written) Keep(controlPlane *controlplanev1.KOKControlPlane) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.of == nil {
		w.of = map[client.ObjectKey]*controlplanev1.KOKControlPlane{}
	}
	kept := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: controlPlane.Namespace, Name: controlPlane.Name, UID: controlPlane.UID}}
	controlPlane.Status.DeepCopyInto(&kept.Status)
	w.of[client.ObjectKeyFromObject(controlPlane)] = kept
}

// Forget drops what was remembered of a control plane that is gone.
func (w *Written) Forget(controlPlane client.ObjectKey) {
	w.lock.Lock()
	defer w.lock.Unlock()
	delete(w.of, controlPlane)
}

// Record sends Events about a control plane.
func Record(recorder events.EventRecorder, controlPlane *controlplanev1.KOKControlPlane, all []Event) {
	for _, e := range all {
		var related runtime.Object
		if e.related != nil {
			related = e.related
		}
		recorder.Eventf(controlPlane, related, e.kind, e.reason, e.action, "%s", e.note)
	}
}

// Of are the Events of one reconcile: what the stored status was before and is after it, and what it did. Each
// stands for a change of status, or for a write, that happens once; a program that starts anew finds neither again.
func Of(before, after *controlplanev1.KOKControlPlane, did *Deeds) []Event {
	var all []Event
	for _, repair := range did.repaired {
		all = append(all, Event{corev1.EventTypeWarning, reasonRepaired, "Apply", repair.String(), ptr.To(repair.Object)})
	}
	for _, adoption := range did.adopted {
		all = append(all, startsOf(after.Namespace, adoption)...)
	}
	for _, rotated := range did.rotated {
		all = append(all, phaseOf(rotated)...)
	}
	if !conditions.IsTrue(before, conditionsv1.InitializedCondition) {
		return all // All that happens is the making of the control plane.
	}
	all = append(all, restoreOf(before, after)...)
	all = append(all, scaleOfEtcd(before, after)...)
	all = append(all, scaleOfAPIServers(before, after)...)
	if ended(before, after, conditionsv1.RollingOutCondition) {
		all = append(all, normal(reasonRolloutFinished, "RollOut", "All pods are up to date"+since(before, after, conditionsv1.RollingOutCondition)))
	}
	if from := Upgraded(before.Status.Versions, after.Status.Versions); from != "" {
		note := fmt.Sprintf("The upgrade from %s to %s is over", from, after.Status.Versions[0].Version)
		if did.UpgradeTook > 0 {
			note += fmt.Sprintf(", after %s", did.UpgradeTook.Round(time.Second))
		}
		all = append(all, normal(reasonUpgradeFinished, "Upgrade", note))
	}
	return all
}

func normal(reason, action, note string) Event {
	return Event{kind: corev1.EventTypeNormal, reason: reason, action: action, note: note}
}

// startsOf are the starts that an adopted rendering is. kube-apiserver is the first of Kubernetes' components that an
// upgrade reaches, and has another rendering for each version.
func startsOf(namespace string, adoption revision.Adoption) []Event {
	upgrades := adoption.From != "" && adoption.From != adoption.To
	why := "the spec, or what it takes from the Cluster, changed"
	switch {
	case upgrades:
		why = fmt.Sprintf("the version was %s and is %s", adoption.From, adoption.To)
	case adoption.Again > 0:
		why = fmt.Sprintf("spec.rollout.renderings names revision %d, which it takes again", adoption.Again)
	case adoption.Due:
		why = "spec.rollout.after has passed"
	}
	start := normal(reasonRolloutStarted, "Adopt", fmt.Sprintf("%s takes a new rendering, revision %d: %s", adoption.Component, adoption.Number, why))
	start.related = &corev1.ObjectReference{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ControllerRevision", Namespace: namespace, Name: adoption.Name,
	}
	if !upgrades || adoption.Component != names.KubeAPIServer {
		return []Event{start}
	}
	return []Event{start, normal(reasonUpgradeStarted, "Upgrade", fmt.Sprintf("The upgrade from %s to %s reaches the API servers", adoption.From, adoption.To))}
}

// restoreOf is about an etcd that is founded anew. It is a warning, for writes or events are lost.
func restoreOf(before, after *controlplanev1.KOKControlPlane) (all []Event) {
	for _, cluster := range etcdcomponent.All {
		was, is := etcdclusters.Status(before, cluster.Component), etcdclusters.Status(after, cluster.Component)
		warning := func(reason, note string) {
			all = append(all, Event{kind: corev1.EventTypeWarning, reason: reason, action: "Restore", note: cluster.Component + " " + note})
		}
		switch {
		case is.Restoring != nil && (was.Restoring == nil || !was.Restoring.RequestedAt.Equal(&is.Restoring.RequestedAt)):
			warning(reasonRestoreStarted, fmt.Sprintf("is founded anew%s: %s", beginningOf(is.Restoring), askedBy(after, cluster)))
		case !is.RestoredAt.IsZero() && !is.RestoredAt.Equal(&was.RestoredAt):
			warning(reasonRestored, fmt.Sprintf("was founded anew, as was asked for at %s", is.RestoredAt.UTC().Format(time.RFC3339)))
		}
	}
	return all
}

// beginningOf is what an etcd begins with that is founded anew.
func beginningOf(restoring *controlplanev1.EtcdRestoringStatus) string {
	switch {
	case restoring.Survivor != "":
		return " from the data of member " + restoring.Survivor
	case restoring.Snapshot != "":
		return " from KOKEtcdSnapshot " + restoring.Snapshot
	}
	return ", empty"
}

// askedBy is why an etcd is founded anew.
func askedBy(of *controlplanev1.KOKControlPlane, cluster etcdcomponent.Cluster) string {
	if ptr.Deref(etcdclusters.Status(of, cluster.Component).Restoring.Automatic, false) {
		return fmt.Sprintf("no quorum can return, and spec.etcd.recovery is %s", of.Spec.Etcd.Recovery)
	}
	return cluster.FoundAnewBy + " asks for it"
}

// scaleOfEtcd goes by etcd's own list of members.
func scaleOfEtcd(before, after *controlplanev1.KOKControlPlane) []Event {
	var all []Event
	for _, component := range etcdcomponent.Components() {
		was, is := etcdclusters.Status(before, component), etcdclusters.Status(after, component)
		from, to := ptr.Deref(was.Replicas, 0), ptr.Deref(is.Replicas, 0)
		if !etcdclusters.Bootstrapped(before, component) || from == 0 || to == 0 {
			continue
		}
		if from != to {
			all = append(all, scale(reasonScaleStarted, component, fmt.Sprintf("%s goes from %d to %d members", component, from, to)))
		}
		if hasMembers(is, to) && !hasMembers(was, to) {
			all = append(all, scale(reasonScaleFinished, component, fmt.Sprintf("%s has as many voting members as are wanted, %d%s", component, to, sinceScale(before, after))))
		}
	}
	return all
}

// hasMembers reports whether an etcd cluster has so many members, and all vote.
func hasMembers(status controlplanev1.EtcdClusterStatus, wanted int32) bool {
	voting := !slices.ContainsFunc(status.Members, func(m controlplanev1.EtcdMemberStatus) bool { return m.State != controlplanev1.EtcdMemberVoter })
	return voting && len(status.Members) == int(wanted)
}

// scaleOfAPIServers leaves out numbers of a workload that is missing or not observed yet, and those that a rollout moves.
func scaleOfAPIServers(before, after *controlplanev1.KOKControlPlane) []Event {
	var all []Event
	from, to := ptr.Deref(before.Status.DesiredReplicas, 0), ptr.Deref(after.Status.DesiredReplicas, 0)
	if from != 0 && to != 0 && from != to {
		all = append(all, scale(reasonScaleStarted, names.KubeAPIServer, fmt.Sprintf("%s goes from %d to %d pods", names.KubeAPIServer, from, to)))
	}
	rolls := conditions.IsTrue(before, conditionsv1.RollingOutCondition) || conditions.IsTrue(after, conditionsv1.RollingOutCondition)
	if to != 0 && !rolls && scaling(before) && !scaling(after) {
		all = append(all, scale(reasonScaleFinished, names.KubeAPIServer, fmt.Sprintf("%s has as many pods as are wanted, %d%s", names.KubeAPIServer, to, sinceScale(before, after))))
	}
	return all
}

// scale is an Event about the number of a component's pods. The action tells components apart.
func scale(reason, component, note string) Event { return normal(reason, "Scale-"+component, note) }

// scaling reports whether status counts more or fewer API servers than there should be.
func scaling(controlPlane *controlplanev1.KOKControlPlane) bool {
	return ptr.Deref(controlPlane.Status.Replicas, 0) != ptr.Deref(controlPlane.Status.DesiredReplicas, 0)
}

// ended reports whether a condition was true and is false.
func ended(before, after *controlplanev1.KOKControlPlane, name string) bool {
	return conditions.IsTrue(before, name) && conditions.IsFalse(after, name)
}

// since says how long a condition was true that has ended; empty for one that has not.
func since(before, after *controlplanev1.KOKControlPlane, name string) string {
	if !ended(before, after, name) {
		return ""
	}
	took := conditions.Get(after, name).LastTransitionTime.Sub(conditions.Get(before, name).LastTransitionTime.Time)
	return fmt.Sprintf(", after %s", took.Round(time.Second))
}

// sinceScale says how long a condition about scaling was true that has ended; empty for none.
func sinceScale(before, after *controlplanev1.KOKControlPlane) string {
	for _, name := range []string{conditionsv1.ScalingUpCondition, conditionsv1.ScalingDownCondition} {
		if took := since(before, after, name); took != "" {
			return took
		}
	}
	return ""
}

// Upgraded is the version that the last pod left, when all are at one version and not all were; empty otherwise.
func Upgraded(before, after []clusterv1.StatusVersion) string {
	if len(after) != 1 {
		return ""
	}
	i := slices.IndexFunc(before, func(v clusterv1.StatusVersion) bool { return v.Version != after[0].Version })
	if i < 0 {
		return ""
	}
	return before[i].Version
}
