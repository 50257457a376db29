//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

var _ = Describe("The manager", Ordered, Label(full, faults), func() {
	t := newTenant("killed", "v1.36.3", nil)
	removeAfter(t)

	It("killed at every new object of a creation, makes the same objects, and no pod twice", func(ctx SpecContext) {
		requireLab()
		t.create(ctx)
		want := t.generatedNames(ctx)
		t.remove(ctx)

		// A new manager need not wait for the lease of a killed one.
		setManagerArguments(ctx, "--leader-elect", "--leader-elect=false")
		DeferCleanup(func(ctx SpecContext) { setManagerArguments(ctx, "--leader-elect=false", "--leader-elect") })
		Expect(env.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.Namespace}})).To(Succeed())
		watching, stop := context.WithCancel(ctx)
		defer stop()
		objects, pods := t.watchObjects(watching), t.watchPods(watching)
		Expect(t.quickstart().Apply(ctx, nil)).To(Succeed())
		kills := 0
		for done := false; !done; {
			select {
			case name := <-objects:
				if len(killManager(ctx)) > 0 {
					kills++
					env.log.Print("killed at %s", name)
				}
			case <-time.After(time.Minute):
				done = true // no new object appeared for a time in which a manager makes all of them
			}
		}
		Expect(kills).To(BeNumerically(">", 5))
		figure("manager_kills_during_creation", kills, "kills")
		t.expectHealthy(ctx)
		t.connect(ctx)
		Expect(t.generatedNames(ctx)).To(Equal(want))
		stop()
		seen := <-pods
		for pod, now := range t.snapshot(ctx) {
			Expect(now.Restarts).To(BeZero(), pod)
			Expect(seen.Has(now.UID)).To(BeTrue(), pod)
			seen.Delete(now.UID)
		}
		Expect(seen.UnsortedList()).To(BeEmpty(), "pods that were made and are gone")
	}, NodeTimeout(20*time.Minute))

	It("leaves control planes without its label alone (--watch-filter)", func(ctx SpecContext) {
		const filter = "e2e"
		filtered := newTenant("filtered", "v1.36.3", single())
		DeferCleanup(func(ctx SpecContext) { filtered.remove(ctx) })
		filtered.remove(ctx)
		setManagerArguments(ctx, "--leader-elect", "--leader-elect", "--watch-filter="+filter)
		DeferCleanup(func(ctx SpecContext) { setManagerArguments(ctx, "--watch-filter="+filter) })
		Expect(env.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: filtered.Namespace}})).To(Succeed())
		Expect(filtered.quickstart().Apply(ctx, filtered.variables)).To(Succeed())
		Consistently(ctx, func() []string { return filtered.controlPlane(ctx).Finalizers }).WithTimeout(15 * time.Second).Should(BeEmpty())
		patch(ctx, filtered.controlPlane(ctx), fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, clusterv1.WatchLabel, filter))
		filtered.expectHealthy(ctx)
	}, NodeTimeout(3*creation))
})

// watchedLists are the kinds that the controller makes.
func watchedLists() []client.ObjectList {
	return []client.ObjectList{
		&appsv1.StatefulSetList{}, &appsv1.DaemonSetList{}, &appsv1.DeploymentList{}, &appsv1.ControllerRevisionList{},
		&corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{},
	}
}

// watchAdded calls added for every object that appears, from now on.
func (t *tenant) watchAdded(ctx context.Context, list client.ObjectList, added func(client.Object)) (finished chan struct{}) {
	GinkgoHelper()
	c, err := client.NewWithWatch(env.config, client.Options{Scheme: env.proxy.GetScheme()})
	Expect(err).NotTo(HaveOccurred())
	w, err := c.Watch(ctx, list, client.InNamespace(t.Namespace), client.MatchingLabels(names.Labels(t.ObjectKey)))
	Expect(err).NotTo(HaveOccurred())
	finished = make(chan struct{})
	go func() {
		defer close(finished)
		for event := range w.ResultChan() {
			if object, ok := event.Object.(client.Object); ok && event.Type == watch.Added {
				added(object)
			}
		}
	}()
	return finished
}

// watchObjects tells of every object that the controller makes.
func (t *tenant) watchObjects(ctx context.Context) <-chan string {
	GinkgoHelper()
	found := make(chan string, 1000)
	for _, list := range watchedLists() {
		t.watchAdded(ctx, list, func(object client.Object) { found <- fmt.Sprintf("%T %s", object, object.GetName()) })
	}
	return found
}

// watchPods gathers every pod that ever was, and gives them when the context ends.
func (t *tenant) watchPods(ctx context.Context) <-chan sets.Set[types.UID] {
	GinkgoHelper()
	seen := sets.New[types.UID]()
	finished := t.watchAdded(ctx, &corev1.PodList{}, func(pod client.Object) { seen.Insert(pod.GetUID()) })
	result := make(chan sets.Set[types.UID], 1)
	go func() {
		<-finished
		result <- seen
	}()
	return result
}

// generatedNames are the objects that the controller made for the tenant.
func (t *tenant) generatedNames(ctx context.Context) []string {
	GinkgoHelper()
	j := &journey{a: t}
	var list []string
	for _, object := range j.generated(ctx) {
		if object.GetNamespace() == t.Namespace { // the claim is named after its ports
			list = append(list, object.String())
		}
	}
	slices.Sort(list)
	return list
}

// setManagerArguments replaces an argument of the manager by others, and waits for the manager that has
// them.
func setManagerArguments(ctx context.Context, old string, replacements ...string) {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	get(ctx, manager, deployment)
	before := deployment.DeepCopy()
	container := &deployment.Spec.Template.Spec.Containers[0]
	i := slices.Index(container.Args, old)
	Expect(i).To(BeNumerically(">=", 0), "%s in %s", old, strings.Join(container.Args, " "))
	container.Args = slices.Replace(container.Args, i, i+1, replacements...)
	Expect(env.client.Patch(ctx, deployment, client.MergeFrom(before))).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		pods := managerPods(ctx)
		g.Expect(pods).To(HaveLen(1))
		g.Expect(pods[0].Spec.Containers[0].Args).To(Equal(container.Args))
		g.Expect(isReady(&pods[0])).To(BeTrue())
	}).WithTimeout(2 * time.Minute).Should(Succeed())
}
