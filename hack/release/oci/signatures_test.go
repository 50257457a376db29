package oci

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// signed gives a signature that says what is signed.
func signed(content []byte) (string, error) { return base64.StdEncoding.EncodeToString(content), nil }

func TestASignatureIsWhereCosignLooksForIt(t *testing.T) {
	folder, digests := write(t, "a program for ")
	if err := Sign(folder, "registry.example.com/kok", "v1.2.3", digests, signed); err != nil {
		t.Fatal(err)
	}
	r := serve(t)
	if err := r.push(t, folder, "secret"); err != nil {
		t.Fatal(err)
	}
	for image, digest := range digests {
		signature := r.pull(t, image+":sha256-"+digest.Hex+".sig", "")
		manifest, err := signature.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		if len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != "application/vnd.dev.cosign.simplesigning.v1+json" {
			t.Fatalf("the layers are %v", manifest.Layers)
		}
		content, err := base64.StdEncoding.DecodeString(manifest.Layers[0].Annotations["dev.cosignproject.cosign/signature"])
		if err != nil {
			t.Fatal(err)
		}
		want := `{"critical":{"identity":{"docker-reference":"registry.example.com/kok/` + image + `:v1.2.3"},"image":{"docker-manifest-digest":"` +
			digest.String() + `"},"type":"cosign container image signature"},"optional":null}`
		if string(content) != want {
			t.Errorf("signed is %s, not %s", content, want)
		}
		if sum, _, err := v1.SHA256(bytes.NewReader(content)); err != nil || sum != manifest.Layers[0].Digest {
			t.Errorf("the layer %s is not what is signed, %v", manifest.Layers[0].Digest, err)
		}
	}
}

func TestAnImageIsPushedAfterItsSignature(t *testing.T) {
	folder, digests := write(t, "a program for ")
	if err := Sign(folder, "registry.example.com/kok", "v1.2.3", digests, signed); err != nil {
		t.Fatal(err)
	}
	r := serve(t)
	r.login(t, "secret")
	transport, err := Transport(r.authorities)
	if err != nil {
		t.Fatal(err)
	}
	var pushed []string
	tell := func(reference string) {
		name, _, _ := strings.Cut(reference, "@")
		pushed = append(pushed, strings.TrimPrefix(name, r.host+"/kok/"))
	}
	if err := Push(t.Context(), folder, r.host+"/kok", transport, authn.DefaultKeychain, tell); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"first:" + SignatureTag(digests["first"]), "first:v1.2.3", "second:" + SignatureTag(digests["second"]), "second:v1.2.3",
	}
	if !slices.Equal(pushed, want) {
		t.Errorf("pushed were %q, not %q", pushed, want)
	}
}

func TestAFailedSignatureNamesTheImage(t *testing.T) {
	folder, digests := write(t, "a program for ")
	fails := func([]byte) (string, error) { return "", errors.New("the key is gone") }
	if err := Sign(folder, "registry.example.com/kok", "v1.2.3", digests, fails); err == nil || err.Error() != "sign image first: the key is gone" {
		t.Error(err)
	}
	if err := Sign(folder, "REGISTRY/Kok", "v1.2.3", digests, signed); err == nil || !strings.Contains(err.Error(), "sign image first: ") {
		t.Error(err)
	}
}
