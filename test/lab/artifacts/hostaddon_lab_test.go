//go:build lab

package artifacts

import (
	"context"
	"io"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
)

// session ends when the program is told to end: tests then fail by what they wait for, and remove what they made.
var session context.Context

func TestMain(m *testing.M) { interrupt.Main(m, &session) }

// Programs are compiled, images packed and manifests rendered, in a folder that is empty before.
func TestHostAddonsAreBuiltFromTheirModules(t *testing.T) {
	for name, addon := range map[string]struct {
		ensure  func(ctx context.Context, cacheDir string, progress func(string)) (*HostAddon, error)
		objects []string
	}{
		"MetalLB":        {EnsureMetalLB, []string{"Deployment metallb-system/controller", "DaemonSet metallb-system/speaker", "CustomResourceDefinition /ipaddresspools.metallb.io"}},
		"CSI volumes":    {EnsureCSIVolumes, []string{"DaemonSet csi-volumes/csi-volumes", "CSIDriver /csi-volumes.lab.kok.cluster.x-k8s.io", "StorageClass /csi-volumes"}},
		"metrics-server": {EnsureMetricsServer, []string{"Deployment kube-system/metrics-server", "APIService /v1beta1.metrics.k8s.io", "Certificate kube-system/metrics-server"}},
	} {
		t.Run(name, func(t *testing.T) {
			built, err := addon.ensure(session, t.TempDir(), func(step string) { t.Log(step) })
			if err != nil {
				t.Fatal(err)
			}
			var images []string
			for _, image := range built.Images {
				if err := image.Write(io.Discard); err != nil {
					t.Error(err)
				}
				images = append(images, image.Name)
			}
			objects, asked := readManifests(t, built.Manifests)
			for _, want := range addon.objects {
				if !slices.Contains(objects, want) {
					t.Errorf("%s is missing among %v", want, objects)
				}
			}
			slices.Sort(images)
			slices.Sort(asked)
			if asked = slices.Compact(asked); !slices.Equal(asked, images) {
				t.Errorf("pods ask for %v, and there are %v", asked, images)
			}
		})
	}
}

// readManifests lists the objects of a file, and the images that their pods ask for.
func readManifests(t *testing.T, path string) (objects, images []string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := utilyaml.ToUnstructured(content)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range decoded {
		objects = append(objects, o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName())
		spec, found, err := unstructured.NestedMap(o.Object, "spec", "template", "spec")
		if err != nil || !found {
			continue
		}
		pod := &corev1.PodSpec{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, pod); err != nil {
			t.Fatal(err)
		}
		for _, container := range pod.Containers {
			images = append(images, container.Image)
		}
	}
	return objects, images
}
