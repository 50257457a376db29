package main

import (
	"go/build/constraint"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// A test behind a build tag that no target sets for its package would never run, and nobody would see it.
func TestEveryTestWithABuildTagIsRunByATarget(t *testing.T) {
	runs := taggedRuns(read(t, "../../Makefile"))
	root := os.DirFS("../..")
	found := 0
	err := fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err == nil && file == "out": // The source of a former release may be there.
			return fs.SkipDir
		case err != nil || entry.IsDir() || !strings.HasSuffix(file, "_test.go"):
			return err
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		line, _, _ := strings.Cut(string(text), "\n")
		if !constraint.IsGoBuild(line) {
			return nil
		}
		found++
		if tag := strings.TrimPrefix(line, "//go:build "); !covered(path.Dir(file), runs[tag]) {
			t.Errorf("%s has the build tag %s, and no target of the Makefile runs the tests of its package with it", file, tag)
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("%d tests with build tags, %v", found, err)
	}
}

// taggedRuns are the packages that the Makefile's commands run tests of, by the build tag that they set.
func taggedRuns(makefile string) map[string][]string {
	runs := map[string][]string{}
	packages := regexp.MustCompile(`\s\./(\S+)`)
	for _, command := range regexp.MustCompile(`go test .*-tags=([\w,]+)(.*)`).FindAllStringSubmatch(strings.ReplaceAll(makefile, "\\\n", " "), -1) {
		for tag := range strings.SplitSeq(command[1], ",") {
			for _, found := range packages.FindAllStringSubmatch(command[2], -1) {
				runs[tag] = append(runs[tag], found[1])
			}
		}
	}
	return runs
}

// covered reports whether a folder is one of the packages, which may end in "/...".
func covered(folder string, packages []string) bool {
	for _, pattern := range packages {
		parent, all := strings.CutSuffix(pattern, "/...")
		if folder == parent || all && strings.HasPrefix(folder, parent+"/") {
			return true
		}
	}
	return false
}
