//go:build envtest

package cli

import (
	"archive/tar"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh/sshtest"
)

// contents are the files of a bundle without their common folder.
func contents(t *testing.T, file string) map[string]string {
	t.Helper()
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close() //nolint:errcheck // Only read.
	plain, err := gzip.NewReader(opened)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(content)
	}
}

// planted are secrets by where they are. None of them may be in a bundle.
var planted = map[string]string{
	"password of a Secret":                 "Correct-Horse-Battery-1",
	"base64 of a password of a Secret":     base64.StdEncoding.EncodeToString([]byte("Correct-Horse-Battery-1")),
	"password that only an Event repeats":  "Event-Repeats-This-22",
	"bootstrap token":                      "k4xq2z.0a1b2c3d4e5f6g7h",
	"file of bootstrap data":               "inline file content",
	"argument of a command":                "hunter2-in-a-command",
	"password in a URL":                    "proxy-password",
	"line of an SSH key":                   "",
	"token in a ConfigMap":                 "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJub2JvZHkifQ.c2lnbmVkLWJ5LW5vYm9keQ",
	"key of a kubeconfig in a ConfigMap":   "c2hvcnQtcHJpdmF0ZS1rZXk=",
	"last applied configuration":           "content-as-it-was-applied",
	"password in the environment of a pod": "environment-password",
	"word of an annotation of a Secret":    "annotated-by-kubectl",
	"token of a service account":           "c2VydmljZS1hY2NvdW50LXRva2VuLVZhbHVlMTIz",
}

// plant makes a site with a secret in every place.
func plant(t *testing.T, s *site, key sshtest.Key) {
	t.Helper()
	s.cluster("blue")
	s.cluster("green")
	ofBlue := map[string]string{clusterv1.ClusterNameLabel: "blue"}
	kubeconfig := "users:\n- name: admin\n  user:\n    token: " + planted["token of a service account"] + "\n"
	for name, data := range map[string]map[string]string{
		"blue-registry": {"username": "kok", "password": planted["password of a Secret"], "other": planted["password that only an Event repeats"]},
		"seven-ssh":     {"ssh-privatekey": string(key.Private)}, "blue-kubeconfig": {"value": kubeconfig},
		"blue-bootstrap": {"value": "#cloud-config\nruncmd: [join --token " + planted["bootstrap token"] + "]\n", "format": "cloud-config"},
	} {
		secret := &corev1.Secret{ObjectMeta: s.named(name), StringData: data}
		secret.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": planted["word of an annotation of a Secret"]}
		s.create(secret)
	}
	config := &bootstrapv1.KOKConfig{ObjectMeta: s.named("blue-a")}
	config.Labels = ofBlue
	config.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": planted["last applied configuration"]}
	config.Spec.Files = []bootstrapv1.File{{Path: "/etc/secret.conf", Content: ptr.To(planted["file of bootstrap data"])}}
	config.Spec.PreKubeletCommands = []string{"login --with " + planted["argument of a command"]}
	config.Spec.Proxy.HTTP = "http://user:" + planted["password in a URL"] + "@proxy.example.com:3128"
	s.create(config)
	other := config.DeepCopy()
	other.ObjectMeta = s.named("green-a")
	other.Labels = map[string]string{clusterv1.ClusterNameLabel: "green"}
	s.create(other)
	host := &infrav1.IDCHost{ObjectMeta: s.named("seven")}
	host.Spec.SSHServer = infrav1.SSHServer{Address: "192.0.2.7", User: "admin", KeySecretRef: infrav1.SecretReference{Name: "seven-ssh"}, HostKeys: []string{key.Public}}
	s.create(host)
	ofTenant := names.ComponentLabels(client.ObjectKey{Namespace: s.namespace, Name: "blue"}, "kube-apiserver")
	settings := &corev1.ConfigMap{ObjectMeta: s.named("blue-settings"), Data: map[string]string{
		"kubeconfig": "client-key-data: " + planted["key of a kubeconfig in a ConfigMap"] + "\n", "note": "use " + planted["token in a ConfigMap"],
	}}
	settings.Labels = ofTenant
	s.create(settings)
	pod := &corev1.Pod{ObjectMeta: s.named("blue-kube-apiserver-x"), Spec: corev1.PodSpec{NodeName: "gone", Containers: []corev1.Container{{
		Name: "kube-apiserver", Image: "registry.k8s.io/kube-apiserver:v1.36.3", Env: []corev1.EnvVar{{Name: "DB_PASSWORD", Value: planted["password in the environment of a pod"]}},
	}}}}
	pod.Labels = ofTenant
	s.create(pod)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "kube-apiserver", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	s.status(pod)
	s.create(&corev1.Pod{ObjectMeta: s.named("of-somebody-else"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}})
	s.create(&corev1.Event{
		ObjectMeta: s.named("blue.1"), Reason: "Failed", Message: "login with " + planted["password that only an Event repeats"] + " failed",
		InvolvedObject: corev1.ObjectReference{Kind: "KOKConfig", APIVersion: bootstrapv1.GroupVersion.String(), Namespace: s.namespace, Name: "blue-a"},
	})
	manager := &appsv1.Deployment{ObjectMeta: s.named("manager")}
	manager.Labels = map[string]string{clusterv1.ProviderNameLabel: "infrastructure-idc"}
	manager.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "manager"}}
	manager.Spec.Template.Labels = manager.Spec.Selector.MatchLabels
	manager.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: "registry.example.com/kok-infrastructure-controller:v1"}}
	manager.Namespace = "default"
	manager.Name = "manager-of-" + s.namespace
	s.create(manager)
	t.Cleanup(func() { _ = environment.Client.Delete(t.Context(), manager) })
}

// viewer lets somebody read Clusters of the namespace, and nothing else.
func (s *site) viewer(user string) {
	s.t.Helper()
	s.create(&rbacv1.Role{ObjectMeta: s.named("viewer"), Rules: []rbacv1.PolicyRule{{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"clusters"}, Verbs: []string{"get", "list"}}}})
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: s.named("viewer"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "viewer"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	})
	// The API server learns of them some moments later.
	s.until(func() bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: s.namespace, Verb: "list", Group: clusterv1.GroupVersion.Group, Resource: "clusters",
		}}}
		s.create(review)
		return review.Status.Allowed
	})
}

func TestABundleExplainsAndHasNoSecrets(t *testing.T) {
	s := newSite(t)
	key := sshtest.NewKey(t)
	lines := strings.Split(string(key.Private), "\n")
	planted["line of an SSH key"] = lines[1]
	plant(t, s, key)
	output := filepath.Join(t.TempDir(), "blue.tar.gz")
	s.expect(1, []string{output, "Not in it: read logs/" + s.namespace + "/blue-kube-apiserver-x/kube-apiserver.log: ", "things could not be read"}, "support-bundle", "blue", "--output", output)
	files := contents(t, output)

	t.Run("no planted secret is in it", func(t *testing.T) {
		for name, content := range files {
			for where, secret := range planted {
				if strings.Contains(content, secret) {
					t.Errorf("the %s is in %s", where, name)
				}
			}
			for _, line := range lines[1 : len(lines)-2] {
				if strings.Contains(content, line) {
					t.Errorf("a line of the key is in %s", name)
				}
			}
			if strings.Contains(content, "managedFields") {
				t.Errorf("who set which field is in %s", name)
			}
		}
	})
	t.Run("what explains is in it", func(t *testing.T) {
		objects := "objects/" + s.namespace + "/"
		for name, parts := range map[string][]string{
			objects + "clusters.cluster.x-k8s.io.yaml":                      {"name: blue"},
			objects + "kokcontrolplanes.controlplane.cluster.x-k8s.io.yaml": {"version: v1.36.3"},
			objects + "kokconfigs.bootstrap.cluster.x-k8s.io.yaml":          {"/etc/secret.conf", "<redacted> (19 bytes)", "proxy.example.com:3128"},
			objects + "idchosts.infrastructure.cluster.x-k8s.io.yaml":       {"192.0.2.7", "name: seven-ssh"},
			objects + "pods.yaml":                   {"blue-kube-apiserver-x", "registry.k8s.io/kube-apiserver:v1.36.3"},
			objects + "configmaps.yaml":             {"blue-settings"},
			"objects/default/deployments.apps.yaml": {"manager-of-" + s.namespace},
			"events/" + s.namespace + ".yaml":       {"login with <redacted> failed"},
			"status/" + s.namespace + "/blue.txt":   {"Cluster " + s.namespace + "/blue: not available"},
			"versions.txt":                          {"kok: ", "API server: v1.", "registry.example.com/kok-infrastructure-controller:v1"},
			"definitions.txt":                       {"idchosts.infrastructure.cluster.x-k8s.io: stored as v1alpha1"},
			"secrets.yaml":                          {"name: blue-registry", "type: Opaque", "bytes: 23\n    key: password", "key: value\n"},
			// Its node is gone.
			"errors.txt": {"logs/" + s.namespace + "/blue-kube-apiserver-x/kube-apiserver.log"},
		} {
			for _, part := range parts {
				if !strings.Contains(files[name], part) {
					t.Errorf("%s has no %q:\n%.2000s", name, part, files[name])
				}
			}
		}
		if t.Failed() {
			t.Errorf("the files are %q", slices.Sorted(maps.Keys(files)))
		}
	})
	t.Run("and what belongs to others is not", func(t *testing.T) {
		for name, content := range files {
			if strings.Contains(content, "green") || strings.Contains(content, "of-somebody-else") {
				t.Errorf("it is in %s", name)
			}
		}
	})
	t.Run("a file that is there is not overwritten", func(t *testing.T) {
		s := s.in(t)
		before, err := os.Stat(output)
		if err != nil {
			t.Fatal(err)
		}
		s.expect(2, []string{"is there already, and nothing is overwritten"}, "support-bundle", "blue", "--output", output)
		if after, err := os.Stat(output); err != nil || after.Size() != before.Size() || after.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", after, err)
		}
	})
	t.Run("without names every cluster is in it", func(t *testing.T) {
		s := s.in(t)
		all := filepath.Join(t.TempDir(), "all.tar.gz")
		s.expect(1, nil, "support-bundle", "--output", all)
		if found := contents(t, all)["objects/"+s.namespace+"/clusters.cluster.x-k8s.io.yaml"]; !strings.Contains(found, "name: green") || !strings.Contains(found, "name: blue") {
			t.Errorf("%s", found)
		}
	})
	t.Run("a cluster that is not there makes none", func(t *testing.T) {
		s := s.in(t)
		none := filepath.Join(t.TempDir(), "none.tar.gz")
		s.expect(2, []string{"has neither a Cluster none nor pods of its control plane"}, "support-bundle", "none", "--output", none)
		if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v", err)
		}
	})
	t.Run("and one that has everything is no bad news", func(t *testing.T) {
		s := s.in(t)
		whole := filepath.Join(t.TempDir(), "whole.tar.gz")
		s.expect(0, []string{whole}, "support-bundle", "blue", "--output", whole, "--log-lines", "0")
		if errors := contents(t, whole)["errors.txt"]; errors != "Everything was read.\n" {
			t.Errorf("%s", errors)
		}
	})
	t.Run("who may not read Secrets gets one all the same", func(t *testing.T) {
		s := s.in(t)
		limited := filepath.Join(t.TempDir(), "limited.tar.gz")
		s.viewer("viewer")
		s.expect(1, []string{"things could not be read"}, "support-bundle", "blue", "--output", limited, "--as", "viewer")
		files := contents(t, limited)
		if !strings.Contains(files["errors.txt"], "secrets in namespace "+s.namespace) || files["secrets.yaml"] != "" || !strings.Contains(files["objects/"+s.namespace+"/clusters.cluster.x-k8s.io.yaml"], "name: blue") {
			t.Errorf("%s", files["errors.txt"])
		}
	})
}
