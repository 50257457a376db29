package artifacts

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// buildModule writes the go.mod of a module that builds the programs of another one exactly as that one does: with the
// dependencies that upstream's own go.mod pins. Upstream replaces libraries of its own repository with local folders,
// which a consumer cannot; local gives the published version of such a library by its module path, or nothing when the
// replacement serves upstream's own repository alone.
func buildModule(name string, upstream *modfile.File, version string, local func(path string) (string, error)) ([]byte, error) {
	if upstream.Module == nil {
		return nil, fmt.Errorf("go.mod of version %s has no module line", version)
	}
	f := &modfile.File{Syntax: &modfile.FileSyntax{}}
	if err := f.AddModuleStmt(name); err != nil {
		return nil, err
	}
	if upstream.Go != nil {
		if err := f.AddGoStmt(upstream.Go.Version); err != nil {
			return nil, err
		}
	}
	for _, g := range upstream.Godebug {
		if err := f.AddGodebug(g.Key, g.Value); err != nil {
			return nil, err
		}
	}

	published := map[string]string{}
	for _, r := range upstream.Replace {
		if !isLocal(r.New.Path) {
			if err := f.AddReplace(r.Old.Path, r.Old.Version, r.New.Path, r.New.Version); err != nil {
				return nil, err
			}
			continue
		}
		v, err := local(r.Old.Path)
		if err != nil {
			return nil, err
		}
		if v != "" {
			published[r.Old.Path] = v
		}
	}
	for _, path := range slices.Sorted(maps.Keys(published)) {
		// A replacement and not a requirement alone: published libraries ask each other for v0.0.0.
		if err := f.AddReplace(path, "", path, published[path]); err != nil {
			return nil, err
		}
	}

	requires := []*modfile.Require{{Mod: module.Version{Path: upstream.Module.Mod.Path, Version: version}}}
	for _, r := range upstream.Require {
		v := r.Mod.Version
		if p, ok := published[r.Mod.Path]; ok {
			v = p
		}
		requires = append(requires, &modfile.Require{Mod: module.Version{Path: r.Mod.Path, Version: v}, Indirect: true})
	}
	f.SetRequireSeparateIndirect(requires)
	f.Cleanup()
	return f.Format()
}

func isLocal(path string) bool {
	return strings.HasPrefix(path, "./") || strings.HasPrefix(path, "../")
}
