package load

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// object is the ConfigMap that is watched, beat the annotation with the moment of its last change.
	object = "heart"
	beat   = "kok-test/beat"
	// interval is the time between two changes, and patience how long one may take.
	interval = 100 * time.Millisecond
	patience = time.Second
)

// heart changes the watched object again and again, directly at one of the API servers.
type heart struct {
	clients map[string]kubernetes.Interface

	lock sync.Mutex
	by   string
}

func newHeart(ctx context.Context, writers map[string]*rest.Config, writer string) (*heart, error) {
	h := &heart{clients: map[string]kubernetes.Interface{}, by: writer}
	for address, config := range writers {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		h.clients[address] = client
	}
	_, err := h.clients[h.by].CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: object},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("make the ConfigMap that is watched: %w", err)
	}
	return h, nil
}

// WriteBy has the watched object changed by the API server at an address, which is one of Options.Writers: one that
// stays when another fails.
func (l *Load) WriteBy(address string) {
	l.heart.lock.Lock()
	defer l.heart.lock.Unlock()
	l.heart.by = address
}

func (h *heart) writer() kubernetes.Interface {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.clients[h.by]
}

func (h *heart) run(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			h.beat(ctx)
		}
	}
}

// beat changes the object. One that fails is followed by the next soon.
func (h *heart) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{beat: strconv.FormatInt(int64(Now()), 10)}}})
	if err != nil {
		return
	}
	_, _ = h.writer().CoreV1().ConfigMaps(metav1.NamespaceDefault).Patch(ctx, object, types.MergePatchType, patch, metav1.PatchOptions{})
}

// beatOf is the moment of the change that an event brought.
func beatOf(changed *corev1.ConfigMap) (Moment, bool) {
	moment, err := strconv.ParseInt(changed.Annotations[beat], 10, 64)
	return Moment(moment), err == nil
}
