package fetch

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// blob finds the layer of an OCI artifact that has a SHA-256: the address to get it from, and the transport that may.
func blob(ctx context.Context, s source, base http.RoundTripper, sha256sum string) (string, http.RoundTripper, error) {
	options := []name.Option{name.StrictValidation}
	if s.url.Scheme == "http" {
		options = append(options, name.Insecure)
	}
	reference, err := name.ParseReference(s.url.Host+s.url.Path, options...)
	if err != nil {
		return "", nil, finalError{err}
	}
	who := authn.Anonymous
	if s.username != "" {
		who = &authn.Basic{Username: s.username, Password: s.password}
	}
	repository := reference.Context()
	authorized, err := transport.NewWithContext(ctx, repository.Registry, who, base, []string{repository.Scope(transport.PullScope)})
	if err != nil {
		return "", nil, err
	}
	if err := findLayer(ctx, reference, authorized, sha256sum); err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("%s://%s/v2/%s/blobs/sha256:%s", s.url.Scheme, repository.RegistryStr(), repository.RepositoryStr(), sha256sum), authorized, nil
}

// maxPlatforms is how many manifests of an index are read.
const maxPlatforms = 16

// findLayer wants an artifact to have a layer. An index is searched for this machine's architecture, or as a whole if it
// names none.
func findLayer(ctx context.Context, reference name.Reference, authorized http.RoundTripper, sha256sum string) error {
	options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(authorized)}
	found, err := remote.Get(reference, options...)
	if err != nil {
		return err
	}
	if !found.MediaType.IsIndex() {
		image, err := found.Image()
		if err != nil {
			return err
		}
		return hasLayer(image, sha256sum)
	}
	index, err := found.ImageIndex()
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	read := 0
	for _, child := range manifest.Manifests {
		if child.Platform != nil && child.Platform.Architecture != runtime.GOARCH && child.Platform.Architecture != "" || !child.MediaType.IsImage() {
			continue
		}
		if read++; read > maxPlatforms {
			break
		}
		image, err := index.Image(child.Digest)
		if err != nil {
			return err
		}
		if err := hasLayer(image, sha256sum); err == nil {
			return nil
		}
	}
	return finalError{fmt.Errorf("the artifact has no layer with the SHA-256 %s for %s", sha256sum, runtime.GOARCH)}
}

func hasLayer(image v1.Image, sha256sum string) error {
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	var has []string
	for _, layer := range manifest.Layers {
		if layer.Digest.Algorithm == "sha256" && layer.Digest.Hex == sha256sum {
			return nil
		}
		has = append(has, fmt.Sprintf("%.12s", layer.Digest.Hex))
	}
	return finalError{fmt.Errorf("the artifact has no layer with the SHA-256 %s, but %s", sha256sum, strings.Join(has[:min(len(has), 5)], ", "))}
}
