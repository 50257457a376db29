package nodekeys

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hostile answers in place of a tenant's API server: with so many pages of one pod, then with a page of Nodes.
type hostile struct {
	client.Reader
	pods int
	pod  func(page int) *corev1.Pod
	node metav1.ObjectMeta
	// before is called before the Nodes are answered with.
	before func()
}

func (h *hostile) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.(*appsv1.DaemonSet).UID = "set"
	return nil
}

func (h *hostile) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list := list.(type) {
	case *corev1.PodList:
		at := len((&client.ListOptions{}).ApplyOptions(options).Continue)
		if at < h.pods {
			list.Items = []corev1.Pod{*h.pod(at)}
		}
		if at+1 < h.pods {
			list.SetContinue(strings.Repeat("x", at+1))
		}
	case *metav1.PartialObjectMetadataList:
		if h.before != nil {
			h.before()
		}
		list.Items = []metav1.PartialObjectMetadata{{ObjectMeta: h.node}}
	}
	return nil
}

// An API server refuses a condition over 32,768 bytes. Then the manager could not write the status of the control plane at all.
func TestNamesThatNoAPIServerTakesAreHeldAgainstTheTenant(t *testing.T) {
	long := strings.Repeat("a", 40<<10)
	for name, test := range map[string]struct{ node, pod, on, refused string }{
		"all are well":                   {"w1", "a", "w1", ""},
		"a Node":                         {long, "a", "w1", "it lists Nodes with a name that no API server takes"},
		"a Node with a name that ends":   {"w1\nw2", "a", "w1", "it lists Nodes with a name that no API server takes"},
		"a pod":                          {"w1", long, "w1", "it lists pods of DaemonSet kok-node-keys with a name that no API server takes"},
		"a pod that is bound to no node": {"w1", "a", "", ""},
		"a pod that is bound anywhere":   {"w1", "a", long, ""},
	} {
		t.Run(name, func(t *testing.T) {
			against := guard()
			lags, err := Behind(t.Context(), against, &hostile{
				pods: 1, pod: func(int) *corev1.Pod { return pod(using(), test.pod, test.on, corev1.ConditionFalse) }, node: node(test.node).ObjectMeta,
			}, using())
			if (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
				t.Errorf("it fails with %v", err)
			}
			if got := against.Problem(); got != test.refused {
				t.Errorf("against the tenant: %q, want %q", got, test.refused)
			}
			if test.refused != "" && lags != nil || test.refused == "" && len(lags) != 1 {
				t.Errorf("behind are %v", lags)
			}
		})
	}
}

// Behind reads all pods before it reads Nodes. Until then it keeps one line of each pod.
func TestWhatPodsSayDoesNotStayInMemory(t *testing.T) {
	const pods, each = 60, 1 << 20
	inUse := func() uint64 {
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		return now.HeapAlloc
	}
	for name, message := range map[string]func() string{
		"a long word": func() string { return strings.Repeat("a", each) },
		"a short one": func() string { return "word" + strings.Repeat(" ", each) },
		"no UTF-8":    func() string { return strings.Repeat("\xff", each) },
	} {
		before, after := inUse(), uint64(0)
		lags, err := Behind(t.Context(), guard(), &hostile{
			pods: pods, pod: func(page int) *corev1.Pod {
				p := pod(using(), "a", fmt.Sprintf("w%d", page), corev1.ConditionFalse)
				p.Status.Message = message()
				return p
			}, node: node("w7").ObjectMeta, before: func() { after = inUse() },
		}, using())
		must(t, err)
		if after > before+pods*each/4 {
			t.Errorf("%s: %d MiB more are in use", name, (after-before)>>20)
		}
		if len(lags) != 1 || len(lags[0].Why) > longest || !utf8.ValidString(lags[0].Why) {
			t.Errorf("%s: behind are %q", name, lags)
		}
	}
}

func TestALabelOfANodeMakesNoLongReason(t *testing.T) {
	of := node("w1").ObjectMeta
	of.Labels[corev1.LabelOSStable] = strings.Repeat("\x00", 1<<20)
	lags, err := Behind(t.Context(), guard(), &hostile{node: of}, using())
	must(t, err)
	if len(lags) != 1 || len(lags[0].Why) > longest {
		t.Errorf("behind are %q", lags)
	}
}
