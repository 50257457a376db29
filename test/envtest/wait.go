package envtest

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

const (
	pollInterval = 20 * time.Millisecond
	pollTimeout  = 30 * time.Second
)

// waitForWebhooks returns when the webhook server accepts TLS connections.
func (e *Environment) waitForWebhooks(ctx context.Context, server webhook.Server) error {
	check := server.StartedChecker()
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, pollTimeout, true, func(context.Context) (bool, error) {
		last = check(nil)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the webhook server: %w (last: %w)", err, last)
	}
	return nil
}

// WithoutWebhooks takes the webhooks out of the API server, so that a test can store what they would
// refuse, until the returned function puts them back.
func (e *Environment) WithoutWebhooks(ctx context.Context) (restore func(context.Context) error, err error) {
	options := &e.server.WebhookInstallOptions
	var objects []client.Object
	for _, object := range options.MutatingWebhooks {
		objects = append(objects, object)
	}
	for _, object := range options.ValidatingWebhooks {
		objects = append(objects, object)
	}
	for _, object := range objects {
		if err := e.Client.Delete(ctx, object); err != nil {
			return nil, fmt.Errorf("delete %s: %w", object.GetName(), err)
		}
	}
	return func(ctx context.Context) error {
		for _, object := range objects {
			object.SetResourceVersion("")
			object.SetUID("")
			if err := e.Client.Create(ctx, object); err != nil {
				return fmt.Errorf("create %s again: %w", object.GetName(), err)
			}
		}
		return e.waitForAdmission(ctx, true)
	}, e.waitForAdmission(ctx, false)
}

// waitForAdmission returns when the API server asks the webhooks, or does not any more: it takes up
// changes of their configuration with a delay.
func (e *Environment) waitForAdmission(ctx context.Context, asked bool) error {
	err := wait.PollUntilContextTimeout(ctx, pollInterval, pollTimeout, true, func(ctx context.Context) (bool, error) {
		probe := &controlplanev1.KOKControlPlane{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "probe"},
			Spec:       controlplanev1.KOKControlPlaneSpec{Version: "refused"},
		}
		err := e.Client.Create(ctx, probe, client.DryRunAll)
		if err != nil && !apierrors.IsInvalid(err) {
			return false, err
		}
		return asked == (err != nil), nil
	})
	if err != nil {
		return fmt.Errorf("wait for the API server to ask webhooks: %t: %w", asked, err)
	}
	return nil
}
