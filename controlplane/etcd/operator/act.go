package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
)

// All that this package writes is in this file; each function says for people what it did.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=delete
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// +kubebuilder:rbac:groups="",resources=services,verbs=patch

// Reasons of Events; docs/reference/events.md lists them.
const (
	reasonMemberLost     = "EtcdMemberLost"
	reasonMadeRoom       = "EtcdMadeRoom"
	reasonMembersChanged = "EtcdMembersChanged"
	reasonMemberReplaced = "EtcdMemberReplaced"
	reasonLeaderMoved    = "EtcdLeaderMoved"
)

// changeDone is what a change of the members did, for people.
var changeDone = map[membership.Kind]string{
	membership.AddLearner:  "added as a learner:",
	membership.Promote:     "votes now:",
	membership.MoveLeader:  "leads now:",
	membership.Remove:      "removed:",
	membership.DeleteClaim: "deleted the volume of removed member",
}

// changeMembers changes the members that etcd lists.
func (c *cluster) changeMembers(ctx context.Context, kind membership.Kind, member string, health *etcd.Health) (string, error) {
	if err := c.operator.etcd.Change(ctx, kind, member, health, c.members, c.tls); err != nil {
		return "", err
	}
	return c.changed(kind, member), nil
}

// deleteClaim deletes the volume claims of a removed member, unless they are other ones by now. The claim with snapshots goes
// first: once the claim with the data is gone, no later run looks for the other one.
func (c *cluster) deleteClaim(ctx context.Context, member string, claim *corev1.PersistentVolumeClaim) (string, error) {
	snapshots, err := claimsNamed(ctx, c.Host.Live, client.ObjectKey{Namespace: claim.Namespace, Name: etcdcomponent.SnapshotsClaim(member)})
	if err != nil {
		return "", err
	}
	for i := range snapshots {
		if err := c.deleteThis(ctx, &snapshots[i], "removed"); err != nil {
			return "", err
		}
	}
	if err := c.deleteThis(ctx, claim, "removed"); err != nil {
		return "", err
	}
	return c.changed(membership.DeleteClaim, member), nil
}

// changed tells people of a change of the members.
func (c *cluster) changed(kind membership.Kind, member string) string {
	did := changeDone[kind] + " " + member
	c.log.Info("Changed the members of etcd", "step", did)
	c.event(reasonMembersChanged, string(kind), "%s: %s", c.Cluster.Component, did)
	return did
}

// recoveryDone is what a step of a replacement did, for people.
var recoveryDone = map[recovery.Kind]string{
	recovery.Begin:       "it is replaced",
	recovery.MoveLeader:  "another member leads now",
	recovery.Remove:      "it is removed",
	recovery.DeleteClaim: "its volume is deleted",
	recovery.DeletePod:   "its pod is deleted",
}

// recoverMember takes a step of the replacement of a member. It removes this very member, and deletes this very volume and
// this very pod.
func (c *cluster) recoverMember(ctx context.Context, action recovery.Action, state recovery.State, found *belongings, health *etcd.Health) (string, error) {
	var err error
	member, did := state.Member(action.Ordinal), action.Reason+": "+recoveryDone[action.Kind]
	switch action.Kind {
	case recovery.Begin:
		err = c.recordReplacement(ctx, found.services[member.Name], state.Record(action))
	case recovery.MoveLeader:
		err = c.operator.etcd.Change(ctx, membership.MoveLeader, member.Name, health, c.members, c.tls)
	case recovery.Remove:
		err = c.operator.etcd.Change(ctx, membership.Remove, member.Name, health, c.members, c.tls)
	case recovery.DeleteClaim:
		if kept := member.KeptSnapshots(); kept != "" {
			did += fmt.Sprintf(", and volume claim %s is kept: no other member is known to have a verified snapshot", kept)
		} else if own := found.snapshots[member.Name]; own != nil { // It may tie the member to a host node that it cannot stay on.
			err = c.deleteThis(ctx, own, "lost")
		}
		if err == nil {
			err = c.deleteThis(ctx, found.claims[member.Name], "lost")
		}
	case recovery.DeletePod:
		err = c.deleteThis(ctx, &found.pods[hostpods.Index(found.pods, member.Name)], "lost")
	}
	if err != nil {
		return "", err
	}
	c.log.Info("Took a step of the replacement of an etcd member", "step", did)
	c.event(reasonMemberLost, string(action.Kind), "%s: %s", c.Cluster.Component, did)
	if action.Kind == recovery.Begin {
		Recoveries.WithLabelValues(c.Input.Cluster.Namespace, c.Input.Cluster.Name, c.Cluster.Field).Inc()
	}
	return did, nil
}

// spaceDone is what a step that makes room did, for people.
var spaceDone = map[space.Kind]string{
	space.Compact:    "old versions of all keys are dropped",
	space.Defragment: "its database is written anew without free pages:",
	space.Disarm:     "it takes writes again",
}

// makeRoom takes a step that has a full etcd take writes again. It may take longer than other steps.
func (c *cluster) makeRoom(ctx context.Context, action space.Action, compactedAt int64) (string, error) {
	if err := c.operator.etcd.MakeRoom(ctx, action, c.members, c.tls); err != nil {
		return "", err
	}
	c.operator.rewritten.note(c.key(), action, compactedAt, c.operator.clock.Now())
	did := strings.TrimSpace(action.Reason + ": " + spaceDone[action.Kind] + " " + action.Member)
	c.log.Info("Made room in a full etcd", "step", did)
	c.event(reasonMadeRoom, string(action.Kind), "%s: %s", c.Cluster.Component, did)
	return did, nil
}

// recordReplacement notes on the Service of a member that its replacement has begun, unless somebody changed the Service.
func (c *cluster) recordReplacement(ctx context.Context, service *metav1.PartialObjectMetadata, record recovery.Replacement) error {
	if service == nil {
		return errors.New("the Service of the member is not there yet")
	}
	raw, err := json.Marshal(record)
	if err != nil {
		return err
	}
	noted := service.DeepCopy()
	metav1.SetMetaDataAnnotation(&noted.ObjectMeta, recovery.Annotation, string(raw))
	patch := client.MergeFromWithOptions(service, client.MergeFromWithOptimisticLock{})
	if err := c.Host.Client.Patch(ctx, noted, patch); err != nil {
		return fmt.Errorf("note on Service %s that its member is replaced: %w", client.ObjectKeyFromObject(service), err)
	}
	return nil
}

// deleteThis deletes an object of a member, unless it is another one by now.
func (c *cluster) deleteThis(ctx context.Context, object client.Object, member string) error {
	err := c.Host.Client.Delete(ctx, object, client.Preconditions{UID: ptr.To(object.GetUID())})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s of a %s etcd member: %w", client.ObjectKeyFromObject(object), member, err)
	}
	return nil
}

// replacePod deletes a pod, unless it is another one by now. Its StatefulSet makes it anew.
func (c *cluster) replacePod(ctx context.Context, pod *corev1.Pod, did string) (string, error) {
	err := c.Host.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return fmt.Sprintf("somebody else deleted the pod of member %s", pod.Name), nil
	case err != nil:
		return "", fmt.Errorf("delete pod %s, which is not up to date: %w", client.ObjectKeyFromObject(pod), err)
	}
	c.log.Info("Deleted the pod of an etcd member, which comes back up to date", "pod", pod.Name, "step", did)
	c.event(reasonMemberReplaced, "DeletePod", "%s: %s", c.Cluster.Component, did)
	return did, nil
}

// moveLead has another member lead.
func (c *cluster) moveLead(ctx context.Context, to, why string, health *etcd.Health) (string, error) {
	if err := c.operator.etcd.Change(ctx, membership.MoveLeader, to, health, c.members, c.tls); err != nil {
		return "", err
	}
	did := changeDone[membership.MoveLeader] + " " + to
	c.log.Info("Moved the lead of etcd", "step", did, "because", why)
	c.event(reasonLeaderMoved, string(membership.MoveLeader), "%s: %s, for %s", c.Cluster.Component, did, why)
	return did, nil
}

// writeReadyToDrain writes a pod's condition ReadyToDrain when it differs, and removes it for nil.
func (c *cluster) writeReadyToDrain(ctx context.Context, pod *corev1.Pod, want *corev1.PodCondition) error {
	is := hostpods.Condition(pod, controlplanev1.PodReadyToDrain)
	if pod.DeletionTimestamp != nil || is == nil && want == nil ||
		is != nil && want != nil && is.Status == want.Status && is.Reason == want.Reason && is.Message == want.Message {
		return nil
	}
	var condition any = map[string]string{"type": controlplanev1.PodReadyToDrain, "$patch": "delete"}
	if want != nil {
		if want.LastTransitionTime = metav1.NewTime(c.operator.clock.Now()); is != nil && is.Status == want.Status {
			want.LastTransitionTime = is.LastTransitionTime
		}
		condition = want
	}
	// The UID makes sure that it is this very pod.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"conditions": []any{condition}},
	})
	if err != nil {
		return err
	}
	if err := c.Host.Client.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the condition %s of pod %s: %w", controlplanev1.PodReadyToDrain, client.ObjectKeyFromObject(pod), err)
	}
	return nil
}

// event records a step as an Event of the control plane.
func (c *cluster) event(reason, action, format string, args ...any) {
	c.operator.recorder.Eventf(c.ControlPlane, nil, corev1.EventTypeNormal, reason, action, format, args...)
}
