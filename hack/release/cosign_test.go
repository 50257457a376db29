//go:build cosign

package main

import (
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/release/oci"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/release/signing"
)

// cosign runs the real program, in a folder, and returns what it says.
func cosign(t *testing.T, folder string, args ...string) (string, error) {
	t.Helper()
	program := os.Getenv("KOK_COSIGN")
	if program == "" {
		t.Fatal("KOK_COSIGN is not set: run make test-signing")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = folder
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// cosignKey has cosign make a key with a password, and returns the folder that its files are in.
func cosignKey(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	if said, err := cosign(t, folder, "generate-key-pair"); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return folder
}

// documented is the command of cosign that docs/install.md has, with other words in the place of some of its own.
func documented(t *testing.T, command string, instead ...string) []string {
	t.Helper()
	page, err := markdown.Read("docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range page.Blocks {
		for line := range strings.Lines(block.Code) {
			if words := strings.Fields(strings.NewReplacer(instead...).Replace(line)); len(words) > 1 && words[0] == "cosign" && words[1] == command {
				return words[1:]
			}
		}
	}
	t.Fatalf("docs/install.md has no cosign %s", command)
	return nil
}

// pushed pushes the images of a release to a new registry.
func pushed(t *testing.T, release string) (address, authorities string) {
	t.Helper()
	server := httptest.NewTLSServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	authorities = filepath.Join(t.TempDir(), "ca.crt")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(authorities, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	transport, err := oci.Transport(authorities)
	if err != nil {
		t.Fatal(err)
	}
	address = strings.TrimPrefix(server.URL, "https://")
	if err := oci.Push(t.Context(), filepath.Join(release, "images"), address+"/kok", transport, authn.DefaultKeychain, func(string) {}); err != nil {
		t.Fatal(err)
	}
	return address, authorities
}

func TestCosignVerifiesARelease(t *testing.T) {
	t.Setenv(signing.PasswordVariable, "secret")
	keys, others := cosignKey(t), cosignKey(t)
	key, err := signing.Read(filepath.Join(keys, "cosign.key"))
	if err != nil {
		t.Fatal(err)
	}
	folder, files := released(t, packages(t), key)

	t.Run("whose public key is the one that cosign wrote", func(t *testing.T) {
		if public, err := os.ReadFile(filepath.Join(keys, "cosign.pub")); err != nil || string(public) != files["cosign.pub"] {
			t.Errorf("%s, not %s, %v", files["cosign.pub"], public, err)
		}
	})
	t.Run("by its sums", func(t *testing.T) { verifySums(t, folder, others, files["SHA256SUMS"]) })
	t.Run("by its images", func(t *testing.T) { verifyImages(t, folder, others) })
}

func verifySums(t *testing.T, folder, others, sums string) {
	verify := func(key, content string) (string, error) {
		file := filepath.Join(t.TempDir(), "SHA256SUMS")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return cosign(t, folder, documented(t, "verify-blob", "cosign.pub", key, " SHA256SUMS\n", " "+file)...)
	}
	changed := []byte(sums)
	changed[0] ^= 1
	for name, test := range map[string]struct{ key, content, refusal string }{
		"that were published":     {"cosign.pub", sums, ""},
		"and not with a byte off": {"cosign.pub", string(changed), "invalid signature"},
		"and not by another key":  {filepath.Join(others, "cosign.pub"), sums, "invalid signature"},
	} {
		t.Run(name, func(t *testing.T) {
			said, err := verify(test.key, test.content)
			expect(t, said, err, "Verified OK", test.refusal)
		})
	}
}

func verifyImages(t *testing.T, folder, others string) {
	address, authorities := pushed(t, folder)
	verify := func(key, image string) (string, error) {
		words := documented(t, "verify", "cosign.pub", key, "registry.example.com", address, managers["bootstrap"]+":v0.2.0", image)
		return cosign(t, folder, append(words, "--registry-cacert", authorities)...)
	}
	for image := range maps.Values(managers) {
		said, err := verify("cosign.pub", image+":v0.2.0")
		expect(t, said, err, "The signatures were verified against the specified public key", "")
		if !strings.Contains(said, `"docker-reference":"registry.example.com/`+image+`:v0.2.0"`) {
			t.Errorf("cosign does not say which image it is:\n%s", said)
		}
	}
	image := managers["bootstrap"]
	t.Run("and not by another key", func(t *testing.T) {
		said, err := verify(filepath.Join(others, "cosign.pub"), image+":v0.2.0")
		expect(t, said, err, "verified", "no matching signatures")
	})
	otherImage := putAnother(t, address, authorities, image)
	t.Run("and not another image that has none", func(t *testing.T) {
		said, err := verify("cosign.pub", image+":other")
		expect(t, said, err, "verified", "no signatures found")
	})
	t.Run("and not another image with a signature that was copied", func(t *testing.T) {
		otherImage.copySignature(t)
		said, err := verify("cosign.pub", image+":other")
		expect(t, said, err, "verified", "invalid or missing digest in claim")
	})
}

// expect wants cosign to say yes, or to refuse with a reason.
func expect(t *testing.T, said string, err error, yes, refusal string) {
	t.Helper()
	as := err == nil && refusal == "" && strings.Contains(said, yes) || err != nil && refusal != "" && strings.Contains(said, refusal)
	if !as {
		t.Errorf("want %q or the refusal %q: %v\n%s", yes, refusal, err, said)
	}
}

// another is an image in the repository of a signed one, with the tag "other".
type another struct {
	signature, own name.Tag
	options        []remote.Option
}

func putAnother(t *testing.T, address, authorities, image string) another {
	t.Helper()
	transport, err := oci.Transport(authorities)
	if err != nil {
		t.Fatal(err)
	}
	repository, err := name.NewRepository(address + "/kok/" + image)
	if err != nil {
		t.Fatal(err)
	}
	options := []remote.Option{remote.WithContext(t.Context()), remote.WithTransport(transport)}
	content, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Push(repository.Tag("other"), content, options...); err != nil {
		t.Fatal(err)
	}
	digest, err := content.Digest()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := remote.Head(repository.Tag("v0.2.0"), options...)
	if err != nil {
		t.Fatal(err)
	}
	return another{repository.Tag(oci.SignatureTag(signed.Digest)), repository.Tag(oci.SignatureTag(digest)), options}
}

// copySignature gives the other image the signature of the signed one.
func (a another) copySignature(t *testing.T) {
	t.Helper()
	signature, err := remote.Image(a.signature, a.options...)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Push(a.own, signature, a.options...); err != nil {
		t.Fatal(err)
	}
}
