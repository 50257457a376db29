//go:build envtest

package controllers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func TestWhatPatchesAddedToTheFilesOfEtcdStaysWhileOneIsRefused(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, single)
	tt.settle()
	adds := func(value string) controlplanev1.Patch {
		return patchOf(names.EtcdData, "ConfigMap", `
metadata: {labels: {example/a: `+value+`}, annotations: {example/b: `+value+`}}
data: {more.conf: `+value+`}
binaryData: {more.bin: AAAA}`)
	}
	files := func() *corev1.ConfigMap {
		config := &corev1.ConfigMap{}
		if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-etcd-data-config"), config); err != nil {
			t.Fatal(err)
		}
		return config
	}
	expect := func(when, value string) {
		t.Helper()
		config := files()
		if config.Labels["example/a"] != value || config.Annotations["example/b"] != value || config.Data["more.conf"] != value || len(config.BinaryData) != 1 {
			t.Errorf("%s it has labels %v, annotations %v, data %v, %v", when, config.Labels, config.Annotations, config.Data, config.BinaryData)
		}
		if config.Data["blue-etcd-data-0.yaml"] == "" || len(config.Data) != 2 {
			t.Errorf("%s its files are %v", when, config.Data)
		}
	}
	tt.patch(adds("first"))
	expect("with the patch", "first")

	tt.storeRefused(adds("second"), patchOf(names.KubeScheduler, "Deployment", "spec: {replicas: 5}"))
	tt.settle()
	expect("while another one is refused", "first")
	tt.storeRefused(adds("second"), patchOf(names.EtcdData, "ConfigMap", "immutable: true"))
	tt.settle()
	expect("while one of the same object is refused", "first")
	tt.writesNothing("while one is refused")

	back, err := environment.WithoutWebhooks(t.Context(), tt.key.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Etcd.Data.QuotaBackendSize = ptr.To(resource.MustParse("3Gi"))
	})
	if err := back(t.Context()); err != nil {
		t.Fatal(err)
	}
	tt.settle()
	expect("with another quota", "first")
	if file := files().Data["blue-etcd-data-0.yaml"]; !strings.Contains(file, "quota-backend-bytes: 3221225472") {
		t.Errorf("the member's own file is %s", file)
	}

	tt.patch(adds("second"))
	expect("when none is refused any more", "second")
	tt.patch()
	if config := files(); len(config.Data) != 1 || len(config.BinaryData) != 0 || config.Labels["example/a"] != "" || config.Annotations["example/b"] != "" {
		t.Errorf("without the patch it is %+v", config)
	}
}
