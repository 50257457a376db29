//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/running"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

const (
	// autoscaling bounds a change of the number of API servers by an autoscaler: it looks every 15 s at what pods used in
	// the last 15 s, and one that stops takes its time.
	autoscaling = 20 * time.Minute
	// fewest and most are the bounds of the autoscaler, enoughWork what each API server should use.
	fewest, most = int32(2), int32(3)
	enoughWork   = "250m"
)

var _ = Describe("A control plane with an autoscaler", Ordered, Label(full, scales), func() {
	t := newTenant("autoscaled", "v1.36.3", nil)

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		installMetricsServer(ctx)
	}, NodeTimeout(building+creation))
	removeAfter(t)

	It("shows it how many API servers there are, and what they use", func(ctx SpecContext) {
		t.createOnPodNetwork(ctx, controlplanev1.ExposureNone, controlplanev1.APIServerDeployment)
		Expect(env.client.Create(ctx, t.autoscaler())).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			autoscaler := t.autoscaler()
			g.Expect(env.client.Get(ctx, t.ObjectKey, autoscaler)).To(Succeed())
			for _, wanted := range []autoscalingv2.HorizontalPodAutoscalerConditionType{autoscalingv2.AbleToScale, autoscalingv2.ScalingActive} {
				g.Expect(autoscaler.Status.Conditions).To(ContainElement(And(HaveField("Type", wanted), HaveField("Status", corev1.ConditionTrue))))
			}
			g.Expect(autoscaler.Status.CurrentReplicas).To(Equal(fewest))
			g.Expect(autoscaler.Status.CurrentMetrics).To(ConsistOf(HaveField("Resource.Current.AverageValue", Not(BeNil()))))
			used := autoscaler.Status.CurrentMetrics[0].Resource.Current.AverageValue
			g.Expect(used.MilliValue()).To(BeNumerically(">", 0))
			env.log.Print("API servers without work use %s each", used)
		}).WithTimeout(creation).Should(Succeed())
	}, SpecTimeout(4*creation))

	It("gets more API servers while they have much to do and fewer afterwards, loses no write and fails no request (A9)", func(ctx SpecContext) {
		before := t.snapshot(ctx)
		journals := t.startJournals(ctx, "autoscaled")
		work := t.startWork(ctx)
		began := time.Now()
		Eventually(ctx, func() *int32 {
			work.grow()
			return t.controlPlane(ctx).Status.ReadyReplicas
		}).WithTimeout(autoscaling).Should(HaveValue(Equal(most)), "API servers, while up to %d clients keep them busy", mostClients)
		peak := t.snapshot(ctx)
		figure("autoscale_up_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s")

		work.end()
		began = time.Now()
		Eventually(ctx, func() int32 { return *t.controlPlane(ctx).Spec.Replicas }).WithTimeout(autoscaling).Should(Equal(fewest))
		figure("autoscale_down_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s")
		t.expectHealthy(ctx)

		env.log.Print("%d clients got %d lists", len(work.clients), work.lists)
		t.expectNothingLost(ctx, "scale", journals)
		Expect(work.failed).To(BeEmpty(), "failed lists")
		// The number of API servers is all that changed; which of them goes is for the host cluster to choose.
		Expect(running.Rolled(before, peak)).To(BeEmpty(), "with more API servers")
		Expect(running.Rolled(peak, t.snapshot(ctx))).To(BeEmpty(), "with fewer API servers")
	}, SpecTimeout(2*autoscaling+3*creation))
})

// autoscaler has the tenant's API servers follow what they use, soon after it changes.
func (t *tenant) autoscaler() *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: controlplanev1.GroupVersion.String(), Kind: "KOKControlPlane", Name: t.Name},
			MinReplicas:    ptr.To(fewest), MaxReplicas: most,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse(enoughWork))},
			}}},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleUp:   &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](0)},
				ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](15)},
			},
		},
	}
}

const (
	// mostClients work at once at most; another one begins when those before did not make a difference for workTime.
	mostClients = 6
	workTime    = 45 * time.Second
	// workObjects are in each list, each with so many bytes.
	workObjects, workBytes = 500, 2000
)

// work is what keeps API servers busy: clients that ask for a long list, each as soon as it has the one before.
type work struct {
	config func() (*kubernetes.Clientset, error)
	stop   context.CancelFunc
	ctx    context.Context
	// clients are when each began.
	clients []time.Time
	running sync.WaitGroup

	lock   sync.Mutex
	lists  int
	failed []string
}

// startWork makes the objects of the list and one client.
func (t *tenant) startWork(ctx context.Context) *work {
	GinkgoHelper()
	const namespace = "busy"
	_, err := t.api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	for i := range workObjects {
		_, err := t.api.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("listed-", i)}, Data: map[string]string{"listed": strings.Repeat("x", workBytes)},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	w := &work{}
	w.ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	w.config = func() (*kubernetes.Clientset, error) {
		// With a connection of its own a client may come to any API server.
		config := t.keptConfig(strings.TrimPrefix(t.access.Host, "https://"), nil)
		config.Timeout = load.Timeout
		return kubernetes.NewForConfig(config)
	}
	DeferCleanup(w.end)
	w.grow()
	return w
}

// grow begins another client when those before had their time.
func (w *work) grow() {
	GinkgoHelper()
	if n := len(w.clients); n == mostClients || n > 0 && time.Since(w.clients[n-1]) < workTime {
		return
	}
	api, err := w.config()
	Expect(err).NotTo(HaveOccurred())
	w.clients = append(w.clients, time.Now())
	w.running.Go(func() {
		for w.ctx.Err() == nil {
			w.list(api)
		}
	})
}

// list asks once and does not read the answer: that would be work of this process.
func (w *work) list(api *kubernetes.Clientset) {
	began := time.Now()
	_, err := api.CoreV1().RESTClient().Get().Namespace("busy").Resource("configmaps").Do(context.WithoutCancel(w.ctx)).Raw()
	w.lock.Lock()
	defer w.lock.Unlock()
	w.lists++
	if err != nil {
		w.failed = append(w.failed, fmt.Sprintf("%s: failed after %s: %v", began.UTC().Format("15:04:05.000"), time.Since(began).Round(time.Millisecond), err))
	}
}

// end stops the work; what was asked is waited for.
func (w *work) end() {
	w.stop()
	w.running.Wait()
}
