package main

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterctlconfig "sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/release/signing"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// released is a release of which every program is the packager, and each of its files by its path. Without a key it is not signed.
func released(t *testing.T, packager string, key *signing.Key) (folder string, files map[string]string) {
	t.Helper()
	var programs []binary
	for _, name := range append(slices.Sorted(maps.Values(managers)), agent, nodeKeys, balancer, tool, installer) {
		for _, architecture := range architectures {
			programs = append(programs, binary{name, "linux", architecture, packager})
		}
	}
	programs = append(programs, binary{balancer, "darwin", "arm64", packager}, binary{tool, "darwin", "arm64", packager})
	folder = filepath.Join(t.TempDir(), "release")
	r := release{root: "../..", out: folder, version: "v0.2.0", registry: "registry.example.com", packager: packager, key: key, made: time.Unix(1e9, 0)}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.write(t.Context(), programs); err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, folder+"/")] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return folder, files
}

func TestARelease(t *testing.T) {
	sample.OneIn(t, 4, "it builds every program twice, for minutes")
	packager := packages(t)
	folder, files := released(t, packager, nil)
	_, signed := released(t, packager, newKey(t))

	t.Run("has the same bytes when it is made again, signatures aside", func(t *testing.T) {
		want := []string{"SHA256SUMS", "SHA256SUMS.sig", "cosign.pub", "images/index.json"}
		diff := slices.DeleteFunc(different(files, signed), func(file string) bool { return files[file] == "" && strings.HasPrefix(file, "images/blobs/") })
		if !slices.Equal(diff, want) {
			t.Errorf("these differ: %q, want %q", diff, want)
		}
	})
	t.Run("has a signature of its sums", func(t *testing.T) {
		checkSignature(t, signed["cosign.pub"], signed["SHA256SUMS.sig"], signed["SHA256SUMS"])
		if sums := signed["SHA256SUMS"]; strings.Contains(sums, "SHA256SUMS") || !strings.Contains(sums, "  cosign.pub\n") {
			t.Errorf("SHA256SUMS is\n%s", sums)
		}
	})
	t.Run("has a signature of each image", func(t *testing.T) { checkSignedImages(t, signed) })
	t.Run("has what is published", func(t *testing.T) {
		for _, name := range []string{
			"images/index.json", "kok-apiserver-lb-linux-amd64", "kok-apiserver-lb-linux-arm64", "kok-apiserver-lb_0.2.0-1_amd64.deb",
			"kok-apiserver-lb_0.2.0-1_arm64.deb", "kok-apiserver-lb-0.2.0-1.x86_64.rpm", "kok-apiserver-lb-0.2.0-1.aarch64.rpm",
			"kok-apiserver-lb-v0.2.0-darwin-arm64.tar.gz", "kok-v0.2.0-linux-amd64.tar.gz", "kok-v0.2.0-linux-arm64.tar.gz",
			"kok-v0.2.0-darwin-arm64.tar.gz", "kok-linux-amd64.cdx.json", "kok-controlplane-controller-linux-amd64.cdx.json",
			"kok-etcd-agent-linux-amd64.cdx.json", "kok-etcd-agent-linux-arm64.cdx.json", "kok-node-keys-linux-arm64.cdx.json", "kok-software-linux-amd64", "kok-software-linux-arm64", "kok-software-linux-arm64.cdx.json",
			"repository/infrastructure-idc/v0.2.0/cluster-template.yaml", "repository/control-plane-kok/v0.2.0/versions.yaml",
			"clusterctl.yaml",
		} {
			if files[name] == "" {
				t.Errorf("%s is not there, but %q", name, slices.Sorted(maps.Keys(files)))
			}
		}
	})
	t.Run("has archives for machines of administrators that tar unpacks", func(t *testing.T) {
		for archive, want := range map[string][]string{
			"kok-v0.2.0-linux-amd64.tar.gz":              {"LICENSE", "kok", "kubectl-kok", "kubectl_complete-kok"},
			"kok-apiserver-lb-v0.2.0-linux-arm64.tar.gz": {"LICENSE", "kok-apiserver-lb", "kok-apiserver-lb.service", "kok-apiserver-lb@.service"},
		} {
			unpacked := t.TempDir()
			if output, err := exec.CommandContext(t.Context(), "tar", "--extract", "--file", filepath.Join(folder, archive), "--directory", unpacked).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", archive, err, output)
			}
			entries, err := os.ReadDir(unpacked)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, entry := range entries {
				info, err := entry.Info()
				if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || strings.Contains(entry.Name(), "kubectl") && info.Mode().Perm()&0o100 == 0 {
					t.Errorf("%s in %s: %v, %v", entry.Name(), archive, info, err)
				}
				names = append(names, entry.Name())
			}
			if !slices.Equal(names, want) {
				t.Errorf("%s has %q, want %q", archive, names, want)
			}
		}
	})
	t.Run("has sums that sha256sum checks", func(t *testing.T) {
		if lines := strings.Count(files["SHA256SUMS"], "\n"); lines != len(files)-1 {
			t.Errorf("SHA256SUMS has %d lines for %d files", lines, len(files)-1)
		}
		check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
		check.Dir = folder
		if output, err := check.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, output)
		}
	})
	t.Run("names images by their digests", func(t *testing.T) {
		for _, file := range []string{
			"control-plane-kok/v0.2.0/control-plane", "bootstrap-kok/v0.2.0/bootstrap", "infrastructure-idc/v0.2.0/infrastructure",
		} {
			image := managerPod(t, components(t, filepath.Join(folder, "repository", file+"-components.yaml"))).Containers[0].Image
			name, digest, _ := strings.Cut(strings.TrimPrefix(image, "registry.example.com/"), "@sha256:")
			if !slices.Contains(slices.Collect(maps.Values(managers)), name) || files["images/blobs/sha256/"+digest] == "" {
				t.Errorf("%s has the image %s", file, image)
			}
		}
		all := managerPod(t, components(t, filepath.Join(folder, "repository/control-plane-kok/v0.2.0/control-plane-components.yaml"))).Containers[0].Args
		for flag, name := range imagesInArguments {
			_, digest, _ := strings.Cut(imageIn(all, flag), "registry.example.com/"+name+"@sha256:")
			if files["images/blobs/sha256/"+digest] == "" {
				t.Errorf("the arguments lack the image of %s: %q", name, all)
			}
		}
	})
	t.Run("takes a registry and the Secret for it from variables", func(t *testing.T) {
		file := filepath.Join(folder, "repository/bootstrap-kok/v0.2.0/bootstrap-components.yaml")
		all := componentsWith(t, file, map[string]string{"KOK_IMAGE_REGISTRY": "mirror.example.com/kok", "KOK_IMAGE_PULL_SECRET": "registry"})
		pod := managerPod(t, all)
		if !strings.HasPrefix(pod.Containers[0].Image, "mirror.example.com/kok/kok-bootstrap-controller@sha256:") {
			t.Errorf("the image is %s", pod.Containers[0].Image)
		}
		mirrored := map[string]string{"KOK_IMAGE_REGISTRY": "mirror.example.com/kok"}
		controlPlane := componentsWith(t, filepath.Join(folder, "repository/control-plane-kok/v0.2.0/control-plane-components.yaml"), mirrored)
		for flag, name := range imagesInArguments {
			if got := imageIn(managerPod(t, controlPlane).Containers[0].Args, flag); !strings.HasPrefix(got, "mirror.example.com/kok/"+name+"@sha256:") {
				t.Errorf("the image of %s is %s", name, got)
			}
		}
		if got, want := pullSecrets(t, all), []corev1.LocalObjectReference{{Name: "registry"}}; !slices.Equal(got, want) {
			t.Errorf("the Secrets are %v, want %v", got, want)
		}
		// kubelet passes over a Secret without a name.
		if without := pullSecrets(t, components(t, file)); !slices.Equal(without, []corev1.LocalObjectReference{{}}) {
			t.Errorf("without variables the Secrets are %v", without)
		}
	})
	t.Run("lists the images of every supported version", func(t *testing.T) {
		for _, want := range []string{
			"registry.example.com/kok-bootstrap-controller@sha256:", "registry.example.com/kok-etcd-agent@sha256:", "registry.example.com/kok-node-keys@sha256:", "registry.k8s.io/kube-apiserver:v1.34.", "registry.k8s.io/kube-proxy:v1.35.",
			"registry.k8s.io/etcd:" + versions.BuiltIn().Newest().Etcd + "\n", "registry.k8s.io/kube-scheduler:v1.36.",
		} {
			if !strings.Contains(files["images.txt"], want) {
				t.Errorf("images.txt lacks %s:\n%s", want, files["images.txt"])
			}
		}
		sections := strings.Split(files["images.txt"], "\n# Kubernetes ")[1:]
		if len(sections) != len(versions.BuiltIn().Minors()) {
			t.Errorf("images.txt has %d sections, and there are %q", len(sections), versions.BuiltIn().Minors())
		}
		for i, section := range sections {
			if pause := "\nregistry.k8s.io/pause:" + pauseTags[versions.BuiltIn().Minors()[i]] + "\n"; strings.Count(section, pause) != 1 {
				t.Errorf("images.txt lacks %s in:\n%s", pause, section)
			}
		}
	})
	t.Run("is read by clusterctl where it is", func(t *testing.T) {
		t.Setenv("KOK_RELEASE", folder)
		config, err := clusterctlconfig.New(t.Context(), filepath.Join(folder, "clusterctl.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		all, err := config.Providers().List()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"cluster-api", "kok", "idc"} {
			here := func(p clusterctlconfig.Provider) bool {
				return p.Name() == name && strings.HasPrefix(p.URL(), "file://"+folder) && files[strings.TrimPrefix(p.URL(), "file://"+folder+"/")] != ""
			}
			if !slices.ContainsFunc(all, here) {
				t.Errorf("it has no provider %s of this release", name)
			}
		}
	})
	t.Run("has a bill of the materials that the program says", func(t *testing.T) {
		text := files["kok-bootstrap-controller-linux-arm64.cdx.json"]
		for _, want := range []string{`"bomFormat": "CycloneDX"`, `"purl": "pkg:golang/github.com/goreleaser/nfpm/v2@v`, `"name": "std"`, `"version": "v0.2.0"`} {
			if !strings.Contains(text, want) {
				t.Errorf("it lacks %s:\n%.500s", want, text)
			}
		}
	})
	t.Run("has packages of Debian that dpkg reads", func(t *testing.T) {
		dpkg, err := exec.LookPath("dpkg-deb")
		if err != nil {
			t.Skip("Debian alone has dpkg-deb, and unit tests run on any Linux: ", err)
		}
		output, err := exec.CommandContext(t.Context(), dpkg, "--contents", filepath.Join(folder, "kok-apiserver-lb_0.2.0-1_amd64.deb")).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		for _, want := range []string{"-rwxr-xr-x root/root", "./usr/bin/kok-apiserver-lb", "./usr/lib/systemd/system/kok-apiserver-lb.service", "./usr/lib/systemd/user/kok-apiserver-lb@.service", "./var/lib/kubelet/pki/"} {
			if !strings.Contains(string(output), want) {
				t.Errorf("the package lacks %s:\n%s", want, output)
			}
		}
	})
}

// imagesInArguments are the images that the manager of control planes is told of, by its flags.
var imagesInArguments = map[string]string{"etcd-agent-image": "kok-etcd-agent", "node-keys-image": "kok-node-keys"}

// imageIn is the image of a flag in the arguments of a manager.
func imageIn(args []string, flag string) string {
	for _, arg := range args {
		if image, ok := strings.CutPrefix(arg, "--"+flag+"="); ok {
			return image
		}
	}
	return ""
}

// managerPod is the pod of the one Deployment among components.
func managerPod(t *testing.T, components []unstructured.Unstructured) corev1.PodSpec {
	t.Helper()
	for _, object := range components {
		if object.GetKind() != "Deployment" {
			continue
		}
		deployment := appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
			t.Fatal(err)
		}
		return deployment.Spec.Template.Spec
	}
	t.Fatal("there is no Deployment")
	return corev1.PodSpec{}
}

// pullSecrets are those with which a manager's images are pulled.
func pullSecrets(t *testing.T, components []unstructured.Unstructured) []corev1.LocalObjectReference {
	t.Helper()
	i := slices.IndexFunc(components, func(object unstructured.Unstructured) bool { return object.GetKind() == "ServiceAccount" })
	account := corev1.ServiceAccount{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(components[i].Object, &account); err != nil {
		t.Fatal(err)
	}
	if pod := managerPod(t, components); pod.ServiceAccountName != account.Name || len(pod.ImagePullSecrets) > 0 {
		t.Errorf("the pod is of ServiceAccount %s, and there is %s; it has Secrets of its own: %v", pod.ServiceAccountName, account.Name, pod.ImagePullSecrets)
	}
	return account.ImagePullSecrets
}

func TestAKeyThatCannotSignIsRefusedBeforeAnythingIsBuilt(t *testing.T) {
	out := filepath.Join(t.TempDir(), "release")
	cmd := buildCommand()
	cmd.SetArgs([]string{"--root=../..", "--version=v0.2.0", "--out=" + out, "--signing-key=../../LICENSE"})
	cmd.SetErr(io.Discard)
	cmd.SetOut(io.Discard)
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "SIGNING_KEY=../../LICENSE has no private key") {
		t.Error(err)
	}
	for _, folder := range []string{out, out + ".programs"} {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", folder, err)
		}
	}
}

func TestAVersionThatClusterctlWouldRefuseIsRefused(t *testing.T) {
	for version, want := range map[string]string{
		"0.2.0": "write it as v0.2.0", "v0.2": "write it as v0.2.0", "latest": "write it as v0.2.0",
		"v7.0.0": "metadata.yaml has no releaseSeries for v7.0", "v0.2.0": "", "v0.1.3-rc.1": "",
	} {
		err := release{root: "../..", version: version}.check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("VERSION=%s: %v", version, err)
		}
	}
}
