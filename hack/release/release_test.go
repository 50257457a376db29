package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/yaml"
)

const testImage = "registry.example.com/kok-controlplane-controller:v9"

// components writes a repository and returns the objects of the control plane provider.
func components(t *testing.T) []unstructured.Unstructured {
	t.Helper()
	out := t.TempDir()
	if err := run(options{root: "../..", out: out, version: "v0.1.0", registry: "registry.example.com", tag: "v9"}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{
		"clusterctl.yaml", "repository/control-plane-kok/v0.1.0/metadata.yaml",
		"repository/cluster-api/v1.14.2/core-components.yaml", "repository/cluster-api/v1.14.2/metadata.yaml",
	} {
		if _, err := os.Stat(filepath.Join(out, file)); err != nil {
			t.Error(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(out, "repository/control-plane-kok/v0.1.0/control-plane-components.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// What clusterctl makes of it for a person who sets no variable.
	data, err = yamlprocessor.NewSimpleProcessor().Process(data, func(name string) (string, error) {
		return "", fmt.Errorf("%s is not set", name)
	})
	if err != nil {
		t.Fatal(err)
	}
	var objects []unstructured.Unstructured
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		object := unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

func TestComponents(t *testing.T) {
	objects := components(t)
	t.Run("every object has the provider's label", func(t *testing.T) {
		for _, object := range objects {
			if object.GetLabels()["cluster.x-k8s.io/provider"] != "control-plane-kok" {
				t.Errorf("%s %s has not", object.GetKind(), object.GetName())
			}
		}
	})
	t.Run("CRDs say which version follows the contract", func(t *testing.T) {
		found := 0
		for _, object := range objects {
			if object.GetKind() != "CustomResourceDefinition" {
				continue
			}
			found++
			if object.GetLabels()["cluster.x-k8s.io/v1beta2"] != "v1alpha1" {
				t.Errorf("%s does not", object.GetName())
			}
		}
		if found != 2 {
			t.Errorf("%d CRDs, want 2", found)
		}
	})
	t.Run("webhooks get their CA from the serving certificate", func(t *testing.T) {
		found := 0
		for _, object := range objects {
			if !strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
				continue
			}
			found++
			want := "kok-control-plane-system/kok-control-plane-serving-cert"
			if got := object.GetAnnotations()["cert-manager.io/inject-ca-from"]; got != want {
				t.Errorf("%s: %q, want %q", object.GetName(), got, want)
			}
		}
		if found != 2 {
			t.Errorf("%d webhook configurations, want 2", found)
		}
	})
	t.Run("roles have no wildcards", func(t *testing.T) {
		found := 0
		for _, object := range objects {
			if object.GetKind() != "ClusterRole" && object.GetKind() != "Role" {
				continue
			}
			found++
			role := as[rbacv1.ClusterRole](t, object)
			for _, rule := range role.Rules {
				if slices.Contains(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), "*") {
					t.Errorf("%s %s: %v", object.GetKind(), role.Name, rule)
				}
			}
		}
		if found < 3 {
			t.Errorf("%d roles, want the manager's, leader election's and Cluster API's", found)
		}
	})
	t.Run("the manager has its image and no CPU limit", func(t *testing.T) {
		index := slices.IndexFunc(objects, func(object unstructured.Unstructured) bool { return object.GetKind() == "Deployment" })
		manager := as[appsv1.Deployment](t, objects[index]).Spec.Template.Spec.Containers[0]
		if manager.Image != testImage || manager.ImagePullPolicy != "IfNotPresent" {
			t.Errorf("image %s, pulled %s", manager.Image, manager.ImagePullPolicy)
		}
		if !manager.Resources.Limits.Cpu().IsZero() || manager.Resources.Requests.Memory().IsZero() {
			t.Errorf("resources %v", manager.Resources)
		}
	})
	t.Run("the PriorityClass has the name that pods use", func(t *testing.T) {
		if !slices.ContainsFunc(objects, func(object unstructured.Unstructured) bool {
			return object.GetKind() == "PriorityClass" && object.GetName() == "kok-control-plane"
		}) {
			t.Error("there is none")
		}
	})
}

func as[T any](t *testing.T, object unstructured.Unstructured) *T {
	t.Helper()
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		t.Fatal(err)
	}
	return typed
}
