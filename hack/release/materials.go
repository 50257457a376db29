package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime/debug"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// writeMaterials writes of what a program is made, in the format CycloneDX: Go's modules, as the program itself knows them.
func writeMaterials(file string, p binary, version string) error {
	info, err := buildinfo.ReadFile(p.file)
	if err != nil {
		return fmt.Errorf("read the modules of %s: %w", p.title(), err)
	}
	var out bytes.Buffer
	err = cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(materials(info, p, version), cyclonedx.SpecVersion1_6)
	if err != nil {
		return fmt.Errorf("write the modules of %s: %w", p.title(), err)
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// materials has no serial number and no time: the same program has the same bill of materials.
func materials(info *debug.BuildInfo, p binary, version string) *cyclonedx.BOM {
	main := component(cyclonedx.ComponentTypeApplication, info.Main.Path, version)
	main.Name = p.name
	modules := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, "std", info.GoVersion)}
	references := []string{modules[0].BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component(cyclonedx.ComponentTypeLibrary, m.Path, m.Version)
		modules, references = append(modules, c), append(references, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	bom.Components = &modules
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &references}}
	return bom
}

// component is a Go module; its package URL is what vulnerability databases know it by.
func component(kind cyclonedx.ComponentType, path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cyclonedx.Component{Type: kind, Name: path, Version: version, PackageURL: url, BOMRef: url}
}
