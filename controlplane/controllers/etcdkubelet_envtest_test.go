//go:build envtest

package controllers

import (
	"os"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

const (
	selectedNode  = "volume.kubernetes.io/selected-node"
	volumeIsInUse = "kubernetes.io/pvc-protection"
	dataOfMember  = "data/member"
)

func newNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{controlplanev1.HostNodeLabel: "true", corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// volume is the claim of a member. One that is missing is made, with a volume on a host node that has no other.
func (e *realEtcd) volume(member string) *corev1.PersistentVolumeClaim {
	e.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: e.meta(etcdcomponent.Claim(member), names.EtcdData)}
	err := e.host.Get(e.t.Context(), client.ObjectKeyFromObject(claim), claim)
	if err == nil {
		return claim
	}
	if !apierrors.IsNotFound(err) {
		e.t.Fatal(err)
	}
	e.starts[member] = 0
	if err := os.RemoveAll(filepath.Join(e.directory, member)); err != nil {
		e.t.Fatal(err)
	}
	host := e.freeHost()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(uuid.NewUUID())}}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
	}}}}
	e.create(volume)
	claim.UID, claim.Annotations, claim.Finalizers = uuid.NewUUID(), map[string]string{selectedNode: host}, []string{volumeIsInUse}
	claim.Spec.VolumeName, claim.Status.Phase = volume.Name, corev1.ClaimBound
	e.create(claim)
	return claim
}

// freeHost is the first host node without a volume.
func (e *realEtcd) freeHost() string {
	e.t.Helper()
	claims, nodes := &corev1.PersistentVolumeClaimList{}, &corev1.NodeList{}
	for _, list := range []client.ObjectList{claims, nodes} {
		if err := e.host.List(e.t.Context(), list); err != nil {
			e.t.Fatal(err)
		}
	}
	taken := map[string]bool{}
	for _, claim := range claims.Items {
		taken[claim.Annotations[selectedNode]] = true
	}
	for _, node := range nodes.Items {
		if !taken[node.Name] {
			return node.Name
		}
	}
	e.t.Fatal("no host node is free")
	return ""
}

// hostOf is the host node of a volume; empty when it is gone.
func (e *realEtcd) hostOf(claim *corev1.PersistentVolumeClaim) string {
	e.t.Helper()
	name := claim.Annotations[selectedNode]
	if err := e.host.Get(e.t.Context(), client.ObjectKey{Name: name}, &corev1.Node{}); err != nil {
		if !apierrors.IsNotFound(err) {
			e.t.Fatal(err)
		}
		return ""
	}
	return name
}

// newPod is the pod of a member on a host node. On none it waits to be scheduled.
func (e *realEtcd) newPod(member, host string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: e.meta(member, names.EtcdData)}
	pod.UID, pod.CreationTimestamp = uuid.NewUUID(), metav1.Now()
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = e.revision
	pod.Spec.NodeName = host
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if !e.tells {
		return pod
	}
	found := facts.Facts{State: facts.Empty}
	if _, err := os.Stat(filepath.Join(e.directory, member, dataOfMember)); err == nil {
		found.State = facts.Present
	}
	message, err := found.Encode()
	if err != nil {
		e.t.Fatal(err)
	}
	pod.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}
	if host == "" {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()})
		return pod
	}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: facts.Container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(message), FinishedAt: metav1.Now()}},
	}}
	return pod
}

// tellOfFailure has a pod say that its etcd ended.
func (e *realEtcd) tellOfFailure(pod *corev1.Pod) {
	e.t.Helper()
	if !e.tells {
		return
	}
	ready, now := hostpods.Condition(pod, corev1.PodReady), metav1.Now()
	if len(pod.Status.ContainerStatuses) == 0 {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: etcdcomponent.Container}}
	}
	began := now
	if ready.Status == corev1.ConditionTrue {
		ready.Status, ready.LastTransitionTime, began = corev1.ConditionFalse, now, ready.LastTransitionTime
	}
	etcd := &pod.Status.ContainerStatuses[0]
	etcd.RestartCount++
	etcd.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, StartedAt: began, FinishedAt: now}
	if err := e.host.Status().Update(e.t.Context(), pod); err != nil {
		e.t.Fatal(err)
	}
}

// tellWhoIsReady has the pods of members that answered, and know who leads, say that they are ready.
func (e *realEtcd) tellWhoIsReady(report *operator.Report) {
	e.t.Helper()
	for _, m := range report.Members {
		pod := &corev1.Pod{}
		if !e.tells || !m.Answered || !m.Follows || e.host.Get(e.t.Context(), client.ObjectKey{Namespace: "team", Name: m.Name}, pod) != nil {
			continue
		}
		if ready := hostpods.Condition(pod, corev1.PodReady); ready.Status != corev1.ConditionTrue {
			ready.Status, ready.LastTransitionTime = corev1.ConditionTrue, metav1.Now()
			if err := e.host.Status().Update(e.t.Context(), pod); err != nil {
				e.t.Fatal(err)
			}
		}
	}
}

// releaseVolumes lets claims go that were deleted and have no pod.
func (e *realEtcd) releaseVolumes() {
	e.t.Helper()
	claims := &corev1.PersistentVolumeClaimList{}
	if err := e.host.List(e.t.Context(), claims); err != nil {
		e.t.Fatal(err)
	}
	for i := range claims.Items {
		member := strings.TrimPrefix(claims.Items[i].Name, etcdcomponent.Claim(""))
		if apierrors.IsNotFound(e.host.Get(e.t.Context(), client.ObjectKey{Namespace: "team", Name: member}, &corev1.Pod{})) {
			e.releaseVolume(member)
		}
	}
}

// releaseVolume lets the claim of a member go if it was deleted.
func (e *realEtcd) releaseVolume(member string) {
	e.t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	switch err := e.host.Get(e.t.Context(), client.ObjectKey{Namespace: "team", Name: etcdcomponent.Claim(member)}, claim); {
	case apierrors.IsNotFound(err) || err == nil && claim.DeletionTimestamp == nil:
		return
	case err != nil:
		e.t.Fatal(err)
	}
	claim.Finalizers = nil
	if err := e.host.Update(e.t.Context(), claim); client.IgnoreNotFound(err) != nil {
		e.t.Fatal(err)
	}
}
