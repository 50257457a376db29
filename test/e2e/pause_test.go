//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pause stops the reconciliation of tenant a in both ways that Cluster API knows.
func (j *journey) pause() {
	type way struct {
		name string
		set  func(ctx context.Context, paused bool)
	}
	for _, way := range []way{
		{"the Cluster is paused", func(ctx context.Context, paused bool) { setPaused(ctx, j.a, paused) }},
		{"the control plane has the annotation", func(ctx context.Context, paused bool) {
			value := "null"
			if paused {
				value = `""`
			}
			patch(ctx, j.a.controlPlane(ctx), fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, clusterv1.PausedAnnotation, value))
			expectPaused(ctx, j.a, paused)
		}},
	} {
		It("repairs nothing while "+way.name+", and everything after", func(ctx SpecContext) {
			before := j.configMap(ctx)
			way.set(ctx, true)
			patch(ctx, before.DeepCopy(), `{"data":{"added":"while paused"}}`)
			data := func() (map[string]string, error) {
				config := &corev1.ConfigMap{}
				err := env.client.Get(ctx, client.ObjectKeyFromObject(before), config)
				return config.Data, err
			}
			Consistently(ctx, data).WithTimeout(5 * time.Second).Should(HaveKey("added"))
			way.set(ctx, false)
			Eventually(ctx, data).Should(Equal(before.Data))
			j.a.expectHealthy(ctx)
		})
	}
}
