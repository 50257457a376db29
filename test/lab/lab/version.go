package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

func (l *Lab) versionPath() string { return filepath.Join(l.state, "host-version") }

// HostVersion is the Kubernetes version of the lab's host cluster. A lab that notes none has the newest.
func (l *Lab) HostVersion() (string, error) {
	noted, err := os.ReadFile(l.versionPath())
	if errors.Is(err, fs.ErrNotExist) {
		return artifacts.DefaultVersions().Host, nil
	}
	return strings.TrimSpace(string(noted)), err
}

// Artifacts are what the lab is made of, with a host cluster of its version.
func (l *Lab) Artifacts(ctx context.Context, progress func(string)) (*artifacts.Set, error) {
	version, err := l.HostVersion()
	if err != nil {
		return nil, err
	}
	return artifactsOf(ctx, version, progress)
}

func artifactsOf(ctx context.Context, version string, progress func(string)) (*artifacts.Set, error) {
	versions, err := artifacts.VersionsOn(version)
	if err != nil {
		return nil, err
	}
	cache, err := artifacts.CacheDir()
	if err != nil {
		return nil, err
	}
	return artifacts.EnsureVersions(ctx, cache, versions, progress)
}

// chooseVersion notes the version of a lab that has no hosts yet. One that has some keeps its own.
func (l *Lab) chooseVersion(version string) error {
	versions, err := artifacts.VersionsOn(version)
	if err != nil {
		return err
	}
	hosts, err := l.Hosts()
	if err != nil {
		return err
	}
	if len(hosts) == 0 {
		return l.noteVersion(versions.Host)
	}
	has, err := l.HostVersion()
	if err == nil && has != versions.Host {
		err = fmt.Errorf("the lab's host cluster is of Kubernetes %s, not %s: make clean-lab removes it, and HOST_VERSION=%s (--host-version) goes on with it",
			has, versions.Host, has)
	}
	return err
}

// noteVersion writes the version down, whole or not at all.
func (l *Lab) noteVersion(version string) error {
	if err := os.MkdirAll(l.state, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(l.versionPath()+".new", []byte(version+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(l.versionPath()+".new", l.versionPath())
}
