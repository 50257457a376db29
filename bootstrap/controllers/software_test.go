package controllers

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
)

// asking is what ready has, with a config that asks for software.
func asking(spec bootstrapv1.SoftwareSpec) []client.Object {
	objects := ready()
	for _, object := range objects {
		if config, ok := object.(*bootstrapv1.KOKConfig); ok {
			spec.Mode = bootstrapv1.SoftwareDescribed
			config.Spec.Software = spec
		}
	}
	return objects
}

func kokSoftware(name string) *bootstrapv1.KOKSoftware {
	described := &bootstrapv1.KOKSoftware{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name}}
	described.Spec = bootstrapv1.KOKSoftwareSpec{
		Installers: []bootstrapv1.SoftwareInstaller{{Architecture: "amd64", URLs: []string{"https://a.example/kok-software"}, SHA256: strings.Repeat("0", 64)}},
		Mirrors: []bootstrapv1.SoftwareMirror{{Prefix: "https://a.example/", Endpoints: []bootstrapv1.SoftwareEndpoint{
			{URL: "https://mirror.example", SecretRef: bootstrapv1.SecretReference{Name: "mirror"}},
		}}},
		Components: []bootstrapv1.SoftwareComponent{{Name: "kubelet", Variants: []bootstrapv1.SoftwareVariant{{Packages: []bootstrapv1.Package{{Name: "kubelet"}}}}}},
	}
	return described
}

// forTenants is what a Secret has that may be given to machines.
func forTenants(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: key.Namespace, Name: name, Labels: map[string]string{giveaway.Label: giveaway.Allowed}}
}

func mirrorSecret(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: forTenants("mirror"), Type: corev1.SecretTypeBasicAuth, Data: data}
}

// filesOf are the files in the machine's bootstrap data, by their paths.
func filesOf(f *fixture) map[string][]byte {
	f.t.Helper()
	var config struct {
		WriteFiles []struct {
			Path    string `json:"path"`
			Content []byte `json:"content"`
		} `json:"write_files"`
	}
	if err := yaml.Unmarshal(f.data().Data["value"], &config); err != nil {
		f.t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, file := range config.WriteFiles {
		files[file.Path] = file.Content
	}
	return files
}

// documentOf is the document in the bootstrap data.
func documentOf(t *testing.T, f *fixture) software.Document {
	t.Helper()
	content, found := filesOf(f)[software.DocumentFile]
	if !found {
		t.Fatalf("the bootstrap data has no %s", software.DocumentFile)
	}
	var document software.Document
	if err := json.Unmarshal(content, &document); err != nil {
		t.Fatal(err)
	}
	return document
}

func TestAMachineGetsTheSoftwareOfItsVersion(t *testing.T) {
	secret := mirrorSecret(map[string][]byte{"username": []byte("reader"), "password": []byte("secret")})
	for name, test := range map[string]struct {
		spec  bootstrapv1.SoftwareSpec
		wants string
	}{
		"by its version":                        {bootstrapv1.SoftwareSpec{ByVersion: "software"}, "software-v1.36.3"},
		"by its version, with the default name": {bootstrapv1.SoftwareSpec{}, "software-v1.36.3"},
		"by a name":                             {bootstrapv1.SoftwareSpec{Ref: bootstrapv1.SoftwareReference{Name: "fixed"}}, "fixed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, append(asking(test.spec), kokSoftware("software-v1.36.3"), kokSoftware("fixed"), secret.DeepCopy())...)
			f.mustReconcile()
			f.expectCondition("DataSecretAvailable", metav1.ConditionTrue, "Available")
			document := documentOf(t, f)
			if document.Name != test.wants || document.Version != "v1.36.3" || document.Components[0].Name != "kubelet" {
				t.Errorf("%+v", document)
			}
			if endpoint := document.Mirrors[0].Endpoints[0]; endpoint.Username != "reader" || endpoint.Password != "secret" {
				t.Error("the document lacks the password of the mirror")
			}
			live := &corev1.Secret{}
			if err := f.management.Get(t.Context(), client.ObjectKeyFromObject(secret), live); err != nil {
				t.Fatal(err)
			}
			if _, labelled := live.Labels[clusterctlv1.ClusterctlMoveLabel]; !labelled {
				t.Error("clusterctl move leaves the Secret of the mirror behind")
			}
		})
	}
}

func TestAMachineWaitsForItsSoftware(t *testing.T) {
	byVersion := bootstrapv1.SoftwareSpec{ByVersion: "software"}
	for name, test := range map[string]struct {
		objects      []client.Object
		reason, says string
	}{
		"for the KOKSoftware":        {nil, "SoftwareNotFound", "there is no KOKSoftware software-v1.36.3; make it, for example with: kok software add v1.36.3 --name software-v1.36.3 --namespace team"},
		"for the Secret of a mirror": {[]client.Object{kokSoftware("software-v1.36.3")}, "ReferencedSecretNotFound", "spec.mirrors[0].endpoints[0].secretRef of KOKSoftware software-v1.36.3: there is no Secret mirror"},
		"for a password in a Secret": {[]client.Object{kokSoftware("software-v1.36.3"), mirrorSecret(map[string][]byte{"username": []byte("a")})}, "ReferencedSecretNotFound", "Secret mirror has no key password"},
		"for a Secret that is for a mirror": {[]client.Object{kokSoftware("software-v1.36.3"), &corev1.Secret{
			ObjectMeta: forTenants("mirror"), Type: corev1.SecretTypeOpaque,
			Data: map[string][]byte{"username": []byte("a"), "password": []byte("b")},
		}}, "ReferencedSecretNotFound", "Secret mirror has the type Opaque; a password of a mirror is in one of the type kubernetes.io/basic-auth"},
		"for one of another version": {[]client.Object{kokSoftware("software-v1.36.2")}, "SoftwareNotFound", "software-v1.36.3"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, append(asking(byVersion), test.objects...)...)
			f.mustReconcile()
			f.expectCondition("DataSecretAvailable", metav1.ConditionFalse, test.reason)
			if message := conditions.GetMessage(f.config(), "DataSecretAvailable"); !strings.Contains(message, test.says) {
				t.Errorf("it says %q, want %q", message, test.says)
			}
			if f.tokensCreated > 0 {
				t.Errorf("%d tokens were made", f.tokensCreated)
			}
		})
	}
}

func TestConfigsThatWaitForSoftwareAreWoken(t *testing.T) {
	f := newFixture(t, asking(bootstrapv1.SoftwareSpec{ByVersion: "software"})...)
	for name, want := range map[string]int{"software-v1.36.3": 1, "software-v1.35.4": 1, "other-v1.36.3": 0, "software": 0} {
		got := f.reconciler.softwareToConfigs(t.Context(), kokSoftware(name))
		if len(got) != want || want == 1 && got[0].NamespacedName != key {
			t.Errorf("KOKSoftware %s wakes %v", name, got)
		}
	}
	f = newFixture(t, ready()...)
	if got := f.reconciler.softwareToConfigs(t.Context(), kokSoftware("software-v1.36.3")); len(got) > 0 {
		t.Errorf("a config that asks for no software is woken: %v", got)
	}
}
