package mirror

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

const (
	suite     = "stable"
	component = "main"
	index     = component + "/binary-amd64/Packages"
)

// Repository is a signed repository of apt, as https://wiki.debian.org/DebianRepository/Format has it.
type Repository struct {
	// Key is the armored public key that signs it.
	Key    string
	folder string
}

// Source is the line of sources.list for the repository on a mirror. There is no TLS: apt checks signatures.
func (m *Mirror) Source() string { return "deb " + m.PlainURL + "/apt " + suite + " " + component }

// WriteRepository writes a repository with packages into a folder, signed by a key of its own.
func WriteRepository(ctx context.Context, folder string, packages ...string) (*Repository, error) {
	var list bytes.Buffer
	for _, file := range packages {
		if err := addPackage(ctx, folder, file, &list); err != nil {
			return nil, fmt.Errorf("put %s into a repository of apt: %w", filepath.Base(file), err)
		}
	}
	release := fmt.Sprintf("Origin: lab\nSuite: %[1]s\nCodename: %[1]s\nDate: %[2]s\nArchitectures: amd64\nComponents: %[3]s\nSHA256:\n %[4]x %[5]d %[6]s\n",
		suite, time.Now().UTC().Format("Mon, 02 Jan 2006 15:04:05 UTC"), component, sha256.Sum256(list.Bytes()), list.Len(), index)
	key, signed, err := sign([]byte(release))
	if err != nil {
		return nil, fmt.Errorf("sign a repository of apt: %w", err)
	}
	dists := filepath.Join(folder, "dists", suite)
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dists, index)), 0o755); err != nil {
		return nil, err
	}
	return &Repository{Key: key, folder: folder}, errors.Join(
		os.WriteFile(filepath.Join(dists, index), list.Bytes(), 0o644), os.WriteFile(filepath.Join(dists, "InRelease"), signed, 0o644))
}

// addPackage puts a package into the pool, and its paragraph into the index.
func addPackage(ctx context.Context, folder, file string, index *bytes.Buffer) error {
	fields, err := exec.CommandContext(ctx, "dpkg-deb", "--field", file).Output()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	pooled := path.Join("pool", component, filepath.Base(file))
	if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, pooled)), 0o755); err != nil {
		return err
	}
	fmt.Fprintf(index, "%s\nFilename: %s\nSize: %d\nSHA256: %x\n\n", strings.TrimSpace(string(fields)), pooled, len(content), sha256.Sum256(content))
	return os.WriteFile(filepath.Join(folder, pooled), content, 0o644)
}

// sign signs a text with a new key, whose public half it returns in armor.
func sign(content []byte) (key string, signed []byte, err error) {
	settings := &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, DefaultHash: crypto.SHA512}
	entity, err := openpgp.NewEntity("Repository of the lab", "", "", settings)
	if err != nil {
		return "", nil, err
	}
	var public, text bytes.Buffer
	armored, err := armor.Encode(&public, openpgp.PublicKeyType, nil)
	if err != nil {
		return "", nil, err
	}
	if err := errors.Join(entity.Serialize(armored), armored.Close()); err != nil {
		return "", nil, err
	}
	w, err := clearsign.Encode(&text, entity.PrivateKey, settings)
	if err != nil {
		return "", nil, err
	}
	if _, err := w.Write(content); err != nil {
		return "", nil, err
	}
	if err := w.Close(); err != nil {
		return "", nil, err
	}
	return public.String() + "\n", text.Bytes(), nil
}
