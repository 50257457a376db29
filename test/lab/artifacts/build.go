package artifacts

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// program is one command of a recipe.
type program struct {
	// name is the file name of the binary; pkg the import path of its main package.
	name, pkg string
}

// recipe says how programs are compiled from one published Go module.
type recipe struct {
	// name names the folder in the cache, with the version and the key.
	name string
	// module and version are what is built.
	module, version string
	// also are further modules of the same repository that hold some of the programs, at the same version.
	also []string
	// newer are dependencies, by path, that are needed in a newer version than upstream pins.
	newer map[string]string
	// local gives the published version of a library that upstream replaces by a local folder.
	local func(path string) (string, error)
	// stamps are the values to set at link time, as package.variable=value.
	stamps []string
	// cgo is for programs with C of their own, which are linked statically all the same.
	cgo bool
	// tags are upstream's build tags.
	tags string
	// tests is set when the programs are test binaries of packages.
	tests bool
	// programs are built together, to compile what they share once.
	programs []program
}

// buildEnv makes programs static and independent of where they are built.
var buildEnv = []string{"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=mod -trimpath -buildvcs=false"}

func (r recipe) linkFlags() string {
	flags := []string{"-s", "-w"}
	if r.cgo {
		flags = append(flags, "-linkmode", "external", "-extldflags", "-static")
	}
	for _, s := range r.stamps {
		flags = append(flags, "-X", s)
	}
	return strings.Join(flags, " ")
}

// dir is the folder that holds the binaries once they are built.
func (r recipe) dir(cache, goVersion string) string {
	parts := []string{goVersion, r.module, r.version, r.linkFlags(), r.tags}
	parts = append(parts, buildEnv...)
	parts = append(parts, r.also...)
	if r.tests {
		parts = append(parts, "tests")
	}
	for _, p := range r.programs {
		parts = append(parts, p.name, p.pkg)
	}
	return filepath.Join(cache, "bin", fmt.Sprintf("%s-%s-%s", r.name, r.version, key(parts...)))
}

// build compiles the recipe unless its folder is there, and returns the folder.
func (r recipe) build(ctx context.Context, cache, goVersion string, progress func(string)) (string, error) {
	dir := r.dir(cache, goVersion)
	if exists(dir) {
		return dir, nil
	}
	progress(fmt.Sprintf("build %s %s (first time only)", r.name, r.version))
	err := publish(dir, func(tmp string) error {
		work := tmp + ".module"
		defer os.RemoveAll(work)
		if err := r.writeModule(ctx, work); err != nil {
			return err
		}
		env := buildEnv
		if r.cgo {
			env = append(slices.Clone(env), "CGO_ENABLED=1")
		}
		return r.compileWith(ctx, work, tmp, env)
	})
	if err != nil {
		return "", fmt.Errorf("build %s %s: %w", r.name, r.version, err)
	}
	return dir, nil
}

// writeModule writes go.mod and go.sum of the module that the programs are built in.
func (r recipe) writeModule(ctx context.Context, dir string) error {
	source, err := downloadModule(ctx, r.module, r.version)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return err
	}
	upstream, err := modfile.Parse(r.module+"/go.mod", data, nil)
	if err != nil {
		return err
	}
	mod, err := buildModule("kok.lab/"+r.name, upstream, r.version, r.local)
	if err != nil {
		return err
	}
	requires := map[string]string{}
	maps.Copy(requires, r.newer)
	for _, path := range r.also {
		requires[path] = r.version
	}
	if mod, err = addRequires(mod, requires); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o644); err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(source, "go.sum"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o644)
}

func addRequires(mod []byte, requires map[string]string) ([]byte, error) {
	f, err := modfile.Parse("go.mod", mod, nil)
	if err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(requires)) {
		if err := f.AddRequire(path, requires[path]); err != nil {
			return nil, err
		}
	}
	f.Cleanup()
	return f.Format()
}

// compileWith builds all programs into out, in the module at work.
func (r recipe) compileWith(ctx context.Context, work, out string, env []string) error {
	built := out + ".out"
	defer os.RemoveAll(built)
	args := []string{"build"}
	if r.tests {
		args = []string{"test", "-c", "-vet=off"}
	}
	args = append(args, "-tags="+r.tags, "-ldflags", r.linkFlags(), "-o", built+"/")
	for _, p := range r.programs {
		args = append(args, p.pkg)
	}
	if err := os.MkdirAll(built, 0o755); err != nil {
		return err
	}
	if _, err := run(ctx, command{dir: work, env: env, name: "go", args: args}); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, p := range r.programs {
		name := binaryName(p.pkg)
		if r.tests {
			name += ".test"
		}
		if p.pkg == "." { // named after the module then, which its recipe names it after too
			name = p.name
		}
		if err := os.Rename(filepath.Join(built, name), filepath.Join(out, p.name)); err != nil {
			return err
		}
	}
	return nil
}

// binaryName is the name that go build gives a program: the last element of its import path that is no major version.
func binaryName(pkg string) string {
	base := filepath.Base(pkg)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		return filepath.Base(filepath.Dir(pkg))
	}
	return base
}

// downloadModule returns the folder of a module's source in the module cache.
func downloadModule(ctx context.Context, path, version string) (string, error) {
	out, err := run(ctx, command{dir: os.TempDir(), env: []string{"GOWORK=off"}, name: "go", args: []string{"mod", "download", "-json", path + "@" + version}})
	if err != nil {
		return "", err
	}
	var info struct{ Dir, Error string }
	if err := json.Unmarshal(out, &info); err != nil {
		return "", fmt.Errorf("read the answer of go mod download %s@%s: %w", path, version, err)
	}
	if info.Error != "" {
		return "", fmt.Errorf("download %s@%s: %s", path, version, info.Error)
	}
	return info.Dir, nil
}

// goToolVersion returns the version of the go command on PATH, which is part of every key.
func goToolVersion(ctx context.Context) (string, error) {
	out, err := run(ctx, command{dir: os.TempDir(), name: "go", args: []string{"env", "GOVERSION"}})
	if err != nil {
		return "", fmt.Errorf("find the go command's version (is go on PATH?): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
