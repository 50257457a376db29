// Command licences checks that every module which the project is built or tested with has a licence that the project may use,
// by the licence's text in the module. It fails with the names of those that do not: make licences, and make verify.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// allowed are licences, by their SPDX names, under which the project's programs may be given away with what they are made of:
// Apache-2.0 itself, those that ask for their text and the name of the author, and those that end at the file (MPL-2.0).
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "Unicode-DFS-2016", "Unlicense", "Zlib"}

// tags are the build tags of the project's tests.
const tags = "envtest,root,e2e,lab,lb,bench,attack,cosign,reproducible"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	modules, err := list(ctx)
	if err != nil {
		return err
	}
	texts, err := assets.DefaultClassifier()
	if err != nil {
		return fmt.Errorf("read the texts of licences: %w", err)
	}
	count := map[string]int{}
	var problems []error
	for _, m := range modules {
		found, err := licencesOf(texts, m.Dir)
		if err == nil {
			err = judge(found)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s %s: %w", m.Path, m.Version, err))
		}
		for _, licence := range found {
			count[licence]++
		}
	}
	if len(problems) > 0 {
		return errors.Join(append(problems, errors.New("take another module, or allow the licence in hack/tools/licences/main.go once somebody has read it"))...)
	}
	fmt.Fprintf(out, "%d modules have licences that are allowed:", len(modules)) //nolint:errcheck // To people.
	for _, licence := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(out, " %s %d", licence, count[licence]) //nolint:errcheck // To people.
	}
	_, err = fmt.Fprintln(out)
	return err
}

// module is one that go list tells of.
type module struct {
	Path, Version, Dir string
	Main               bool
	Replace            *module
}

// list gives the modules whose packages the project and its tests are built of, by their paths.
func list(ctx context.Context) ([]module, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-test", "-tags="+tags, "-json=Module", "./...")
	stderr := &bytes.Buffer{}
	cmd.Stderr = stderr
	answer, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the modules: %w\n%s", err, stderr)
	}
	found := map[string]module{}
	for decoder := json.NewDecoder(bytes.NewReader(answer)); ; {
		var p struct{ Module *module }
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the answer of go list: %w", err)
		}
		if m := p.Module; m != nil && !m.Main {
			if m.Replace != nil {
				m = m.Replace
			}
			found[m.Path] = *m
		}
	}
	if len(found) == 0 {
		return nil, errors.New("go list names no module")
	}
	return slices.SortedFunc(maps.Values(found), func(a, b module) int { return cmp.Compare(a.Path, b.Path) }), nil
}

// files are how those are called that hold a licence of code.
var files = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|unlicense)([-._].*)?$`)

// ofDocuments ends the name of a file with the licence of a module's documents, which no program is built of.
const ofDocuments = ".docs"

const maxFile = 1 << 20

// licencesOf are the licences, by their SPDX names, of the texts in a module's folder. A text that is of none has the name of
// its file and a question mark.
func licencesOf(texts *classifier.Classifier, folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, entry := range entries {
		if entry.IsDir() || !files.MatchString(entry.Name()) || strings.HasSuffix(entry.Name(), ofDocuments) {
			continue
		}
		file, err := os.Open(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(io.LimitReader(file, maxFile))
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
		known := false
		for _, match := range texts.Match(text).Matches {
			if match.MatchType == "License" {
				known, found[match.Name] = true, true
			}
		}
		if !known {
			found[entry.Name()+"?"] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// judge refuses licences of which one is not allowed, and none.
func judge(found []string) error {
	if len(found) == 0 {
		return errors.New("it has no file with a licence")
	}
	var others []string
	for _, licence := range found {
		if !slices.Contains(allowed, licence) {
			others = append(others, licence)
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("its licence is not allowed: %s", strings.Join(others, ", "))
	}
	return nil
}
