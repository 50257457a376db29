// Package oci makes container images of the project's static programs, keeps them in an OCI layout, and pushes them to a
// registry. It needs no container engine. The same programs give the same digests.
package oci

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// nonRoot is the user and group that images run as unless a pod says otherwise. It has no name: the images have no
	// /etc/passwd.
	nonRoot = "65532:65532"
	// certificates is where Go, and most other programs, look for certificate authorities on Linux.
	certificates = "etc/ssl/certs/ca-certificates.crt"
)

// Image is one static program for several architectures of Linux.
type Image struct {
	// Name is the last part of its reference, such as kok-bootstrap-controller; it is the program's name in the image too.
	Name string
	// Programs are the files on this machine, by architecture as Go names it.
	Programs map[string]string
	// Labels are annotations of the OCI image specification, such as org.opencontainers.image.version.
	Labels map[string]string
	// Created is the time that the image claims to be made at. For the same bytes it must not be that of the build.
	Created time.Time
}

// build composes the index of the images of all architectures, in the order that they are given.
func (i Image) build(architectures []string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range architectures {
		program, ok := i.Programs[architecture]
		if !ok {
			return nil, fmt.Errorf("image %s has no program for %s", i.Name, architecture)
		}
		image, err := i.buildFor(architecture, program)
		if err != nil {
			return nil, fmt.Errorf("make image %s for %s: %w", i.Name, architecture, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	return mutate.Annotations(index, i.Labels).(v1.ImageIndex), nil
}

func (i Image) buildFor(architecture, program string) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	common, err := commonFiles()
	if err != nil {
		return nil, err
	}
	executable, err := programFile(i.Name, program)
	if err != nil {
		return nil, err
	}
	for _, files := range [][]byte{common, executable} {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
			tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
		if err != nil {
			return nil, err
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: i.Created}}}); err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", architecture, v1.Time{Time: i.Created}
	config.Config = v1.Config{User: nonRoot, Entrypoint: []string{"/" + i.Name}, WorkingDir: "/", Labels: i.Labels}
	return mutate.ConfigFile(image, config)
}

// commonFiles is the layer that all images share: a folder for temporary files, and the certificate authorities that
// Mozilla trusts, in the state of the module golang.org/x/crypto/x509roots/fallback.
func commonFiles() ([]byte, error) {
	var authorities bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // trusted for some of its certificates only, which a file of certificates cannot say
		}
		if err := pem.Encode(&authorities, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return archive([]tar.Header{
		{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "etc/ssl/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "etc/ssl/certs/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: certificates, Mode: 0o644},
		{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777},
	}, authorities.Bytes())
}

func programFile(name, file string) ([]byte, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return archive([]tar.Header{{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}}, content)
}

// archive is a tar archive of folders and one file with a content. Its files belong to root and have no time.
func archive(headers []tar.Header, content []byte) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		var data []byte
		if h.Typeflag == tar.TypeReg {
			data = content
		}
		h.Size, h.ModTime = int64(len(data)), time.Unix(0, 0)
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
