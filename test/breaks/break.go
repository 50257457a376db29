package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// patchSuffix is how the file of a break ends; before it is the name of the break.
const patchSuffix = ".patch"

// mistake is one way to break the product.
type mistake struct {
	name string
	// breaks says in plain words what is wrong with the broken product.
	breaks string
	// caughtBy is the test that must fail.
	caughtBy step
	// patch is the file with the diff.
	patch string
}

// load reads every break of a folder, in the order of their names.
func load(folder string) ([]mistake, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*"+patchSuffix))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no break in %s", folder)
	}
	var all []mistake
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := parse(content)
		if err != nil {
			return nil, fmt.Errorf("read the break %s: %w", file, err)
		}
		m.name = strings.TrimSuffix(filepath.Base(file), patchSuffix)
		if m.patch, err = filepath.Abs(file); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// choose picks breaks by their names, which commas separate; all when there is no name.
func choose(all []mistake, only string) ([]mistake, error) {
	if only == "" {
		return all, nil
	}
	var chosen []mistake
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(m mistake) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no break %q; see %s", name, folder)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// Headers of a break. Each is a line "Name: value" before the diff; a line that begins with a space goes on with the value.
const (
	breaksHeader  = "Breaks"  // what is wrong with the broken product
	packageHeader = "Package" // the package of the test that must fail, such as ./controlplane/flow
	testHeader    = "Test"    // the test that must fail, or one of its subtests, as go test prints it
	needsHeader   = "Needs"   // "race" for the race detector, "envtest" for a kube-apiserver, or both; may be left out
)

var (
	headers     = []string{breaksHeader, packageHeader, testHeader, needsHeader}
	packagePath = regexp.MustCompile(`^\./[\w/-]+$`)
	testName    = regexp.MustCompile(`^Test\w+(/\S+)?$`)
)

// parse reads the headers of a break.
func parse(content []byte) (mistake, error) {
	head, _, found := bytes.Cut(append([]byte("\n"), content...), []byte("\ndiff --git "))
	if !found {
		return mistake{}, errors.New(`there is no diff: no line begins with "diff --git "`)
	}
	values, err := parseHeaders(string(head))
	if err != nil {
		return mistake{}, err
	}
	m := mistake{breaks: values[breaksHeader], caughtBy: step{pkg: values[packageHeader], test: values[testHeader]}}
	for _, header := range []string{breaksHeader, packageHeader, testHeader} {
		if values[header] == "" {
			return mistake{}, fmt.Errorf("the header %s is missing", header)
		}
	}
	if !packagePath.MatchString(m.caughtBy.pkg) {
		return mistake{}, fmt.Errorf("%s: %q is not one package, such as ./controlplane/flow", packageHeader, m.caughtBy.pkg)
	}
	if !testName.MatchString(m.caughtBy.test) {
		return mistake{}, fmt.Errorf("%s: %q is not the name of a test as go test prints it", testHeader, m.caughtBy.test)
	}
	for need := range strings.FieldsSeq(values[needsHeader]) {
		switch need {
		case "race":
			m.caughtBy.race = true
		case "envtest":
			m.caughtBy.envtest = true
		default:
			return mistake{}, fmt.Errorf("%s: %q is neither race nor envtest", needsHeader, need)
		}
	}
	return m, nil
}

func parseHeaders(head string) (map[string]string, error) {
	values := map[string]string{}
	last := ""
	for line := range strings.Lines(head) {
		line = strings.TrimRight(line, "\n")
		if line == "" {
			continue
		}
		if more, goesOn := strings.CutPrefix(line, " "); goesOn && last != "" {
			values[last] += " " + strings.TrimSpace(more)
			continue
		}
		name, value, found := strings.Cut(line, ": ")
		if !found || !slices.Contains(headers, name) {
			return nil, fmt.Errorf("the line %q before the diff is none of the headers %s", line, strings.Join(headers, ", "))
		}
		if values[name] != "" {
			return nil, fmt.Errorf("the header %s is there twice", name)
		}
		values[name], last = strings.TrimSpace(value), name
	}
	return values, nil
}
