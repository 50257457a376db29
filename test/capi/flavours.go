package capi

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Flavours of templates that specs ask for and no person does.
const (
	// RemediationFlavour has a MachineHealthCheck of a node condition that only a test writes.
	RemediationFlavour = "md-remediation"
	// ReplicasFlavour has a topology whose control plane counts replicas.
	ReplicasFlavour = "topology-replicas"
)

// healthCheck is the file with what RemediationFlavour has in place of the check of the template of tenants with workers: the
// spec goes by each check that it finds.
const healthCheck = "machinehealthcheck.yaml"

// Flavours are the files of the infrastructure provider in clusterctl's repository, by their names: the templates and
// classes of one folder as they are, and those that are made for specs from another.
func Flavours(templates, forSpecs string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, pattern := range []string{
		filepath.Join(templates, "cluster-template*.yaml"), filepath.Join(templates, "clusterclass-*.yaml"),
		filepath.Join(forSpecs, "cluster-template*.yaml"),
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("no template is %s: start in the top folder of the repository", pattern)
		}
		for _, file := range found {
			name := filepath.Base(file)
			if files[name] != nil {
				return nil, fmt.Errorf("%s would hide the template of that name in %s", file, templates)
			}
			if files[name], err = os.ReadFile(file); err != nil {
				return nil, err
			}
		}
	}
	check, err := os.ReadFile(filepath.Join(forSpecs, healthCheck))
	if err != nil {
		return nil, err
	}
	separator := []byte("\n---\n")
	documents := slices.DeleteFunc(bytes.Split(files[FileOf("")], separator), func(document []byte) bool {
		return bytes.Contains(document, []byte("\nkind: MachineHealthCheck\n"))
	})
	files[FileOf(RemediationFlavour)] = bytes.Join(append(documents, check), separator)
	return files, nil
}

// FileOf is the name that clusterctl looks for a flavour under; the one without a name is the default.
func FileOf(flavour string) string {
	if flavour == "" {
		return "cluster-template.yaml"
	}
	return "cluster-template-" + flavour + ".yaml"
}
