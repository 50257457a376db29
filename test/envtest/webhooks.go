package envtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// withoutWebhooks is the label of a namespace whose objects the webhooks are not asked about.
const withoutWebhooks = "test.kok.cluster.x-k8s.io/without-webhooks"

// WebhooksOf reads the webhooks of providers from the folder of the project. Each configuration gets the name of its provider
// before its own, as an installation does it, and leaves out namespaces with the label withoutWebhooks.
func WebhooksOf(project string, providers ...string) (envtest.WebhookInstallOptions, error) {
	var options envtest.WebhookInstallOptions
	for _, provider := range providers {
		file := filepath.Join(project, "config", provider, "webhook", "manifests.yaml")
		if err := addWebhooks(&options, provider, file); err != nil {
			return options, fmt.Errorf("read the webhooks in %s: %w", file, err)
		}
	}
	return options, nil
}

func addWebhooks(options *envtest.WebhookInstallOptions, provider, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	asked := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: withoutWebhooks, Operator: metav1.LabelSelectorOpDoesNotExist},
	}}
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := documents.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			return err
		}
		switch configuration := object.(type) {
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			configuration.Name = provider + "-" + configuration.Name
			for i := range configuration.Webhooks {
				configuration.Webhooks[i].NamespaceSelector = asked
			}
			options.MutatingWebhooks = append(options.MutatingWebhooks, configuration)
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			configuration.Name = provider + "-" + configuration.Name
			for i := range configuration.Webhooks {
				configuration.Webhooks[i].NamespaceSelector = asked
			}
			options.ValidatingWebhooks = append(options.ValidatingWebhooks, configuration)
		default:
			return fmt.Errorf("%T is no configuration of webhooks", object)
		}
	}
}

// WithoutWebhooks keeps the API server from asking the webhooks about objects of a namespace, so that a test can store what
// they would refuse, until the returned function is called.
func (e *Environment) WithoutWebhooks(ctx context.Context, namespace string) (restore func(context.Context) error, err error) {
	if err := e.askWebhooks(ctx, namespace, false); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return e.askWebhooks(ctx, namespace, true) }, nil
}

// askWebhooks switches the webhooks on or off for a namespace, and waits until the API server obeys: it learns of changed
// labels with a delay.
func (e *Environment) askWebhooks(ctx context.Context, namespace string, asked bool) error {
	value := `""`
	if asked {
		value = "null"
	}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, withoutWebhooks, value))
	if err := e.Client.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, patch); err != nil {
		return fmt.Errorf("label namespace %s: %w", namespace, err)
	}
	err := wait.PollUntilContextTimeout(ctx, pollInterval, pollTimeout, true, func(ctx context.Context) (bool, error) {
		probe := &controlplanev1.KOKControlPlane{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"},
			Spec:       controlplanev1.KOKControlPlaneSpec{Version: "refused"},
		}
		err := e.Client.Create(ctx, probe, client.DryRunAll)
		if err != nil && !apierrors.IsInvalid(err) {
			return false, err
		}
		return asked == (err != nil), nil
	})
	if err != nil {
		return fmt.Errorf("wait for the API server to ask webhooks about namespace %s: %t: %w", namespace, asked, err)
	}
	return nil
}
