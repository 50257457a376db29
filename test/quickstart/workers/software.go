package workers

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/program"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/mirror"
)

// BareVariables are those of a template whose workers are bare: they install what a KOKSoftware describes, which Describe makes,
// and pull images from a mirror.
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

// Describe makes the KOKSoftware that templates ask for by a Kubernetes version, as a mirror has it.
func Describe(ctx context.Context, c client.Client, m *mirror.Mirror, namespace, version string) error {
	wanted, err := m.Software(ctx, namespace, bootstrapv1.DefaultSoftwareByVersion, version)
	if err != nil {
		return err
	}
	return describe(ctx, c, wanted)
}

// saysAnnotation is the digest of what a KOKSoftware was made to say, before the API server filled in defaults.
const saysAnnotation = "example.com/says"

// describe makes a KOKSoftware. One of its name that says something else makes room: machines that were made of it have what
// they need.
func describe(ctx context.Context, c client.Client, wanted *bootstrapv1.KOKSoftware) error {
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
