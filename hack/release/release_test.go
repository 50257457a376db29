package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterctlclient "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	clusterctlconfig "sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	capicontract "sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/config/monitoring"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/manager"
)

// repository writes a repository and returns its folder.
func repository(t *testing.T) string {
	t.Helper()
	out := t.TempDir()
	if err := run(options{root: "../..", out: out, version: "v0.1.0", registry: "registry.example.com", tag: "v9"}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{
		"clusterctl.yaml", "repository/control-plane-kok/v0.1.0/metadata.yaml", "repository/bootstrap-kok/v0.1.0/metadata.yaml",
		"repository/cluster-api/v1.14.2/core-components.yaml", "repository/cluster-api/v1.14.2/metadata.yaml",
		"repository/bootstrap-kubeadm/v1.14.2/bootstrap-components.yaml", "repository/bootstrap-kubeadm/v1.14.2/metadata.yaml",
	} {
		if _, err := os.Stat(filepath.Join(out, file)); err != nil {
			t.Error(err)
		}
	}
	return filepath.Join(out, "repository")
}

// components are the objects in a components file, as clusterctl gives them to a person who sets no variable.
func components(t *testing.T, file string) []unstructured.Unstructured {
	t.Helper()
	return componentsWith(t, file, nil)
}

// componentsWith are the objects in a components file, as clusterctl gives them to a person who sets variables.
func componentsWith(t *testing.T, file string, variables map[string]string) []unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err = yamlprocessor.NewSimpleProcessor().Process(data, func(name string) (string, error) {
		if value, ok := variables[name]; ok {
			return value, nil
		}
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

// contract is what is different in the components of the providers.
type contract struct {
	label, file, system, image string
	webhooks, definitions      int
}

func TestComponents(t *testing.T) {
	folder := repository(t)
	for _, provider := range []contract{
		{"control-plane-kok", "control-plane-components.yaml", "kok-control-plane", "kok-controlplane-controller", 2, 3},
		{"bootstrap-kok", "bootstrap-components.yaml", "kok-bootstrap", "kok-bootstrap-controller", 1, 3},
		{"infrastructure-idc", "infrastructure-components.yaml", "kok-infrastructure", "kok-infrastructure-controller", 1, 5},
	} {
		t.Run(provider.label, func(t *testing.T) {
			checkComponents(t, components(t, filepath.Join(folder, provider.label, "v0.1.0", provider.file)), provider)
		})
	}
}

// certificate is what a test wants of a Certificate of cert-manager.
type certificate struct {
	Spec struct {
		SecretName string          `json:"secretName"`
		DNSNames   []string        `json:"dnsNames"`
		Duration   metav1.Duration `json:"duration"`
	} `json:"spec"`
}

// A scraper has a copy of the certificate, and the name that the documents give it.
func TestMetricsAreServedByACertificateThatTheirReadersVerify(t *testing.T) {
	folder := repository(t)
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	(&manager.Options{}).AddFlags(flags)
	page, err := markdown.Read("docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	const written = "tls_config: {ca_file: /etc/prometheus/kok-metrics/ca.crt, server_name: kok-metrics}"
	if !slices.ContainsFunc(page.Blocks, func(block markdown.Block) bool { return strings.Contains(block.Code, written) }) {
		t.Errorf("docs/monitoring.md has no %s", written)
	}
	for file, system := range map[string]string{
		"control-plane-kok/v0.1.0/control-plane-components.yaml":   "kok-control-plane",
		"bootstrap-kok/v0.1.0/bootstrap-components.yaml":           "kok-bootstrap",
		"infrastructure-idc/v0.1.0/infrastructure-components.yaml": "kok-infrastructure",
	} {
		t.Run(system, func(t *testing.T) {
			objects, secret := components(t, filepath.Join(folder, file)), system+"-metrics-cert"
			find := func(kind, name string) unstructured.Unstructured {
				t.Helper()
				i := slices.IndexFunc(objects, func(o unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
				if i < 0 {
					t.Fatalf("there is no %s %s", kind, name)
				}
				return objects[i]
			}
			made := as[certificate](t, find("Certificate", secret)).Spec
			if made.SecretName != secret || !slices.Equal(made.DNSNames, []string{"kok-metrics"}) || made.Duration.Hours() < 5*365*24 {
				t.Errorf("the certificate is %+v", made)
			}
			if got := as[certificate](t, find("Certificate", system+"-serving-cert")).Spec.DNSNames; len(got) != 2 || got[0] != system+"-webhook-service."+system+"-system.svc" {
				t.Errorf("that of webhooks is for %v", got)
			}
			pod := as[appsv1.Deployment](t, find("Deployment", system+"-controller-manager")).Spec.Template.Spec
			for flag, secret := range map[string]string{"metrics-cert-dir": secret, "webhook-cert-dir": system + "-webhook-service-cert"} {
				mount := slices.IndexFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
					return m.MountPath+"/" == flags.Lookup(flag).DefValue
				})
				if mount < 0 {
					t.Fatalf("nothing is mounted at --%s", flag)
				}
				if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
					return v.Name == pod.Containers[0].VolumeMounts[mount].Name && v.Secret != nil && v.Secret.SecretName == secret
				}) {
					t.Errorf("at --%s is not Secret %s", flag, secret)
				}
			}
		})
	}
}

func TestThePriorityClassHasTheNameThatPodsUse(t *testing.T) {
	folder := filepath.Join(repository(t), "control-plane-kok/v0.1.0")
	for _, file := range []string{"control-plane-components.yaml", "host-cluster.yaml"} {
		if !slices.ContainsFunc(components(t, filepath.Join(folder, file)), func(object unstructured.Unstructured) bool {
			return object.GetKind() == "PriorityClass" && object.GetName() == "kok-control-plane"
		}) {
			t.Errorf("there is none in %s", file)
		}
	}
}

// A person puts a name in place of the word by sed, which replaces the first one of a line.
func TestFinding8WhatANamespaceNeedsInAHostClusterIsForThatNamespaceAlone(t *testing.T) {
	folder := filepath.Join(repository(t), "control-plane-kok/v0.1.0")
	file := filepath.Join(folder, "host-cluster-namespace.yaml")
	page, err := markdown.Read("docs/another-host-cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	const command = "sed 's/NAMESPACE/<namespace>/' host-cluster-namespace.yaml |"
	if !slices.ContainsFunc(page.Blocks, func(block markdown.Block) bool { return strings.Contains(block.Code, command) }) {
		t.Errorf("docs/another-host-cluster.md has no %s", command)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if strings.Count(line, "NAMESPACE") > 1 {
			t.Errorf("it is in one line twice: %s", line)
		}
	}
	var made []string
	for _, object := range components(t, file) {
		made = append(made, strings.Join([]string{object.GetKind(), object.GetNamespace(), object.GetName()}, " "))
		if strings.HasSuffix(object.GetKind(), "Binding") {
			subjects, _, err := unstructured.NestedSlice(object.Object, "subjects")
			want := []any{map[string]any{"kind": "ServiceAccount", "name": "kok-host-cluster", "namespace": "NAMESPACE"}}
			if err != nil || !reflect.DeepEqual(subjects, want) {
				t.Errorf("%s is for %v, %v", object.GetName(), subjects, err)
			}
			role, _, err := unstructured.NestedString(object.Object, "roleRef", "name")
			if err != nil || !slices.ContainsFunc(components(t, filepath.Join(folder, "host-cluster.yaml")), func(o unstructured.Unstructured) bool {
				return o.GetKind() == "ClusterRole" && o.GetName() == role
			}) {
				t.Errorf("%s is to the role %q, which host-cluster.yaml has not, %v", object.GetName(), role, err)
			}
		}
	}
	slices.Sort(made)
	want := []string{
		"ClusterRoleBinding  kok-host-cluster-NAMESPACE", "Namespace  NAMESPACE", "RoleBinding NAMESPACE kok-host-cluster",
		"RoleBinding kok-control-plane-system kok-host-cluster-NAMESPACE", "ServiceAccount NAMESPACE kok-host-cluster",
	}
	if !slices.Equal(made, want) {
		t.Errorf("got %v, want %v", made, want)
	}
}

func TestClusterctlFindsTheProviders(t *testing.T) {
	folder := repository(t)
	data, err := os.ReadFile(filepath.Join(filepath.Dir(folder), "clusterctl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Providers []struct{ Name, Type, URL string }
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, provider := range config.Providers {
		found = append(found, provider.Name+" "+provider.Type)
		if _, err := os.Stat(strings.TrimPrefix(provider.URL, "file://")); err != nil {
			t.Error(err)
		}
	}
	for _, want := range []string{
		"cluster-api CoreProvider", "kubeadm BootstrapProvider", "kok BootstrapProvider", "kok ControlPlaneProvider", "idc InfrastructureProvider",
	} {
		if !slices.Contains(found, want) {
			t.Errorf("%s is not among %v", want, found)
		}
	}
}

// clusterctl takes a cert-manager that is there, and without one it installs its own: a host cluster need not have one.
func TestClusterctlMayInstallCertManager(t *testing.T) {
	config, err := clusterctlconfig.New(t.Context(), filepath.Join(filepath.Dir(repository(t)), "clusterctl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	certManager, err := config.CertManager().Get()
	if err != nil {
		t.Fatal(err)
	}
	if certManager.ExternallyProvisioned() {
		t.Error("it is to fail where there is none")
	}
}

// clusterctl looks for templates beside the infrastructure provider's components.
func TestTheTemplatesArePublished(t *testing.T) {
	folder := filepath.Join(repository(t), "infrastructure-idc/v0.1.0")
	templates, err := filepath.Glob("../../templates/*.yaml")
	if err != nil || len(templates) < 5 {
		t.Fatalf("templates %v, err %v", templates, err)
	}
	for _, template := range templates {
		want, err := os.ReadFile(template)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(folder, filepath.Base(template)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is another", filepath.Base(template))
		}
	}
}

// They are what a person changes, and gives to the control plane provider, to Prometheus and to Grafana.
func TestFilesArePublishedAsTheyAre(t *testing.T) {
	for _, file := range []string{"internal/versions/versions.yaml", "config/monitoring/" + monitoring.RulesFile, "config/monitoring/" + monitoring.DashboardFile} {
		want, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(repository(t), "control-plane-kok/v0.1.0", filepath.Base(file)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is\n%s", file, got)
		}
	}
}

// clusterctl deletes what a release made when it upgrades to another one.
func TestNoReleaseHasTheConfigMapOfVersions(t *testing.T) {
	for _, object := range components(t, filepath.Join(repository(t), "control-plane-kok/v0.1.0/control-plane-components.yaml")) {
		if object.GetKind() == "ConfigMap" {
			t.Errorf("it has ConfigMap %s", object.GetName())
		}
	}
}

// It asks no management cluster: there is none, as before clusterctl init.
func TestClusterctlAddsTheClassToATopology(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	folder := filepath.Dir(repository(t))
	for _, class := range []string{"kok", "kok-chained"} {
		t.Run(class, func(t *testing.T) {
			t.Setenv("CLUSTER_CLASS", class)
			clusterctl, err := clusterctlclient.New(t.Context(), filepath.Join(folder, "clusterctl.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			template, err := clusterctl.GetClusterTemplate(t.Context(), clusterctlclient.GetClusterTemplateOptions{
				ProviderRepositorySource: &clusterctlclient.ProviderRepositorySourceOptions{InfrastructureProvider: "idc:v0.1.0", Flavor: "topology"},
				ClusterName:              "blue", TargetNamespace: "team", KubernetesVersion: "v1.36.3", WorkerMachineCount: ptr.To[int64](2),
			})
			if err != nil {
				t.Fatal(err)
			}
			var objects []string
			for _, object := range template.Objs() {
				objects = append(objects, object.GetKind()+" "+object.GetName())
				if object.GetNamespace() != "team" {
					t.Errorf("%s %s is of namespace %q", object.GetKind(), object.GetName(), object.GetNamespace())
				}
			}
			slices.Sort(objects)
			want := []string{
				"Cluster blue", "ClusterClass " + class, "IDCClusterTemplate " + class, "IDCMachineTemplate " + class + "-worker",
				"KOKConfigTemplate " + class + "-worker", "KOKControlPlaneTemplate " + class,
			}
			if !slices.Equal(objects, want) {
				t.Errorf("it has %v", objects)
			}
		})
	}
}

// The kubeadm bootstrap provider reads the version of our control planes.
func TestTheKubeadmBootstrapProviderMayReadControlPlanes(t *testing.T) {
	folder := repository(t)
	var account string
	for _, object := range components(t, filepath.Join(folder, "bootstrap-kubeadm/v1.14.2/bootstrap-components.yaml")) {
		if object.GetKind() == "ServiceAccount" {
			account = "system:serviceaccount:" + object.GetNamespace() + ":" + object.GetName()
		}
	}
	var role string
	rules := map[string][]rbacv1.PolicyRule{}
	for _, object := range components(t, filepath.Join(folder, "control-plane-kok/v0.1.0/control-plane-components.yaml")) {
		switch object.GetKind() {
		case "ClusterRole":
			rules[object.GetName()] = as[rbacv1.ClusterRole](t, object).Rules
		case "ClusterRoleBinding":
			binding := as[rbacv1.ClusterRoleBinding](t, object)
			if subject := binding.Subjects[0]; subject.Kind == rbacv1.UserKind && subject.Name == account {
				role = binding.RoleRef.Name
			}
		}
	}
	if role == "" {
		t.Fatalf("%q has no role", account)
	}
	if got := rules[role]; len(got) != 1 || !slices.Equal(got[0].Resources, []string{"kokcontrolplanes"}) || !slices.Equal(got[0].Verbs, []string{"get"}) {
		t.Errorf("the rights are %v", got)
	}
}

func checkComponents(t *testing.T, objects []unstructured.Unstructured, provider contract) {
	t.Run("every object has the provider's label", func(t *testing.T) {
		for _, object := range objects {
			if object.GetLabels()["cluster.x-k8s.io/provider"] != provider.label {
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
			// clusterctl init refuses definitions with other names (preflight check of CRD names).
			group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
			if want := capicontract.CalculateCRDName(group, kind); object.GetName() != want {
				t.Errorf("%s has to be called %s", object.GetName(), want)
			}
		}
		if found != provider.definitions {
			t.Errorf("%d CRDs, want %d", found, provider.definitions)
		}
	})
	t.Run("webhooks get their CA from the serving certificate", func(t *testing.T) {
		found := 0
		for _, object := range objects {
			if !strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
				continue
			}
			found++
			want := provider.system + "-system/" + provider.system + "-serving-cert"
			if got := object.GetAnnotations()["cert-manager.io/inject-ca-from"]; got != want {
				t.Errorf("%s: %q, want %q", object.GetName(), got, want)
			}
		}
		if found != provider.webhooks {
			t.Errorf("%d webhook configurations, want %d", found, provider.webhooks)
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
		container := as[appsv1.Deployment](t, objects[index]).Spec.Template.Spec.Containers[0]
		if container.Image != "registry.example.com/"+provider.image+":v9" || container.ImagePullPolicy != "IfNotPresent" {
			t.Errorf("image %s, pulled %s", container.Image, container.ImagePullPolicy)
		}
		for flag, name := range imagesInArguments {
			want := map[bool]string{true: "registry.example.com/" + name + ":v9"}[provider.label == "control-plane-kok"]
			if got := imageIn(container.Args, flag); got != want {
				t.Errorf("the image of %s is %q, not %q", name, got, want)
			}
		}
		if !container.Resources.Limits.Cpu().IsZero() || container.Resources.Requests.Memory().IsZero() {
			t.Errorf("resources %v", container.Resources)
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
