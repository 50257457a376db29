package standin

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
)

// byOwner finds pods by the kind and name of their workload.
const byOwner = "owner"

func ownerOf(object client.Object) []string {
	if owner := metav1.GetControllerOf(object); owner != nil {
		return []string{owner.Kind + "/" + owner.Name}
	}
	return nil
}

// setUpWorkloads makes a controller for each kind of workload.
func (h *Host) setUpWorkloads() error {
	if err := h.mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, byOwner, ownerOf); err != nil {
		return err
	}
	for kind, workload := range map[string]client.Object{"StatefulSet": &appsv1.StatefulSet{}, "DaemonSet": &appsv1.DaemonSet{}, "Deployment": &appsv1.Deployment{}} {
		pods := handler.TypedEnqueueRequestForOwner[*corev1.Pod](h.mgr.GetScheme(), h.mgr.GetRESTMapper(), workload, handler.OnlyControllerOwner())
		err := ctrl.NewControllerManagedBy(h.mgr).Named(kind).For(workload).
			WatchesRawSource(source.Kind(h.mgr.GetCache(), &corev1.Pod{}, pods)).
			WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
			Complete(reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				err := h.reconcile(ctx, kind, request.NamespacedName, workload.DeepCopyObject().(client.Object))
				if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // The cache is late: an event is under way.
					return ctrl.Result{RequeueAfter: late}, nil
				}
				return ctrl.Result{}, err
			}))
		if err != nil {
			return fmt.Errorf("set up the simulated controller of %ss: %w", kind, err)
		}
	}
	return nil
}

// reconcile brings the pods of a workload one step further, and its status up to date.
func (h *Host) reconcile(ctx context.Context, kind string, key client.ObjectKey, workload client.Object) error {
	if err := h.Cached.Get(ctx, key, workload); err != nil || workload.GetDeletionTimestamp() != nil {
		return client.IgnoreNotFound(err)
	}
	wanted, err := h.wantedPods(ctx, kind, workload)
	if err != nil {
		return err
	}
	list := &corev1.PodList{}
	if err := h.Cached.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{byOwner: kind + "/" + key.Name}); err != nil {
		return err
	}
	if err := h.serve(ctx, workload); err != nil {
		return err
	}
	work := errgroup.Group{}
	for _, pod := range wanted {
		if at := hostpods.Index(list.Items, pod.Name); at >= 0 {
			work.Go(func() error { return h.advance(ctx, &list.Items[at]) })
		} else {
			work.Go(func() error { return h.makePod(ctx, workload, pod) })
		}
	}
	if err := work.Wait(); err != nil {
		return err
	}
	return h.report(ctx, workload, wanted, list.Items)
}

// wantedPods are the pods of a workload's template.
func (h *Host) wantedPods(ctx context.Context, kind string, workload client.Object) ([]*corev1.Pod, error) {
	template, nodes, err := h.templateOf(ctx, workload)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	revision := fmt.Sprintf("%x", sha256.Sum256(raw))[:10]
	pods := make([]*corev1.Pod, 0, len(nodes))
	for i, node := range nodes {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: workload.GetNamespace(), Name: podName(workload, i), Labels: map[string]string{}, Annotations: template.Annotations,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(workload, appsv1.SchemeGroupVersion.WithKind(kind))},
			},
			Spec: *template.Spec.DeepCopy(),
		}
		for key, value := range template.Labels {
			pod.Labels[key] = value
		}
		pod.Labels[appsv1.ControllerRevisionHashLabelKey] = workload.GetName() + "-" + revision
		pod.Spec.NodeName = node
		if set, ok := workload.(*appsv1.StatefulSet); ok {
			pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name
			for _, claim := range set.Spec.VolumeClaimTemplates {
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + pod.Name},
				}})
			}
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

func podName(workload client.Object, i int) string {
	return fmt.Sprintf("%s-%d", workload.GetName(), i)
}

// templateOf is the template of a workload's pods, and the host node of each pod.
func (h *Host) templateOf(ctx context.Context, workload client.Object) (template *corev1.PodTemplateSpec, nodes []string, err error) {
	var replicas *int32
	switch is := workload.(type) {
	case *appsv1.DaemonSet:
		template = &is.Spec.Template
	case *appsv1.StatefulSet:
		template, replicas = &is.Spec.Template, is.Spec.Replicas
	case *appsv1.Deployment:
		template, replicas = &is.Spec.Template, is.Spec.Replicas
	}
	hosts, err := h.hostsOf(ctx, template.Spec.NodeSelector)
	if err != nil || replicas == nil {
		return template, hosts, err
	}
	for i := range int(*replicas) {
		nodes = append(nodes, hosts[i%len(hosts)])
	}
	return template, nodes, nil
}

// hostsOf are the host nodes that a node selector chooses, by name. There is one at least.
func (h *Host) hostsOf(ctx context.Context, selector map[string]string) ([]string, error) {
	list := &corev1.NodeList{}
	if err := h.Cached.List(ctx, list, client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(selector)}); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no simulated host node has the labels %v", selector)
	}
	slices.Sort(names)
	return names, nil
}

// makePod makes a pod, and the claims of its volumes before.
func (h *Host) makePod(ctx context.Context, workload client.Object, pod *corev1.Pod) error {
	if set, ok := workload.(*appsv1.StatefulSet); ok {
		for _, template := range set.Spec.VolumeClaimTemplates {
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: template.Name + "-" + pod.Name, Labels: template.Labels}, Spec: template.Spec,
			}
			if err := h.live.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("make claim %s: %w", claim.Name, err)
			}
		}
	}
	if err := h.live.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make pod %s: %w", pod.Name, err)
	}
	return nil
}

// advance lets a pod run, and one that runs be ready.
func (h *Host) advance(ctx context.Context, cached *corev1.Pod) error {
	pod := cached.DeepCopy()
	ready := corev1.ConditionFalse
	switch {
	case hostpods.Ready(pod):
		return nil
	case pod.Status.Phase == corev1.PodRunning:
		ready = corev1.ConditionTrue
	default:
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, ptr.To(metav1.Now())
		pod.Status.HostIP = "192.0.2.1"
		pod.Status.HostIPs = []corev1.HostIP{{IP: pod.Status.HostIP}}
		pod.Status.PodIP, pod.Status.PodIPs = pod.Status.HostIP, []corev1.PodIP{{IP: pod.Status.HostIP}}
	}
	pod.Status.Conditions, pod.Status.ContainerStatuses = nil, nil
	for kind, is := range map[corev1.PodConditionType]corev1.ConditionStatus{
		corev1.PodScheduled: corev1.ConditionTrue, corev1.PodInitialized: corev1.ConditionTrue, corev1.ContainersReady: ready, corev1.PodReady: ready,
	} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: is, LastTransitionTime: metav1.Now()})
	}
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: container.Image, ContainerID: "containerd://" + string(pod.UID), Ready: ready == corev1.ConditionTrue,
			Started: ptr.To(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		})
	}
	return h.live.Status().Update(ctx, pod)
}

// report counts the pods of a workload and writes the numbers into its status. It writes nothing when they are there already.
func (h *Host) report(ctx context.Context, cached client.Object, wanted []*corev1.Pod, pods []corev1.Pod) error {
	all, ready := int32(len(pods)), int32(0)
	for i := range pods {
		if hostpods.Ready(&pods[i]) {
			ready++
		}
	}
	workload := cached.DeepCopyObject().(client.Object)
	switch is := workload.(type) {
	case *appsv1.StatefulSet:
		revision := wanted[0].Labels[appsv1.ControllerRevisionHashLabelKey]
		is.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: is.Generation, Replicas: all, CurrentReplicas: all, UpdatedReplicas: all, ReadyReplicas: ready, AvailableReplicas: ready,
			CurrentRevision: revision, UpdateRevision: revision, CollisionCount: ptr.To[int32](0),
		}
	case *appsv1.DaemonSet:
		is.Status = appsv1.DaemonSetStatus{
			ObservedGeneration: is.Generation, DesiredNumberScheduled: int32(len(wanted)), CurrentNumberScheduled: all, UpdatedNumberScheduled: all,
			NumberReady: ready, NumberAvailable: ready, NumberUnavailable: int32(len(wanted)) - ready,
		}
	case *appsv1.Deployment:
		is.Status = appsv1.DeploymentStatus{
			ObservedGeneration: is.Generation, Replicas: all, UpdatedReplicas: all, ReadyReplicas: ready, AvailableReplicas: ready, UnavailableReplicas: int32(len(wanted)) - ready,
		}
	}
	if equality.Semantic.DeepEqual(cached, workload) {
		return nil
	}
	return h.live.Status().Update(ctx, workload)
}
