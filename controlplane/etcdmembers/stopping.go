package etcdmembers

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// stoppingPatience is how long past its grace period a pod of a deleted StatefulSet is waited for: the
// host of one that stays longer is away.
const stoppingPatience = 30 * time.Second

// stoppingPods waits for the pods of a component's deleted StatefulSet that still stop, before a new one may
// be made. Made while the names of its pods are taken, it would lack them for up to 17 minutes: each
// event of its other pods makes its controller try again, fail, and double the time until it tries by
// itself.
func (m *Members) stoppingPods(ctx context.Context, component string) flow.Result {
	key := client.ObjectKey{Namespace: m.Cluster.Namespace, Name: names.Object(m.Cluster.Name, component)}
	if err := m.Host.Client.Get(ctx, key, &appsv1.StatefulSet{}); !apierrors.IsNotFound(err) {
		return flow.DoneOrFailed(err)
	}
	now := m.Clock.Now()
	var stopping []string
	for _, pod := range m.Pods[component] {
		late := pod.DeletionTimestamp != nil && now.After(pod.DeletionTimestamp.Add(stoppingPatience))
		// One without a controller was left on purpose, and is adopted.
		if metav1.GetControllerOf(&pod) != nil && !late {
			stopping = append(stopping, pod.Name)
		}
	}
	if len(stopping) == 0 {
		return flow.Done()
	}
	// The cache does not hold one whose labels somebody took away.
	err := m.Host.Live.Get(ctx, key, &appsv1.StatefulSet{})
	if err == nil || !apierrors.IsNotFound(err) {
		return flow.DoneOrFailed(err)
	}
	return flow.Waiting(fmt.Sprintf("StatefulSet %s was deleted and is made again when its former pods have stopped: %s", key.Name, strings.Join(stopping, ", ")))
}
