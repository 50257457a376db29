//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	extensionName  = "extension"
	extensionImage = "ghcr.io/kube-on-kube/extension:e2e"
	// extensionPath is the aggregated API's resource.
	extensionPath = "/apis/extension.example.com/v1/answers"
	// refusedLabel is on what the webhook is asked about.
	refusedLabel = "example.com/refuse"
)

// createExtension runs the program extension on the tenant's workers, and tells API servers of it.
func (t *tenant) createExtension(ctx context.Context, hosts ...string) {
	GinkgoHelper()
	loadExtension(ctx, hosts...)
	certificate, key, err := cert.GenerateSelfSignedCertKey(extensionName+"."+metav1.NamespaceDefault+".svc", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	api, err := client.New(t.access, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	for _, object := range extension(certificate, key) {
		Expect(api.Create(ctx, object)).To(Succeed())
	}
}

// deleteExtension takes back what createExtension made. An aggregated API that nobody reaches would hold every namespace
// that is deleted.
func (t *tenant) deleteExtension(ctx context.Context) {
	GinkgoHelper()
	api, err := client.New(t.access, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	for _, object := range extension(nil, nil) {
		Expect(client.IgnoreNotFound(api.Delete(ctx, object))).To(Succeed())
	}
}

// loadExtension brings the image to hosts. What a host gets while it carries a machine goes with that.
func loadExtension(ctx context.Context, hosts ...string) {
	GinkgoHelper()
	Expect(env.lab.LoadProgram(ctx, extensionImage, filepath.Join(settings.programs, extensionName), hosts...)).To(Succeed())
}

func extension(certificate, key []byte) []client.Object {
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: extensionName}
	labels := map[string]string{"app": extensionName}
	return []client.Object{
		&corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}},
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			Selector: labels, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(8443)}},
		}},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: extensionName, Image: extensionImage, Args: []string{":8443", "/tls/tls.crt", "/tls/tls.key"},
					VolumeMounts: []corev1.VolumeMount{{Name: "tls", MountPath: "/tls", ReadOnly: true}},
				}},
				Volumes: []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: extensionName}}}},
			}},
		}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: extensionName}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "refuse.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: refusedLabel, Operator: metav1.LabelSelectorOpExists}}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				CABundle: certificate,
				Service:  &admissionregistrationv1.ServiceReference{Namespace: meta.Namespace, Name: meta.Name, Path: ptr.To("/refuse")},
			},
		}}},
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
			"metadata": map[string]any{"name": "v1.extension.example.com"},
			"spec": map[string]any{
				"group": "extension.example.com", "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10),
				"caBundle": base64.StdEncoding.EncodeToString(certificate), "service": map[string]any{"namespace": meta.Namespace, "name": meta.Name},
			},
		}},
	}
}

// expectExtended waits until an API server asks the webhook, and passes requests on to the aggregated API.
func expectExtended(ctx context.Context, access *rest.Config) {
	GinkgoHelper()
	api, err := kubernetes.NewForConfig(access)
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func(g Gomega) {
		_, err := api.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "refused-", Labels: map[string]string{refusedLabel: ""}},
		}, metav1.CreateOptions{})
		g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "an object that the webhook refuses: %v", err)
		g.Expect(err).To(MatchError(ContainSubstring("the extension refuses it")))
		answer, err := api.RESTClient().Get().AbsPath(extensionPath).DoRaw(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(answer)).To(ContainSubstring("the-answer"))
	}).WithTimeout(join).Should(Succeed(), "the extension by way of %s", access.Host)
}
