package artifacts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/mod/semver"
)

const flannelModule = "github.com/flannel-io/flannel"

// renderFlannel writes flannel's manifests, as upstream publishes them, to a file of the cache, with what differs on the
// lab's hosts: the version of the CNI plugin, Debian's folder for CNI plugins, and nftables, for there is no iptables.
func renderFlannel(ctx context.Context, cache string, v Versions) (string, error) {
	file := filepath.Join(cache, "manifests", "flannel-"+v.Flannel+"-"+key(v.FlannelPlugin)+".yaml")
	if exists(file) {
		return file, nil
	}
	source, err := downloadModule(ctx, flannelModule, v.Flannel)
	if err != nil {
		return "", err
	}
	manifests, err := os.ReadFile(filepath.Join(source, "Documentation", "kube-flannel.yml"))
	if err != nil {
		return "", fmt.Errorf("read flannel's manifests: %w", err)
	}
	if manifests, err = flannelForHosts(manifests, v.FlannelPlugin); err != nil {
		return "", err
	}
	return file, publish(file, func(tmp string) error { return os.WriteFile(tmp, manifests, 0o644) })
}

// flannelForHosts fails when upstream's manifests no longer have what it replaces.
func flannelForHosts(manifests []byte, pluginVersion string) ([]byte, error) {
	if !semver.IsValid(pluginVersion) {
		return nil, fmt.Errorf("%q is no version of flannel's CNI plugin", pluginVersion)
	}
	for _, change := range []struct{ pattern, by string }{
		{`(image: ghcr\.io/flannel-io/flannel-cni-plugin:)\S+`, "${1}" + pluginVersion},
		{`(\n +path: )/opt/cni/bin\n`, "${1}/usr/lib/cni\n"},
		{`("EnableNFTables": )false`, "${1}true"},
	} {
		pattern := regexp.MustCompile(change.pattern)
		if found := len(pattern.FindAll(manifests, -1)); found != 1 {
			return nil, fmt.Errorf("flannel's manifests have %s %d times, want once", change.pattern, found)
		}
		manifests = pattern.ReplaceAll(manifests, []byte(change.by))
	}
	return manifests, nil
}
