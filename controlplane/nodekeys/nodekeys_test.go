package nodekeys

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/golden"
)

func using() Wanted {
	return Wanted{Trusted: []byte("former\nnext\n"), Signer: []byte("next\n"), Order: wanted.Order{Rotation: "2030-01-02T03:04:05Z", Step: 2}, Image: "registry.example/kok-node-keys:1", ImagePullSecret: []byte(`{"auths":{}}`)}
}

func trusting() Wanted {
	return Wanted{Trusted: []byte("former\nnext\n"), Order: wanted.Order{Rotation: "2030-01-02T03:04:05Z", Step: 1}, Image: "registry.example/kok-node-keys:1"}
}

func TestObjects(t *testing.T) {
	for name, w := range map[string]Wanted{"trusting": trusting(), "using": using()} {
		t.Run(name, func(t *testing.T) {
			var all bytes.Buffer
			for _, object := range Objects(w) {
				text, err := yaml.Marshal(object)
				must(t, err)
				fmt.Fprintf(&all, "---\n%s", text)
			}
			golden.Compare(t, name+".yaml", all.Bytes())
		})
	}
}

// guard is one that nothing was held against.
func guard() *tenantapi.Guard {
	return (&tenantapi.Guards{}).Of(client.ObjectKey{Namespace: "team", Name: "blue"})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The pod is told the hash of the files that it mounts, or it would wait for ever.
func TestAPodMountsTheFilesOfItsHash(t *testing.T) {
	all := Objects(using())
	files, template := addon.Find[*corev1.ConfigMap](all), addon.Find[*appsv1.DaemonSet](all).Spec.Template
	order, err := wanted.ParseOrder(files.Data[wanted.OrderFile])
	must(t, err)
	read := wanted.Wanted{Trusted: []byte(files.Data[wanted.TrustedFile]), Signer: []byte(files.Data[wanted.SignerFile]), Order: order}
	if want := []string{"run", "--hash=" + read.Hash()}; !slices.Equal(template.Spec.Containers[0].Args, want) {
		t.Errorf("the arguments are %q, want %q", template.Spec.Containers[0].Args, want)
	}
	if !slices.ContainsFunc(template.Spec.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil && v.ConfigMap.Name == files.Name }) {
		t.Errorf("no volume is ConfigMap %s", files.Name)
	}
	if other := addon.Find[*corev1.ConfigMap](Objects(trusting())); other.Name == files.Name {
		t.Errorf("another phase has the same ConfigMap %s", other.Name)
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
}

// pod is one of the DaemonSet, for what is wanted on a node.
func pod(w Wanted, name, node string, ready corev1.ConditionStatus) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: name, Labels: map[string]string{"k8s-app": "kok-node-keys"}, Annotations: map[string]string{hashAnnotation: w.hash()},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "kok-node-keys", UID: "set", Controller: ptr.To(true)}},
	}}
	p.Spec.NodeName = node
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	return p
}

func TestBehindNamesEachNodeWithoutAReadyPodOfThePhase(t *testing.T) {
	set := addon.Find[*appsv1.DaemonSet](Objects(using()))
	set.UID = "set"
	others := pod(using(), "others", "w1", corev1.ConditionTrue)
	others.OwnerReferences = nil
	ends := pod(using(), "ends", "w1", corev1.ConditionTrue)
	ends.DeletionTimestamp, ends.Finalizers = ptr.To(metav1.Now()), []string{"test.example/kept"}
	told := pod(using(), "told", "w1", corev1.ConditionFalse)
	told.Status.ContainerStatuses = []corev1.ContainerStatus{{
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "kubelet does not run"}},
	}}
	pulls := pod(using(), "pulls", "w1", corev1.ConditionFalse)
	pulls.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}}}}
	windows := node("w2")
	windows.Labels[corev1.LabelOSStable] = "windows"
	for name, test := range map[string]struct {
		objects []client.Object
		want    []string
	}{
		"no DaemonSet":               {[]client.Object{node("w1")}, []string{"w1 (DaemonSet kok-node-keys is not there)"}},
		"no pod":                     {[]client.Object{set, node("w1")}, []string{"w1 (it has no pod of DaemonSet kok-node-keys yet, whose Events say why)"}},
		"a pod of somebody else":     {[]client.Object{set, node("w1"), others}, []string{"w1 (it has no pod of DaemonSet kok-node-keys yet, whose Events say why)"}},
		"a pod of another phase":     {[]client.Object{set, node("w1"), pod(trusting(), "a", "w1", corev1.ConditionTrue)}, []string{"w1 (its pod a is of another phase, and is being replaced)"}},
		"a pod that ends":            {[]client.Object{set, node("w1"), ends}, []string{"w1 (its pod ends ends, and is being replaced)"}},
		"a pod that is not ready":    {[]client.Object{set, node("w1"), pod(using(), "a", "w1", corev1.ConditionFalse)}, []string{"w1 (pod a: it is not ready yet)"}},
		"a pod that told why":        {[]client.Object{set, node("w1"), told}, []string{"w1 (pod told: kubelet does not run)"}},
		"a pod without its image":    {[]client.Object{set, node("w1"), pulls}, []string{"w1 (pod pulls: ErrImagePull: no such image)"}},
		"a node that is not Linux":   {[]client.Object{set, windows}, []string{`w2 (its label kubernetes.io/os is "windows": kok-node-keys runs on Linux alone, and a person has to give this one its keys)`}},
		"all are ready":              {[]client.Object{set, node("w1"), pod(using(), "a", "w1", corev1.ConditionTrue)}, nil},
		"one ends, another is ready": {[]client.Object{set, node("w1"), pod(using(), "a", "w1", corev1.ConditionTrue), ends}, nil},
		"no node":                    {[]client.Object{set}, nil},
		"a pod whose node is gone":   {[]client.Object{set, pod(using(), "a", "w9", corev1.ConditionFalse)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(test.objects...).Build()
			lags, err := Behind(t.Context(), guard(), reader, using())
			if got := texts(lags); err != nil || !slices.Equal(got, test.want) {
				t.Errorf("behind are %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func texts(lags []Lag) (all []string) {
	for _, lag := range lags {
		all = append(all, lag.String())
	}
	return all
}

// A reason is a part of a line of a condition, and comes from the tenant.
func TestAReasonIsOneShortLine(t *testing.T) {
	set := addon.Find[*appsv1.DaemonSet](Objects(using()))
	set.UID = "set"
	told := pod(using(), "told", "w1", corev1.ConditionFalse)
	told.Status.Message = "kubelet\n\tdoes not run " + strings.Repeat("…", 4096)
	reader := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(set, node("w1"), told).Build()
	lags, err := Behind(t.Context(), guard(), reader, using())
	must(t, err)
	if len(lags) != 1 || !strings.HasPrefix(lags[0].Why, "pod told: kubelet does not run …") || len(lags[0].Why) > longest || !utf8.ValidString(lags[0].Why) {
		t.Errorf("behind are %q", lags)
	}
}

func TestRemoveTakesTheObjectsOfAllPhases(t *testing.T) {
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kok-node-keys-theirs"}}
	all := []client.Object{theirs}
	for _, w := range []Wanted{trusting(), using()} {
		for _, object := range Objects(w) {
			if !slices.ContainsFunc(all, func(o client.Object) bool {
				return o.GetName() == object.GetName() && fmt.Sprintf("%T", o) == fmt.Sprintf("%T", object)
			}) {
				all = append(all, object)
			}
		}
	}
	if len(all) != 6 {
		t.Fatalf("there are %d objects", len(all))
	}
	api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(all...).Build()
	for range 2 { // What is gone is no mistake.
		must(t, Remove(t.Context(), api))
	}
	var left []string
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &appsv1.DaemonSetList{}, &corev1.ServiceAccountList{}, &corev1.SecretList{}} {
		must(t, tenantapi.EachNamed(t.Context(), guard(), api, list, "objects", func(object client.Object) { left = append(left, object.GetName()) }))
	}
	if !slices.Equal(left, []string{"kok-node-keys-theirs"}) {
		t.Errorf("these are left: %s", strings.Join(left, ", "))
	}
}

func TestAllObjectsHaveOurLabel(t *testing.T) {
	for _, object := range Objects(using()) {
		if object.GetLabels()[names.ManagedByLabel] != names.ManagedBy || object.GetNamespace() != metav1.NamespaceSystem {
			t.Errorf("%T %s: labels %v", object, object.GetName(), object.GetLabels())
		}
	}
}
