package providers

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestACertManagerThatIsThereIsKept(t *testing.T) {
	certificate := schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}
	for name, tc := range map[string]struct {
		known []schema.GroupVersionKind
		want  bool
	}{
		"without one clusterctl installs its own":    {nil, false},
		"clusterctl waits for the one that is there": {[]schema.GroupVersionKind{certificate}, true},
	} {
		t.Run(name, func(t *testing.T) {
			mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{certificate.GroupVersion()})
			for _, kind := range tc.known {
				mapper.Add(kind, meta.RESTScopeNamespace)
			}
			installer := &Installer{Client: fake.NewClientBuilder().WithRESTMapper(mapper).Build(), Repository: t.TempDir()}
			published := "providers:\n- {name: ours, type: ControlPlaneProvider, url: \"file:///ours/v1.0.0/components.yaml\"}\n"
			if err := os.WriteFile(filepath.Join(installer.Repository, "clusterctl.yaml"), []byte(published), 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := installer.clusterctlConfig()
			if err != nil {
				t.Fatal(err)
			}
			read, err := config.New(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			certManager, err := read.CertManager().Get()
			if err != nil {
				t.Fatal(err)
			}
			if got := certManager.ExternallyProvisioned(); got != tc.want {
				t.Errorf("externallyProvisioned is %t, not %t", got, tc.want)
			}
			if _, err := read.Providers().Get("ours", "ControlPlaneProvider"); err != nil {
				t.Errorf("the providers are lost: %v", err)
			}
		})
	}
}

func TestPodProblem(t *testing.T) {
	pod := corev1.Pod{}
	pod.Name = "manager"
	if got := podProblem([]corev1.Pod{pod}); got != "" {
		t.Errorf("a pod without a status has problem %q", got)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
	if got, want := podProblem([]corev1.Pod{pod}), ", pod manager: ImagePullBackOff: no such image"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/4 nodes"}}
	if got, want := podProblem([]corev1.Pod{pod}), ", pod manager is not scheduled: 0/4 nodes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
