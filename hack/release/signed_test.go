package main

import (
	"bytes"
	"crypto"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/release/signing"
)

// packages is the program that makes packages, built.
func packages(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "packages")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program, ".")
	build.Dir, build.Stderr = "../tools/packages", os.Stderr
	if err := build.Run(); err != nil {
		t.Fatal(err)
	}
	return program
}

// newKey is a key that is not encrypted.
func newKey(t *testing.T) *signing.Key {
	t.Helper()
	private, _, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cosign.key")
	if err := os.WriteFile(file, private, 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := signing.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// different are the names of files that one of two releases lacks, or has with another content.
func different(one, other map[string]string) (found []string) {
	all := maps.Clone(one)
	maps.Copy(all, other)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if one[name] != other[name] {
			found = append(found, name)
		}
	}
	return found
}

// checkSignature verifies a signature as sigstore's library does, and that the signature of another content is another.
func checkSignature(t *testing.T, public, inBase64, content string) {
	t.Helper()
	key, err := cryptoutils.UnmarshalPEMToPublicKey([]byte(public))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.LoadVerifier(key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := base64.StdEncoding.DecodeString(inBase64)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.VerifySignature(bytes.NewReader(signed), strings.NewReader(content)); err != nil {
		t.Error(err)
	}
	if err := verifier.VerifySignature(bytes.NewReader(signed), strings.NewReader(content+" ")); err == nil {
		t.Error("another content is verified")
	}
}

// checkSignedImages reads the layout of a release: each image has a signature of its digest.
func checkSignedImages(t *testing.T, files map[string]string) {
	t.Helper()
	read := func(name string, into any) {
		if err := json.Unmarshal([]byte(files[name]), into); err != nil {
			t.Fatal(err)
		}
	}
	var index v1.IndexManifest
	read("images/index.json", &index)
	byName := map[string]v1.Hash{}
	for _, m := range index.Manifests {
		byName[m.Annotations["org.opencontainers.image.ref.name"]] = m.Digest
	}
	for _, image := range managers {
		digest := byName[image+":v0.2.0"]
		var manifest v1.Manifest
		read("images/blobs/sha256/"+byName[image+":sha256-"+digest.Hex+".sig"].Hex, &manifest)
		content := files["images/blobs/sha256/"+manifest.Layers[0].Digest.Hex]
		checkSignature(t, files["cosign.pub"], manifest.Layers[0].Annotations["dev.cosignproject.cosign/signature"], content)
		var claim payload.SimpleContainerImage
		if err := json.Unmarshal([]byte(content), &claim); err != nil {
			t.Fatal(err)
		}
		if claim.Critical.Image.DockerManifestDigest != digest.String() || claim.Critical.Identity.DockerReference != "registry.example.com/"+image+":v0.2.0" {
			t.Errorf("the signature of %s@%s says %+v", image, digest, claim)
		}
	}
}
