//go:build envtest

package controllers

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// tooOld is what is said of an upgrade from v1.35.4 to v1.36.3 while the worker has v1.32.9.
const tooOld = "spec.version: the upgrade from v1.35.4 to v1.36.3 waits: the kubelet of Node skew-worker is v1.32.9: " +
	"API servers of v1.36 need kubelets of v1.33 or newer; upgrade these workers to at least v1.33 first"

// worker is a Node of the tenant, which is shown on the host cluster's API server, with a kubelet of a version.
func worker(t *testing.T, version string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "skew-worker"}}
	if err := environment.Client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // The context of the test has ended by then.
		if err := environment.Client.Delete(context.Background(), node); err != nil {
			t.Error(err)
		}
	})
	setKubelet(t, node, version)
	return node
}

func setKubelet(t *testing.T, node *corev1.Node, version string) {
	t.Helper()
	node.Status.NodeInfo.KubeletVersion = version
	if err := environment.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

// askedForNodes is how often the tenant was asked for its Nodes since this was last called.
func (tt *tenantTest) askedForNodes() int { return int(tt.host.nodesAsked.Swap(0)) }

// Kubernetes' version skew policy: a kubelet is at most three minors older than kube-apiserver.
func TestAnUpgradeWaitsForKubeletsThatAreTooOldAndAllElseGoesOn(t *testing.T) {
	tt := beforeUpgrade(t)
	node := worker(t, "v1.32.9")
	if asked := tt.askedForNodes(); asked != 0 {
		t.Errorf("before an upgrade Nodes were listed %d times", asked)
	}
	before := tt.podUIDs()
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Version = "v1.36.3" })
	tt.expectReconciled("while a kubelet is too old", tooOld)
	tt.expectVersions("while a kubelet is too old", "v1.35.4")
	if diff := cmp.Diff(before, tt.podUIDs()); diff != "" {
		t.Errorf("pods were replaced (-before +after):\n%s", diff)
	}
	if tt.askedForNodes() == 0 {
		t.Error("nobody asked the tenant")
	}

	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) {
		requests := &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("60m")}}
		s.Etcd.Data.Resources, s.KubeScheduler.Resources = requests, requests
	})
	set, scheduler := &appsv1.StatefulSet{}, &appsv1.Deployment{}
	if etcd := tt.image(names.EtcdData, set); etcd == "" || set.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String() != "60m" {
		t.Error("etcd takes no other change")
	}
	if image := tt.image(names.KubeScheduler, scheduler); !strings.HasSuffix(image, ":v1.35.4") || scheduler.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String() != "60m" {
		t.Errorf("with another change kube-scheduler is %s", image)
	}
	tt.expectReconciled("with another change", tooOld)
	tt.expectVersions("with another change", "v1.35.4")

	setKubelet(t, node, "v1.33.0")
	tt.settle()
	tt.expectVersions("when the kubelet was upgraded", "v1.36.3")
	tt.expectReconciled("when the kubelet was upgraded", "")
	tt.askedForNodes()
	tt.settle()
	if asked := tt.askedForNodes(); asked != 0 {
		t.Errorf("after the upgrade Nodes were listed %d times", asked)
	}
}

func TestWhatIsReadForAnUpgradeThatKubeletsAllow(t *testing.T) {
	tt := beforeUpgrade(t)
	worker(t, "v1.33.1")
	edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Version = "v1.36.3" })
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	if asked := tt.askedForNodes(); asked != 1 {
		t.Errorf("Nodes were listed %d times when the upgrade began", asked)
	}
	tt.settle()
	tt.expectVersions("after the upgrade", "v1.36.3")
	if asked := tt.askedForNodes(); asked != 0 {
		t.Errorf("Nodes were listed %d times once the upgrade had begun", asked)
	}
	edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Version = "v1.36.4" })
	tt.settle()
	tt.expectVersions("after another patch version", "v1.36.4")
	if asked := tt.askedForNodes(); asked != 0 {
		t.Errorf("Nodes were listed %d times for another patch version", asked)
	}
}

// What mends an upgrade may need API servers that do not answer.
func TestAnUpgradeThatHasBegunGoesOnWhateverKubeletsAre(t *testing.T) {
	tt := beforeUpgrade(t)
	tt.upgrade()
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := tt.revisionsOf(names.EtcdData); got != 2 {
		t.Fatalf("etcd has %d renderings, want 2", got)
	}
	tt.expectVersions("when etcd has begun", "v1.35.4")
	worker(t, "v1.32.9")
	tt.host.refuseNodes.Store(true)
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) {
		s.Etcd.Data.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("60m")}}
	})
	tt.expectVersions("after the upgrade", "v1.36.3")
	tt.expectReconciled("after the upgrade", "")
}

func TestAnUpgradeWaitsForATenantThatDoesNotAnswer(t *testing.T) {
	tt := beforeUpgrade(t)
	tt.host.refuseNodes.Store(true)
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Version = "v1.36.3" })
	tt.expectReconciled("while the tenant does not answer", "spec.version: the upgrade from v1.35.4 to v1.36.3 waits: the tenant's API at ")
	tt.expectVersions("while the tenant does not answer", "v1.35.4")
	tt.host.refuseNodes.Store(false)
	tt.settle()
	tt.expectVersions("when it answers", "v1.36.3")
	tt.expectReconciled("when it answers", "")
}

// serveNodes notes who asks for the tenant's Nodes, and refuses them.
func (h *hostCluster) serveNodes(w http.ResponseWriter, r *http.Request, proxy http.Handler) {
	h.nodesAsked.Add(1)
	if h.refuseNodes.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	proxy.ServeHTTP(w, r)
}
