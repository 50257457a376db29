// Package scrape writes the files by which a Prometheus reads the metrics of a tenant's components from outside the tenant.
package scrape

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Names of files. Prometheus takes paths in ConfigFile as relative to the folder that it is in.
const (
	// ConfigFile is what scrape_config_files of Prometheus names.
	ConfigFile = "scrape.yaml"
	// CAFile vouches for the components, and Certificate, with a .crt and a .key, is whom Prometheus is to them.
	CAFile      = "ca.crt"
	Certificate = "tls"
)

const (
	// User is the name of whoever scrapes.
	User = "kok:metrics"
	// Group is the one to which Kubernetes itself binds the role to read metrics and health, and nothing else
	// (plugin/pkg/auth/authorizer/rbac/bootstrappolicy of kube-apiserver).
	Group = "system:monitoring"
)

// Component is what is known of a component.
type Component struct {
	// Name is the component's, and the one of its job in Prometheus.
	Name string
	// ServerName is a name in its serving certificate.
	ServerName string
	// Targets are where its pods serve metrics, as "address:port", by the node that they are on.
	Targets []Target
}

// Target is a pod.
type Target struct{ Address, Node string }

// Files are the configuration and, for each component, the file that it names with the addresses. Prometheus sees by itself when the
// latter change.
func Files(cluster client.ObjectKey, components []Component) (map[string][]byte, error) {
	files := map[string][]byte{}
	var configs []scrapeConfig
	for _, component := range components {
		file := component.Name + ".json"
		targets, err := json.Marshal(targetGroups(cluster, component))
		if err != nil {
			return nil, fmt.Errorf("write the targets of %s: %w", component.Name, err)
		}
		files[file] = targets
		configs = append(configs, scrapeConfig{
			JobName: fmt.Sprintf("%s/%s", cluster, component.Name), Scheme: "https",
			TLS:       tlsConfig{CAFile: CAFile, CertFile: Certificate + ".crt", KeyFile: Certificate + ".key", ServerName: component.ServerName},
			Files:     []fileDiscovery{{Files: []string{file}}},
			Relabeled: []relabeling{{TargetLabel: "job", Replacement: component.Name}},
		})
	}
	config, err := yaml.Marshal(map[string]any{"scrape_configs": configs})
	if err != nil {
		return nil, fmt.Errorf("write the configuration for Prometheus: %w", err)
	}
	files[ConfigFile] = config
	return files, nil
}

func targetGroups(cluster client.ObjectKey, component Component) []targetGroup {
	groups := []targetGroup{}
	for _, target := range component.Targets {
		groups = append(groups, targetGroup{Targets: []string{target.Address}, Labels: map[string]string{
			"cluster_namespace": cluster.Namespace, "cluster_name": cluster.Name, "node": target.Node,
		}})
	}
	return groups
}

// What follows are parts of Prometheus' configuration (https://prometheus.io/docs/prometheus/latest/configuration/configuration).

type scrapeConfig struct {
	JobName   string          `json:"job_name"`
	Scheme    string          `json:"scheme"`
	TLS       tlsConfig       `json:"tls_config"`
	Files     []fileDiscovery `json:"file_sd_configs"`
	Relabeled []relabeling    `json:"relabel_configs"`
}

type tlsConfig struct {
	CAFile     string `json:"ca_file"`
	CertFile   string `json:"cert_file"`
	KeyFile    string `json:"key_file"`
	ServerName string `json:"server_name"`
}

type fileDiscovery struct {
	Files []string `json:"files"`
}

type relabeling struct {
	TargetLabel string `json:"target_label"`
	Replacement string `json:"replacement"`
}

type targetGroup struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}
