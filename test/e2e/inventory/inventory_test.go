package inventory

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestWantedLeavesOutWhatNobodyWanted(t *testing.T) {
	g := NewWithT(t)
	deployment := func(uid, generation string, replicas int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{
				"name": "a", "uid": uid, "resourceVersion": uid, "generation": generation,
				"annotations": map[string]any{"deployment.kubernetes.io/revision": generation, "kept": "1"},
			},
			"spec":   map[string]any{"replicas": replicas},
			"status": map[string]any{"replicas": uid},
		}}
	}
	g.Expect(Wanted(deployment("1", "1", 2))).To(Equal(Wanted(deployment("2", "5", 2))))
	g.Expect(Wanted(deployment("1", "1", 2))).NotTo(Equal(Wanted(deployment("1", "1", 3))))
}

func TestWantedHasNodePortsThatSomebodyAskedFor(t *testing.T) {
	g := NewWithT(t)
	service := func(kind string, nodePort int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "a"},
			"spec": map[string]any{"type": kind, "ports": []any{map[string]any{"port": int64(6443), "nodePort": nodePort}}},
		}}
	}
	g.Expect(Wanted(service("NodePort", 30000))).NotTo(Equal(Wanted(service("NodePort", 30001))))
	g.Expect(Wanted(service("LoadBalancer", 30000))).To(Equal(Wanted(service("LoadBalancer", 30001))))
}

func TestWantedNeverShowsASecret(t *testing.T) {
	g := NewWithT(t)
	secret := func(value string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "a"},
			"data": map[string]any{"key": value},
		}}
	}
	g.Expect(Wanted(secret("c2VjcmV0"))["data"]).To(Equal(map[string]any{"key": "6 bytes, sha256:2bb80d537b1da3e3"}))
	g.Expect(Wanted(secret("c2VjcmV0"))).NotTo(Equal(Wanted(secret("c2VjcmV1"))))
}
