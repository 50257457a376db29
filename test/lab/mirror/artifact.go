package mirror

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// artifactsServer is the registry that artifacts are named by. The mirror stands for it, too.
const artifactsServer = "artifacts.example.com"

// ArtifactPath is where the registry of a mirror has the file of an artifact, as Asked wants it.
func ArtifactPath(component string) string { return "/v2/software/" + component + "/blobs/" }

// AsArtifact has hosts with Debian 13 get a component as an OCI artifact from the registry of this mirror. All others get it from
// where its last variant says, whose archive has to be one file.
func (m *Mirror) AsArtifact(ctx context.Context, software *bootstrapv1.KOKSoftware, component string) error {
	at := slices.IndexFunc(software.Spec.Components, func(c bootstrapv1.SoftwareComponent) bool { return c.Name == component })
	if at < 0 {
		return fmt.Errorf("KOKSoftware %s has no component %s", software.Name, component)
	}
	c := &software.Spec.Components[at]
	artifact := c.Variants[len(c.Variants)-1].DeepCopy()
	content, err := m.read(ctx, artifact.Archive.URLs[0])
	if err != nil {
		return err
	}
	const tag = ":v1"
	repository := "software/" + component
	if err := m.pushArtifact(ctx, repository+tag, content); err != nil {
		return fmt.Errorf("push %s to the mirror: %w", repository, err)
	}
	artifact.Match = debian13
	artifact.Archive.URLs, artifact.Archive.Image = nil, artifactsServer+"/"+repository+tag
	c.Variants = append([]bootstrapv1.SoftwareVariant{*artifact}, c.Variants...)
	software.Spec.Mirrors = append(software.Spec.Mirrors, bootstrapv1.SoftwareMirror{
		Prefix: artifactsServer, Exclusive: ptr.To(true), Endpoints: []bootstrapv1.SoftwareEndpoint{{URL: m.registry(), CABundle: m.CABundle}},
	})
	return nil
}

// read is what the mirror has for a URL of upstream.
func (m *Mirror) read(ctx context.Context, url string) ([]byte, error) {
	file, err := m.get(ctx, url)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	return io.ReadAll(io.LimitReader(file, maxFile))
}

// pushArtifact pushes an artifact whose one layer is a file.
func (m *Mirror) pushArtifact(ctx context.Context, reference string, content []byte) error {
	artifact, err := mutate.AppendLayers(empty.Image, static.NewLayer(content, types.OCILayer))
	if err != nil {
		return err
	}
	to, err := name.ParseReference(m.registry() + "/" + reference)
	if err != nil {
		return err
	}
	return remote.Write(to, artifact, remote.WithContext(ctx), remote.WithTransport(m.client.Transport))
}
