package workers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/program"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/mirror"
)

// BareVariables are those of a template whose workers are bare: they install what a KOKSoftware describes, which Describe
// reads from a mirror, and pull images from a mirror.
func BareVariables(m *mirror.Mirror) (map[string]string, error) {
	mirrors, err := json.Marshal(RegistryMirrors(m))
	return map[string]string{
		"KUBE_PROXY_CONNTRACK": "None", // the lab's hosts share the machine's kernel
		"SOFTWARE_MODE":        string(bootstrapv1.SoftwareDescribed),
		"REGISTRY_MIRRORS":     string(mirrors),
	}, err
}

// RegistryMirrors have machines pull all images from a mirror.
func RegistryMirrors(m *mirror.Mirror) []bootstrapv1.RegistryMirror {
	return []bootstrapv1.RegistryMirror{{
		Registry: "_default", Exclusive: ptr.To(true), Endpoints: []bootstrapv1.RegistryEndpoint{{URL: m.URL, CABundle: m.CABundle}},
	}}
}

// Describe is the KOKSoftware that templates ask for by a Kubernetes version, as the program kok makes it of a mirror's files. say gets
// the command before it runs.
func Describe(ctx context.Context, kok string, m *mirror.Mirror, namespace, version string, say func(command string)) (*bootstrapv1.KOKSoftware, error) {
	folder, err := os.MkdirTemp("", "kok-software-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // It is a folder for temporary files.
	authority, config := filepath.Join(folder, "mirror-ca.crt"), filepath.Join(folder, "containerd.toml")
	if err := errors.Join(os.WriteFile(authority, []byte(m.CABundle), 0o600), os.WriteFile(config, []byte(mirror.ContainerdConfig), 0o600)); err != nil {
		return nil, err
	}
	arguments := []string{
		"software", "add", version, "--namespace", namespace, "--from", m.URL, "--exclusive", "--ca-file", authority, "--containerd-config", config,
		"--modules", "overlay", "--dry-run", // Hosts of the lab share the kernel of a machine, which may have no other module.
	}
	say(strings.Join(append([]string{"kok"}, arguments...), " "))
	var progress bytes.Buffer
	add := exec.CommandContext(ctx, kok, arguments...)
	add.Stderr = &progress
	text, err := add.Output()
	if err != nil {
		return nil, fmt.Errorf("kok software add: %w: %s", err, &progress)
	}
	described := &bootstrapv1.KOKSoftware{}
	if err := yaml.UnmarshalStrict(text, described); err != nil {
		return nil, fmt.Errorf("read what kok software add describes: %w", err)
	}
	return described, nil
}

// saysAnnotation is the digest of what a KOKSoftware was made to say, before the API server filled in defaults.
const saysAnnotation = "example.com/says"

// EnsureSoftware makes a KOKSoftware. One of its name that says something else makes room: machines that were made of it have what
// they need.
func EnsureSoftware(ctx context.Context, c client.Client, wanted *bootstrapv1.KOKSoftware) error {
	key := client.ObjectKeyFromObject(wanted)
	text, err := json.Marshal(wanted.Spec)
	if err != nil {
		return err
	}
	says := fmt.Sprintf("%x", sha256.Sum256(text))
	metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, saysAnnotation, says)
	there := &bootstrapv1.KOKSoftware{}
	err = c.Get(ctx, key, there)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get KOKSoftware %s: %w", key, err)
	}
	if err == nil {
		if there.Annotations[saysAnnotation] == says {
			return nil
		}
		if err := c.Delete(ctx, there); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete KOKSoftware %s, which describes what a mirror had before: %w", key, err)
		}
	}
	if err := c.Create(ctx, wanted); err != nil {
		return fmt.Errorf("make KOKSoftware %s: %w", key, err)
	}
	return nil
}

// Installed names what a bare worker installed as a KOKSoftware says.
func Installed(ctx context.Context, h *host.Host) (string, error) {
	answer, err := h.Exec(ctx, nil, software.Program, "status", "--output=json")
	if err != nil {
		return "", fmt.Errorf("ask %s what it installed: %w", h.Name, err)
	}
	status := program.Status{}
	if err := json.Unmarshal(answer, &status); err != nil {
		return "", fmt.Errorf("read what %s installed: %w", h.Name, err)
	}
	var names []string
	for _, component := range status.Components {
		names = append(names, component.Name)
	}
	return strings.Join(names, ", "), nil
}
