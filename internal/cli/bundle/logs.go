package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// collectLogs writes the logs of managers and of control planes.
func (c *collector) collectLogs(ctx context.Context, s *scope) {
	if c.logLines == 0 || c.logBytes == 0 {
		return
	}
	for _, namespace := range s.namespaces() {
		options := []client.ListOption{client.InNamespace(namespace)}
		if !s.providerNamespaces[namespace] {
			options = append(options, client.MatchingLabels{names.ManagedByLabel: names.ManagedBy})
		}
		pods := &corev1.PodList{}
		if err := c.client.List(ctx, pods, options...); err != nil {
			c.note("pods in namespace "+namespace+" for their logs", err)
			continue
		}
		for i := range pods.Items {
			if s.has(&pods.Items[i]) {
				c.collectPod(ctx, &pods.Items[i])
			}
		}
	}
}

// collectPod writes the logs of the containers that have started, and of the run before where there was one.
func (c *collector) collectPod(ctx context.Context, pod *corev1.Pod) {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for _, container := range statuses {
			file := fmt.Sprintf("logs/%s/%s/%s", pod.Namespace, pod.Name, container.Name)
			if container.State.Running != nil || container.State.Terminated != nil {
				c.collectLog(ctx, pod, container.Name, false, file+".log")
			}
			if container.LastTerminationState.Terminated != nil {
				c.collectLog(ctx, pod, container.Name, true, file+".previous.log")
			}
		}
	}
}

func (c *collector) collectLog(ctx context.Context, pod *corev1.Pod, container string, previous bool, file string) {
	stream, err := c.pods.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: ptr.To(c.logLines), Timestamps: true,
	}).Stream(ctx)
	if err != nil {
		c.note("read "+file, err)
		return
	}
	defer stream.Close() //nolint:errcheck // Only read.
	log, err := end(stream, c.logBytes)
	c.note("read "+file, err)
	c.text(file, string(log))
}

// maxSkipped bounds how many bytes of a log are read and dropped, as a multiple of what is kept.
// Lines have no bound of their own.
const maxSkipped = 64

// isOver fails unless a stream ends here, after as many bytes as may be read.
func isOver(stream io.Reader, read int64) error {
	switch _, err := io.ReadFull(stream, make([]byte, 1)); {
	case err == nil:
		return fmt.Errorf("its lines have more than %d bytes, and its end was left out: choose fewer --log-lines", read)
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}

// end reads a stream and returns its last lines, at most limit bytes. It keeps no more than these in memory. When reading fails, it returns
// what it has read, and the error. It also fails when the stream is longer than it reads, because the last lines are missing then.
func end(stream io.Reader, limit int64) ([]byte, error) {
	bounded := &io.LimitedReader{R: stream, N: maxSkipped * limit}
	var kept []byte
	cut := false
	buffer := make([]byte, 32<<10)
	for {
		n, err := bounded.Read(buffer)
		kept = append(kept, buffer[:n]...)
		if over := int64(len(kept)) - limit; over > 0 {
			kept, cut = append(kept[:0], kept[over:]...), true
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
				if bounded.N <= 0 {
					err = isOver(stream, maxSkipped*limit)
				}
			}
			if cut {
				// A line without its beginning may be the rest of a secret that is not recognised.
				_, kept, _ = bytes.Cut(kept, []byte("\n"))
			}
			return kept, err
		}
	}
}
