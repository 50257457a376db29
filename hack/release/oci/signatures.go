package oci

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

// The form in which cosign finds signatures of an image in any registry:
// https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md.
const (
	simpleSigning       types.MediaType = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureAnnotation string          = "dev.cosignproject.cosign/signature"
)

// SignatureTag is the tag that the signatures of an image have beside it.
func SignatureTag(image v1.Hash) string { return image.Algorithm + "-" + image.Hex + ".sig" }

// Sign adds a signature of each image to an OCI layout. It says that the image is the one of a registry with a tag, and stays
// valid wherever the image is copied to. sign gives the signature of a content, in base64.
func Sign(folder, registry, tag string, digests Digests, sign func(content []byte) (string, error)) error {
	l, err := layout.FromPath(folder)
	if err != nil {
		return fmt.Errorf("read the images in %s: %w", folder, err)
	}
	for _, image := range slices.Sorted(maps.Keys(digests)) {
		signed, err := signature(registry+"/"+image, tag, digests[image], sign)
		if err != nil {
			return fmt.Errorf("sign image %s: %w", image, err)
		}
		named := layout.WithAnnotations(map[string]string{refName: image + ":" + SignatureTag(digests[image])})
		if err := l.AppendImage(signed, named); err != nil {
			return fmt.Errorf("write the signature of image %s: %w", image, err)
		}
	}
	return nil
}

// signature is an image whose one layer is what is signed.
func signature(repository, tag string, digest v1.Hash, sign func(content []byte) (string, error)) (v1.Image, error) {
	reference, err := name.NewDigest(repository + "@" + digest.String())
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(payload.Cosign{Image: reference, ClaimedIdentity: reference.Repository.Name() + ":" + tag})
	if err != nil {
		return nil, err
	}
	signed, err := sign(content)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return mutate.Append(image, mutate.Addendum{
		Layer:       static.NewLayer(content, simpleSigning),
		MediaType:   simpleSigning,
		Annotations: map[string]string{signatureAnnotation: signed},
	})
}
