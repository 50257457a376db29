// Package deletion deletes a control plane: everything of the tenant in its host cluster, in an order that loses nothing
// that is still used, and then lets the object go. It finds the tenant by labels and needs nothing else of it.
package deletion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

const (
	// gracePeriod is what pods get when their cluster is deleted: nobody is left to drain for.
	gracePeriod = time.Second
	grace       = int64(gracePeriod / time.Second)
	// hostRecheck is how soon a host cluster that cannot be used is looked for again.
	hostRecheck = 10 * time.Second
	// recheck is how soon a deletion looks again by itself; watches usually wake it before.
	recheck = time.Second
)

// Kinds in the host cluster, in the order in which they are deleted. Data and what pods mount go
// only when no pod is left.
var (
	runningKinds = []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
		appsv1.SchemeGroupVersion.WithKind("Deployment"),
		appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
		corev1.SchemeGroupVersion.WithKind("Pod"),
	}
	remainingKinds = []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
		corev1.SchemeGroupVersion.WithKind("Service"),
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
		corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		appsv1.SchemeGroupVersion.WithKind("ControllerRevision"),
		corev1.SchemeGroupVersion.WithKind("Secret"),
	}
)

// Deleter deletes control planes.
type Deleter struct {
	// Reader reads from the management cluster's API server.
	Reader client.Reader
	// Management is the management cluster as a host cluster.
	Management *hostclusters.Host
	// HostOf is the host cluster of a control plane. The error is a *hostclusters.Problem when it cannot be used now.
	HostOf func(context.Context, *clusterv1.Cluster, *controlplanev1.KOKControlPlane) (*hostclusters.Host, error)
	// EndBackground ends what is done beside reconciles for a control plane.
	EndBackground func(client.ObjectKey)
}

// Reconcile deletes everything of the tenant in the host cluster, then lets the object go.
func (d *Deleter) Reconcile(ctx context.Context, owner *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane) (ctrl.Result, error) {
	cluster, ok, err := d.tenantToDelete(ctx, owner, controlPlane)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !ok {
		ctrl.LoggerFrom(ctx).Info("Leaving the tenant alone: it is not this control plane's")
		controllerutil.RemoveFinalizer(controlPlane, controlplanev1.KOKControlPlaneFinalizer)
		return ctrl.Result{}, nil
	}
	host, err := d.HostOf(ctx, owner, controlPlane)
	var problem *hostclusters.Problem
	if errors.As(err, &problem) {
		gone, err := d.deleteWithoutHost(ctx, cluster, controlPlane, problem)
		if err != nil {
			return ctrl.Result{}, err
		}
		if gone {
			controllerutil.RemoveFinalizer(controlPlane, controlplanev1.KOKControlPlaneFinalizer)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{RequeueAfter: hostRecheck}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	left, err := deleteKinds(ctx, host, cluster, runningKinds, workloads.Kinds(controlPlane), everyObject)
	if err == nil && len(left) == 0 {
		left, err = deleteKinds(ctx, host, cluster, remainingKinds, nil, everyObject)
	}
	if err == nil && len(left) == 0 && !host.Own {
		left, err = d.deleteManagementObjects(ctx, cluster)
	}
	if err != nil {
		status.Deleting(controlPlane, errortext.Steady(err))
		return ctrl.Result{}, err
	}
	if len(left) > 0 {
		status.Deleting(controlPlane, "still there: "+strings.Join(left, ", "))
		return ctrl.Result{RequeueAfter: recheck}, nil
	}
	if err := host.Claims.Release(ctx, cluster); err != nil {
		status.Deleting(controlPlane, errortext.Steady(err))
		return ctrl.Result{}, err
	}
	host.Applier.Forget(cluster)
	controllerutil.RemoveFinalizer(controlPlane, controlplanev1.KOKControlPlaneFinalizer)
	return ctrl.Result{}, nil
}

// deleteKinds deletes the tenant's objects of some kinds, as far as they are chosen, and returns those that are still there. It
// reads from the API server: a cache may not know yet what was created last.
func deleteKinds(ctx context.Context, host *hostclusters.Host, cluster client.ObjectKey, kinds []schema.GroupVersionKind, named map[string]client.Object, chosen func(*metav1.PartialObjectMetadata) bool) ([]string, error) {
	var left []string
	var failed []error
	for _, kind := range kinds {
		objects, err := objectsOf(ctx, host, cluster, kind, named)
		if err != nil {
			return nil, fmt.Errorf("list what is left of cluster %s: %w", cluster, err)
		}
		for i := range objects {
			object := &objects[i]
			if !chosen(object) {
				continue
			}
			left = append(left, fmt.Sprintf("%s %s", kind.Kind, object.GetName()))
			if object.GetDeletionTimestamp() != nil && ptr.Deref(object.GetDeletionGracePeriodSeconds(), 0) <= grace {
				continue
			}
			if err := host.Client.Delete(ctx, object, deleteOptions(kind.Kind)...); err != nil && !apierrors.IsNotFound(err) {
				failed = append(failed, fmt.Errorf("delete %s %s: %w", kind.Kind, client.ObjectKeyFromObject(object), err))
			}
		}
	}
	return left, errors.Join(failed...)
}

func everyObject(*metav1.PartialObjectMetadata) bool { return true }

// objectsOf are the tenant's objects of a kind: those with its labels, and also the workloads in named, by component, if the controller
// applied them. A workload that lost its labels would else make its pods again and again. A workload that the controller never applied is
// somebody else's.
func objectsOf(ctx context.Context, host *hostclusters.Host, cluster client.ObjectKey, kind schema.GroupVersionKind, named map[string]client.Object) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	if err := host.Live.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabels(names.Labels(cluster))); err != nil {
		return nil, err
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(kind)
	}
	for component, workload := range named {
		name := names.Object(cluster.Name, component)
		ofKind, err := apiutil.GVKForObject(workload, host.Client.Scheme())
		if err != nil {
			return nil, err
		}
		if ofKind != kind || slices.ContainsFunc(list.Items, func(o metav1.PartialObjectMetadata) bool { return o.Name == name }) {
			continue
		}
		object := metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		err = host.Live.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, &object)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err == nil && wasApplied(&object) {
			list.Items = append(list.Items, object)
		}
	}
	return list.Items, nil
}

// wasApplied reports whether the controller ever applied an object. Its annotation or its field manager shows that, even if somebody
// removed the other.
func wasApplied(object client.Object) bool {
	return object.GetAnnotations()[apply.RenderingAnnotation] != "" ||
		slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == names.FieldManager })
}

// deleteOptions leave pods to us: the garbage collector would give them their own grace periods, which kubelet does not
// shorten any more, and an API server that has lost etcd uses all of it.
func deleteOptions(kind string) []client.DeleteOption {
	switch kind {
	case "Pod":
		return []client.DeleteOption{client.GracePeriodSeconds(grace)}
	case "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet":
		return []client.DeleteOption{client.PropagationPolicy(metav1.DeletePropagationOrphan)}
	}
	return []client.DeleteOption{client.PropagationPolicy(metav1.DeletePropagationBackground)}
}
