//go:build e2e

package e2e

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/processes"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/running"
)

// managerKilled kills the manager while there is something to repair.
func (j *journey) managerKilled() {
	It("comes back, repairs what happened meanwhile, and restarts nothing", func(ctx SpecContext) {
		before := map[*tenant]map[string]running.Pod{j.a: j.a.snapshot(ctx), j.b: j.b.snapshot(ctx)}
		killed := killManager(ctx)
		Expect(killed).NotTo(BeEmpty())
		config := j.configMap(ctx)
		Expect(env.client.Delete(ctx, config)).To(Succeed())
		expectManager(ctx, killed)
		Eventually(ctx, func() (map[string]string, error) {
			again := &corev1.ConfigMap{}
			err := env.client.Get(ctx, client.ObjectKeyFromObject(config), again)
			return again.Data, client.IgnoreNotFound(err)
		}).WithTimeout(2 * time.Minute).Should(Equal(config.Data))
		for t, pods := range before {
			t.expectHealthy(ctx)
			Expect(t.snapshot(ctx)).To(Equal(pods), "pods of %s", t.ObjectKey)
		}
	})
}

// configMap is a small object that pods of tenant a mount.
func (j *journey) configMap(ctx context.Context) *corev1.ConfigMap {
	GinkgoHelper()
	config := &corev1.ConfigMap{}
	get(ctx, client.ObjectKey{Namespace: j.a.Namespace, Name: names.Config(j.a.Name, names.KubeAPIServer)}, config)
	return config
}

func managerPods(ctx context.Context) []corev1.Pod {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	get(ctx, manager, deployment)
	pods := &corev1.PodList{}
	listAll(ctx, pods, client.InNamespace(manager.Namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels))
	return pods.Items
}

// killManager ends the manager as kill -9 does, and takes away its pod, which would wait before it starts
// the container again. It returns the pods that ran.
func killManager(ctx context.Context) []corev1.Pod {
	GinkgoHelper()
	var killed []corev1.Pod
	for _, pod := range managerPods(ctx) {
		if pod.DeletionTimestamp != nil || len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].State.Running == nil {
			continue
		}
		killed = append(killed, pod)
		if env.lab != nil {
			_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
			_, err := processes.Kill(id)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(client.IgnoreNotFound(env.client.Delete(ctx, &pod, client.GracePeriodSeconds(0)))).To(Succeed())
	}
	return killed
}

// expectManager waits for a manager that is ready and none of those.
func expectManager(ctx context.Context, killed []corev1.Pod) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		pods := managerPods(ctx)
		g.Expect(pods).To(HaveLen(len(killed)))
		for i := range pods {
			g.Expect(isReady(&pods[i])).To(BeTrue())
			for j := range killed {
				g.Expect(pods[i].UID).NotTo(Equal(killed[j].UID))
			}
		}
	}).Should(Succeed(), "the manager")
}
