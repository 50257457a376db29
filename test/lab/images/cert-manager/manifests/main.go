// Command manifests writes cert-manager's manifests to standard output: its own chart, rendered by Helm's engine with
// the values that the lab needs.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

func main() {
	chart := flag.String("chart", "", "folder of cert-manager's chart")
	version := flag.String("version", "", "version of cert-manager, with a leading v")
	zone := flag.String("zone", "", "zone whose nodes run cert-manager")
	flag.Parse()
	out, err := render(*chart, *version, *zone)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := os.Stdout.Write(out); err != nil {
		log.Fatal(err)
	}
}

func render(dir, version, zone string) ([]byte, error) {
	chart, err := loader.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read cert-manager's chart: %w", err)
	}
	// The release of the chart sets these.
	chart.Metadata.Version, chart.Metadata.AppVersion = version, version

	const namespace = "cert-manager"
	nodes := map[string]any{"topology.kubernetes.io/zone": zone}
	alone := []any{"--leader-elect=false"}
	values, err := chartutil.ToRenderValues(chart, map[string]any{
		"crds":            map[string]any{"enabled": true},
		"startupapicheck": map[string]any{"enabled": false},
		"nodeSelector":    nodes,
		"extraArgs":       alone,
		"cainjector":      map[string]any{"nodeSelector": nodes, "extraArgs": alone},
		"webhook":         map[string]any{"nodeSelector": nodes, "readinessProbe": map[string]any{"periodSeconds": 1, "initialDelaySeconds": 0}},
	}, chartutil.ReleaseOptions{Name: "cert-manager", Namespace: namespace, IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("values of cert-manager's chart: %w", err)
	}
	files, err := engine.Render(chart, values)
	if err != nil {
		return nil, fmt.Errorf("render cert-manager's chart: %w", err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", namespace)
	// Definitions first: their templates' names start with crd-.
	names := slices.Sorted(maps.Keys(files))
	for _, definitions := range []bool{true, false} {
		for _, name := range names {
			isDefinition := strings.Contains(name, "/crd-")
			if strings.HasSuffix(name, ".yaml") && isDefinition == definitions && strings.TrimSpace(files[name]) != "" {
				fmt.Fprintf(&out, "---\n%s\n", files[name])
			}
		}
	}
	return out.Bytes(), nil
}
