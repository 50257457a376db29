//go:build envtest

package main

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// warned are the warnings of an API server, which clusterctl prints.
type warned struct {
	lock  sync.Mutex
	texts []string
}

func (w *warned) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.texts = append(w.texts, text)
}

// Nobody who installs should wonder about a variable that may be empty. Kinds of cert-manager are left out.
func TestTheAPIServerWarnsOfNothingThatClusterctlInstalls(t *testing.T) {
	sample.OneIn(t, 4, "it needs a release, which takes minutes to build")
	folder := repository(t)
	environment := &envtest.Environment{}
	environment.ControlPlane.GetAPIServer().Configure().Disable("disable-admission-plugins") // Pods take Secrets from ServiceAccounts.
	stop, err := interrupt.Guard(func() error { _, err := environment.Start(); return err }, environment.Stop)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	warnings := &warned{}
	told := rest.CopyConfig(environment.Config)
	told.WarningHandlerWithContext = warnings
	clusterctl, controllerManager := clientOf(t, told), clientOf(t, environment.Config)
	for _, file := range []string{"control-plane-kok/v0.1.0/control-plane", "bootstrap-kok/v0.1.0/bootstrap", "infrastructure-idc/v0.1.0/infrastructure"} {
		file = filepath.Join(folder, file+"-components.yaml")
		deployment := &unstructured.Unstructured{}
		for _, step := range []struct {
			variables map[string]string
			want      corev1.LocalObjectReference
		}{{nil, corev1.LocalObjectReference{}}, {map[string]string{"KOK_IMAGE_PULL_SECRET": "registry"}, corev1.LocalObjectReference{Name: "registry"}}} {
			objects := componentsWith(t, file, step.variables)
			for i := range objects {
				if err := install(t.Context(), clusterctl, &objects[i]); err != nil && !meta.IsNoMatchError(err) {
					t.Errorf("%s %s: %v", objects[i].GetKind(), objects[i].GetName(), err)
				}
				if objects[i].GetKind() == "Deployment" {
					deployment = &objects[i]
				}
			}
			if len(warnings.texts) > 0 {
				t.Errorf("with the variables %v the API server warns: %q", step.variables, warnings.texts)
				warnings.texts = nil
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "manager-", Namespace: namespaceIn(objects)}, Spec: managerPod(t, objects)}
			if err := controllerManager.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			if got := pod.Spec.ImagePullSecrets; !slices.Equal(got, []corev1.LocalObjectReference{step.want}) {
				t.Errorf("with the variables %v a pod of %s has the Secrets %v", step.variables, filepath.Base(file), got)
			}
		}
		if deployment.GetGeneration() != 2 {
			t.Errorf("pods of %s that run when the Secret gets another name are not made anew", filepath.Base(file))
		}
	}
}

func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// install creates an object, or brings it up to date.
func install(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	present := &unstructured.Unstructured{}
	present.SetGroupVersionKind(object.GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), present); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		return c.Create(ctx, object)
	}
	object.SetResourceVersion(present.GetResourceVersion())
	return c.Update(ctx, object)
}

// namespaceIn is the namespace that a provider's components bring.
func namespaceIn(components []unstructured.Unstructured) string {
	i := slices.IndexFunc(components, func(object unstructured.Unstructured) bool { return object.GetKind() == "Namespace" })
	return components[i].GetName()
}
