package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/timeline"
)

// leases show that the components with leader election work.
var leases = []string{"kube-controller-manager", "kube-scheduler"}

// APINeeds is what API marks.
func APINeeds() []timeline.Need {
	return []timeline.Need{{Stage: timeline.ConfigMapMade, Count: 1}, {Stage: timeline.LeaseHeld, Count: len(leases)}}
}

// API asks a Kubernetes API until it took a ConfigMap and both leases are held, and marks when. It returns when it
// knows, or with the context.
func API(ctx context.Context, config *rest.Config, t *timeline.Timeline) error {
	config = rest.CopyConfig(config)
	config.QPS, config.Timeout = -1, 2*time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client of the tenant: %w", err)
	}
	results := make(chan error, 1+len(leases))
	go func() {
		results <- poll(ctx, func(ctx context.Context) bool { return write(ctx, client) }, func() {
			t.Mark(timeline.ConfigMapMade, "", "")
		})
	}()
	for _, lease := range leases {
		go func() {
			results <- poll(ctx, func(ctx context.Context) bool { return held(ctx, client, lease) }, func() {
				t.Mark(timeline.LeaseHeld, "", lease)
			})
		}()
	}
	var failed error
	for range cap(results) {
		failed = errors.Join(failed, <-results)
	}
	return failed
}

func poll(ctx context.Context, reached func(context.Context) bool, mark func()) error {
	err := wait.PollUntilContextCancel(ctx, Interval, true, func(ctx context.Context) (bool, error) { return reached(ctx), nil })
	if err == nil {
		mark()
	}
	return err
}

// write tells whether the ConfigMap is written; a write whose answer was lost counts.
func write(ctx context.Context, client kubernetes.Interface) bool {
	_, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "bench"},
		Data:       map[string]string{"key": "value"},
	}, metav1.CreateOptions{})
	return err == nil || apierrors.IsAlreadyExists(err)
}

func held(ctx context.Context, client kubernetes.Interface, lease string) bool {
	found, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
	return err == nil && found.Spec.HolderIdentity != nil && *found.Spec.HolderIdentity != ""
}
