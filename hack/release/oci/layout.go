package oci

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// refName is the annotation of an OCI layout that names what it holds, here such as kok-bootstrap-controller:v0.2.0.
const refName = "org.opencontainers.image.ref.name"

// Digests are those of images for all their architectures, by the images' names.
type Digests map[string]v1.Hash

// Write writes images to a new OCI layout in a folder, each with a tag, and returns their digests.
// What was in the folder before is gone.
func Write(folder, tag string, architectures []string, images []Image) (Digests, error) {
	if err := os.RemoveAll(folder); err != nil {
		return nil, err
	}
	l, err := layout.Write(folder, empty.Index)
	if err != nil {
		return nil, fmt.Errorf("begin an OCI layout: %w", err)
	}
	digests := Digests{}
	for _, image := range images {
		index, err := image.build(architectures)
		if err != nil {
			return nil, err
		}
		if digests[image.Name], err = index.Digest(); err != nil {
			return nil, err
		}
		if err := l.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: image.Name + ":" + tag})); err != nil {
			return nil, fmt.Errorf("write image %s: %w", image.Name, err)
		}
	}
	return digests, nil
}

// Push pushes all images of an OCI layout and their signatures to a registry, with their tags, and tells of each when it is
// there. What the registry has already is not sent again, so a push that was interrupted goes on where it was.
func Push(ctx context.Context, folder, registry string, through http.RoundTripper, keychain authn.Keychain, pushed func(reference string)) error {
	l, err := layout.FromPath(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there are no images in %s: make release writes them", folder)
	}
	if err != nil {
		return fmt.Errorf("read the images in %s: %w", folder, err)
	}
	all, err := contents(l)
	if err != nil {
		return fmt.Errorf("read the images in %s: %w", folder, err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(through), remote.WithAuthFromKeychain(keychain)}
	// The order of names has an image's signature before its tag: nobody finds the image there without the signature.
	for _, tagged := range slices.Sorted(maps.Keys(all)) {
		reference, err := name.NewTag(registry + "/" + tagged)
		if err != nil {
			return fmt.Errorf("REGISTRY=%s: %w", registry, err)
		}
		child, err := find(l, all[tagged])
		if err != nil {
			return fmt.Errorf("read image %s in %s: %w", tagged, folder, err)
		}
		if err := remote.Push(reference, child, options...); err != nil {
			return fmt.Errorf("push %s: %w%s", reference, err, wayOut(err, reference.RegistryStr()))
		}
		pushed(fmt.Sprintf("%s@%s", reference, all[tagged].Digest))
	}
	return nil
}

// wayOut says what a person can do about a registry that did not take an image.
func wayOut(err error, registry string) string {
	var refused *transport.Error
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &refused) && (refused.StatusCode == http.StatusUnauthorized || refused.StatusCode == http.StatusForbidden):
		return fmt.Sprintf("; docker's configuration file, in the folder DOCKER_CONFIG or ~/.docker, has to have a user and a password for %s that may push", registry)
	case errors.As(err, &unknown):
		return "; CA_FILE=... names the file with the registry's certificate authorities"
	}
	return ""
}

// contents is what a layout holds, by name and tag.
func contents(l layout.Path) (map[string]v1.Descriptor, error) {
	index, err := l.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	found := map[string]v1.Descriptor{}
	for _, m := range manifest.Manifests {
		found[m.Annotations[refName]] = m
	}
	return found, nil
}

// find reads an image for all architectures, or a signature.
func find(l layout.Path, described v1.Descriptor) (remote.Taggable, error) {
	if described.MediaType.IsImage() {
		return l.Image(described.Digest)
	}
	index, err := l.ImageIndex()
	if err != nil {
		return nil, err
	}
	return index.ImageIndex(described.Digest)
}

// Transport is how a registry is reached: by TLS, with the certificate authorities of the system and those of a file, if any.
func Transport(authorities string) (http.RoundTripper, error) {
	byTLS := remote.DefaultTransport.(*http.Transport).Clone()
	if authorities == "" {
		return onlyTLS{byTLS}, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the system's certificate authorities: %w", err)
	}
	certificates, err := os.ReadFile(authorities)
	if err != nil {
		return nil, fmt.Errorf("read the registry's certificate authorities: %w", err)
	}
	if !pool.AppendCertsFromPEM(certificates) {
		return nil, fmt.Errorf("%s has no certificate in PEM format", authorities)
	}
	byTLS.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return onlyTLS{byTLS}, nil
}

// onlyTLS keeps passwords to registries with TLS: the library tries plain HTTP with private addresses otherwise.
type onlyTLS struct{ http.RoundTripper }

func (t onlyTLS) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" {
		return nil, fmt.Errorf("%s is asked by TLS alone", request.URL.Host)
	}
	return t.RoundTripper.RoundTrip(request)
}
