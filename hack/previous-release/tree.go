package previousrelease

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tree is the source of a release.
type Tree struct {
	// Folder is its top folder.
	Folder string
	// Version is that of the providers, Registry and Tag are those of their images.
	Version, Registry, Tag string
}

// Programs is the folder that Build writes to.
func (t Tree) Programs() string { return filepath.Join(t.Folder, "bin") }

// Build builds the managers and kok-apiserver-lb. What is up to date is not built again.
func (t Tree) Build(ctx context.Context) error {
	// Settings of a make that runs this are none of the tree's.
	env := []string{"MAKEFLAGS=", "MFLAGS=", "MAKEOVERRIDES=", "MAKELEVEL="}
	_, err := run(ctx, t.Folder, env, "make", "build", "VERSION="+t.Version)
	return err
}

// WriteManifests adds the release to the clusterctl repository in a folder, beside those that are there. The folder's
// clusterctl.yaml names the release that was written last.
func (t Tree) WriteManifests(ctx context.Context, out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	_, err = run(ctx, t.Folder, nil, "go", "run", "./hack/release",
		"--out="+out, "--version="+t.Version, "--image-registry="+t.Registry, "--image-tag="+t.Tag)
	return err
}

// managerPackage is that of the control plane provider.
const managerPackage = "./controlplane"

// BuildChanged builds the control plane provider's manager with some of the tree's files, by their paths in it,
// replaced. The tree stays as it is.
func (t Tree) BuildChanged(ctx context.Context, program string, replaced map[string][]byte) error {
	work, err := os.MkdirTemp("", "overlay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a temporary directory
	overlay, err := writeOverlay(t.Folder, work, replaced)
	if err != nil {
		return err
	}
	program, err = filepath.Abs(program)
	if err != nil {
		return err
	}
	return t.buildManager(ctx, program, "-overlay="+overlay)
}

// Fingerprint is the SHA-256 of the control plane provider's manager without the version and commit that releases are
// stamped with: two trees with the same one are the same program.
func (t Tree) Fingerprint(ctx context.Context) (string, error) {
	work, err := os.MkdirTemp("", "fingerprint-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a temporary directory
	program := filepath.Join(work, "manager")
	if err := t.buildManager(ctx, program); err != nil {
		return "", err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:]), nil
}

func (t Tree) buildManager(ctx context.Context, program string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-o", program}, flags...)
	_, err := run(ctx, t.Folder, []string{"CGO_ENABLED=0", "GOWORK=off"}, "go", append(args, managerPackage)...)
	return err
}

// run runs a program in a folder and returns its standard output. The error holds the end of what it said.
func run(ctx context.Context, folder string, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s in %s: %w\n%s", program, strings.Join(args, " "), folder, err, end(stderr.String()))
	}
	return stdout.String(), nil
}

func end(text string) string {
	const most = 4000
	return text[max(0, len(text)-most):]
}
