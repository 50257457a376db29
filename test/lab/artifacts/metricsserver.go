package artifacts

import (
	"context"
	"path/filepath"
)

const metricsServerModule = "sigs.k8s.io/metrics-server"

// EnsureMetricsServer builds metrics-server, from which autoscalers have what pods use, as Ensure does. Its manifests need
// cert-manager.
func EnsureMetricsServer(ctx context.Context, cacheDir string, progress func(string)) (*HostAddon, error) {
	return metricsServer(DefaultVersions().MetricsServer).ensure(ctx, cacheDir, progress)
}

func metricsServer(version string) hostAddon {
	const name = "metrics-server"
	return hostAddon{
		recipe: recipe{
			name: name, module: metricsServerModule, version: version,
			local:    func(string) (string, error) { return "", nil },
			stamps:   stamps("k8s.io/client-go/pkg/version", version),
			programs: []program{{name: name, pkg: metricsServerModule + "/cmd/" + name}},
		},
		manifests: "manifests",
		images: func(programs string) []Image {
			return []Image{{
				Name: "registry.k8s.io/metrics-server/" + name + ":" + version, User: "65534",
				Files: []File{{Path: "/" + name, Source: filepath.Join(programs, name)}},
			}}
		},
	}
}
