//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/attack"
)

// ownManagers are the Deployments of the three providers, coreManager that of Cluster API.
var (
	ownManagers = []client.ObjectKey{
		manager,
		{Namespace: "kok-bootstrap-system", Name: "kok-bootstrap-controller-manager"},
		{Namespace: "kok-infrastructure-system", Name: "kok-infrastructure-controller-manager"},
	}
	coreManager = client.ObjectKey{Namespace: "capi-system", Name: "capi-controller-manager"}
)

// createSmall makes a control plane with one of each, and konnectivity.
func (t *tenant) createSmall(ctx context.Context) {
	GinkgoHelper()
	t.remove(ctx)
	Expect(env.client.Create(ctx, &corev1.Namespace{ObjectMeta: metaNamed(t.Namespace)})).To(Succeed())
	t.apply(ctx, func(c *controlplanev1.KOKControlPlane) {
		t.makeSingle(c)
		c.Spec.KubeAPIServer.Workload, c.Spec.Replicas = controlplanev1.APIServerDeployment, ptr.To[int32](1)
		c.Spec.Addons.Konnectivity.Mode = controlplanev1.AddonManaged
	})
	t.expectHealthy(ctx)
	t.connect(ctx)
}

const (
	// calmSamples are taken of each neighbour before the attack: enough for the one in a hundred that takes longest, of all three.
	calmSamples = 40
	// sampleWindow is how many samples of one neighbour are judged together: those of about twenty seconds.
	sampleWindow = 9
	// betweenSamples is the pause after each.
	betweenSamples = 500 * time.Millisecond
	// longer is how many times as long neighbours may wait, by the median of all their samples.
	longer = 2.0
	// muchLonger is how many times as long one neighbour may wait in its worst window. Other programs on the machine make a few seconds slow, too.
	muchLonger = 10.0
)

// sample changes the names of a tenant's serving certificate, and measures until the certificate has the new one and the
// control plane says so: the manager has gone through all of its steps then.
func (t *tenant) sample(ctx context.Context, number int) (time.Duration, error) {
	name := fmt.Sprintf("sample-%d.example.com", number)
	change, err := json.Marshal(map[string]any{"spec": map[string]any{"kubeAPIServer": map[string]any{"certSANs": []string{name}}}})
	if err != nil {
		return 0, err
	}
	controlPlane := &controlplanev1.KOKControlPlane{ObjectMeta: metaNamed(t.Name)}
	controlPlane.Namespace = t.Namespace
	began := time.Now()
	if err := env.client.Patch(ctx, controlPlane, client.RawPatch("application/merge-patch+json", change)); err != nil {
		return 0, err
	}
	generation := controlPlane.Generation
	for {
		if err := env.client.Get(ctx, t.ObjectKey, controlPlane); err != nil {
			return 0, err
		}
		certs := &corev1.Secret{}
		if err := env.client.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: names.Certs(t.Name, names.KubeAPIServer)}, certs); err != nil {
			return 0, err
		}
		chain, err := cert.ParseCertsPEM(certs.Data[kubeapiserver.ServerCert+".crt"])
		if err != nil {
			return 0, err
		}
		if slices.Contains(chain[0].DNSNames, name) && controlPlane.Status.ObservedGeneration >= generation {
			return time.Since(began), nil
		}
		select {
		case <-ctx.Done():
			return time.Since(began), ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// sampleAll samples each tenant so many times.
func sampleAll(ctx context.Context, into *attack.Neighbours, rounds int, tenants ...*tenant) {
	GinkgoHelper()
	for range rounds {
		for _, t := range tenants {
			samples++
			began := time.Now()
			took, err := t.sample(ctx, samples)
			Expect(err).NotTo(HaveOccurred(), "%s", t.ObjectKey)
			into.Add(t.Name, attack.Wait{Began: began, Took: took})
		}
	}
}

var samples int

// sampleOn samples tenants, one after the other, until the returned function is called.
func sampleOn(ctx context.Context, into *attack.Neighbours, tenants ...*tenant) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer GinkgoRecover()
		for i := 0; ctx.Err() == nil; i++ {
			tenants[i%len(tenants)].sampleInto(ctx, into)
			select {
			case <-ctx.Done():
			case <-time.After(betweenSamples):
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// sampleInto takes one sample, unless the context ends meanwhile. A tenant that the manager does not care for within a minute has waited for so long.
func (t *tenant) sampleInto(ctx context.Context, into *attack.Neighbours) {
	samples++
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	took, err := t.sample(bounded, samples)
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
	case bounded.Err() != nil:
		took = time.Since(began)
		env.log.Print("%s was not cared for within %s: %v", t.ObjectKey, took.Round(time.Second), err)
	default:
		env.log.Print("%s was not sampled: %v", t.ObjectKey, err)
		into.Miss(t.Name, err)
		return
	}
	into.Add(t.Name, attack.Wait{Began: began, Took: took})
}

// tellWaits prints how much longer neighbours waited for the manager than before.
func (s *siege) tellWaits() attack.Slowdown {
	GinkgoHelper()
	var known []string
	for _, t := range s.neighbours {
		known = append(known, t.Name)
		env.log.Print("%s before: %s; during: %s", t.Name, s.before.Of(t.Name), s.during.Of(t.Name))
	}
	slower, err := attack.Slower(&s.before, &s.during, sampleWindow, known...)
	Expect(err).NotTo(HaveOccurred())
	env.log.Print("%s", slower)
	figure("attack_neighbour_latency_ratio", fmt.Sprintf("%.2f", slower.Median), "of the median of all")
	figure("attack_neighbour_p99_ratio", fmt.Sprintf("%.2f", slower.P99), "of the p99 of all")
	figure("attack_neighbour_window_ratio", fmt.Sprintf("%.2f", slower.Window), "of the median of a neighbour, in its worst window")
	return slower
}

// restarts are how often containers of a manager started again, by pod.
func restarts(ctx context.Context, key client.ObjectKey) map[string]int32 {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	get(ctx, key, deployment)
	pods := &corev1.PodList{}
	listAll(ctx, pods, client.InNamespace(key.Namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels))
	counts := map[string]int32{}
	for _, pod := range pods.Items {
		for _, status := range pod.Status.ContainerStatuses {
			counts[pod.Name] += status.RestartCount
		}
	}
	return counts
}

// restartedSince is how many containers and pods of managers are new.
func restartedSince(ctx context.Context, before map[client.ObjectKey]map[string]int32, keys ...client.ObjectKey) (count int32) {
	GinkgoHelper()
	for _, key := range keys {
		for pod, now := range restarts(ctx, key) {
			was, known := before[key][pod]
			if !known {
				count++
			}
			count += now - was
		}
	}
	return count
}

func metaNamed(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
