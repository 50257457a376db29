//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

const (
	// testNamespace is where specs write in a tenant.
	testNamespace = "e2e"
	// eventKeys is where kube-apiserver keeps events, by whichever group they were written.
	eventKeys = "/registry/events/"
	// compactRevision is where kube-apiserver agrees with its peers on what to compact, in each etcd.
	compactRevision = "compact_rev_key"
	// secretValue must never be readable in etcd.
	secretValue = "a value that only the tenant may read"
)

// stores looks into both etcd clusters of tenant a, and leaves data there for later specs.
func (j *journey) stores() {
	BeforeAll(func(ctx SpecContext) {
		api := j.a.api
		_, err := api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testNamespace}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		written, err := api.CoreV1().ConfigMaps(testNamespace).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "written"}, Data: map[string]string{"before": "everything"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = api.CoreV1().Secrets(testNamespace).Create(ctx,
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "written"}, StringData: map[string]string{"value": secretValue}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		about := corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: testNamespace, Name: written.Name, UID: written.UID}
		_, err = api.CoreV1().Events(testNamespace).Create(ctx,
			&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "core"}, InvolvedObject: about, Type: corev1.EventTypeNormal, Reason: "Test"}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = api.EventsV1().Events(testNamespace).Create(ctx, &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "events"}, Regarding: about, Type: corev1.EventTypeNormal, Reason: "Test", Action: "Test",
			EventTime: metav1.NewMicroTime(time.Now()), ReportingController: "kok.cluster.x-k8s.io/e2e", ReportingInstance: "e2e",
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	})

	It("keeps events in the events cluster and nowhere else (A2)", func(ctx SpecContext) {
		events := keys(ctx, j.a.etcd(ctx, names.EtcdEvents), "")
		Expect(events).To(ContainElements(eventKeys+testNamespace+"/core", eventKeys+testNamespace+"/events"))
		Expect(events).To(HaveEach(Or(HavePrefix(eventKeys), Equal(compactRevision))), "keys that are no events in the events cluster")

		data := keys(ctx, j.a.etcd(ctx, names.EtcdData), "")
		Expect(data).To(ContainElement("/registry/configmaps/" + testNamespace + "/written"))
		Expect(data).NotTo(ContainElement(HavePrefix(eventKeys)), "events in the data cluster")
		env.log.Print("%d keys in the events cluster, %d in the data cluster", len(events), len(data))
	})

	It("encrypts secrets at rest (D5)", func(ctx SpecContext) {
		found, err := j.a.etcd(ctx, names.EtcdData).Get(ctx, "/registry/secrets/"+testNamespace+"/written")
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Kvs).To(HaveLen(1))
		raw := string(found.Kvs[0].Value)
		Expect(raw).To(HavePrefix("k8s:enc:secretbox:v1:"))
		Expect(raw).NotTo(ContainSubstring(secretValue))
	})
}

// expectWritten checks that what was written in the beginning is still there.
func (j *journey) expectWritten(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		written, err := j.a.api.CoreV1().ConfigMaps(testNamespace).Get(ctx, "written", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(written.Data).To(Equal(map[string]string{"before": "everything"}))
		secret, err := j.a.api.CoreV1().Secrets(testNamespace).Get(ctx, "written", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(secret.Data["value"])).To(Equal(secretValue))
	}).Should(Succeed())
}
