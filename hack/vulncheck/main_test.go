package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Nobody may take it for green that nothing was checked.
func TestItFailsAndSaysSoWithoutADatabase(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "a file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, db := range map[string]string{"none": "", "no folder": filepath.Join(folder, "none"), "a file": file} {
		t.Run(name, func(t *testing.T) {
			err := check(t.Context(), db, func(_ context.Context, name string, _ ...string) error {
				t.Errorf("%s was started", name)
				return nil
			})
			if err == nil || !strings.Contains(err.Error(), "nothing was checked") {
				t.Errorf("it ends with %v", err)
			}
		})
	}
	if err := check(t.Context(), "https:vuln.go.dev", nil); err == nil {
		t.Error("an address without a host is one")
	}
}

func TestItLooksWithTheDatabaseThatIsGiven(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a copy")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(folder))
	for db, want := range map[string]string{
		"https://vuln.go.dev": "https://vuln.go.dev", "file://" + folder: "file://" + folder,
		folder: "file://" + strings.ReplaceAll(folder, " ", "%20"), "a copy": "file://" + strings.ReplaceAll(folder, " ", "%20"),
	} {
		var started []string
		err := check(t.Context(), db, func(_ context.Context, name string, args ...string) error {
			started = append(started, strings.Join(append([]string{name}, args...), " "))
			return nil
		})
		if wanted := []string{"bin/govulncheck -db " + want + " ./..."}; err != nil || !slices.Equal(started, wanted) {
			t.Errorf("with %q it starts %q, want %q, %v", db, started, wanted, err)
		}
	}
}

func TestItFailsWithTheProgramThatLooks(t *testing.T) {
	found := errors.New("exit status 3")
	err := check(t.Context(), "https://vuln.go.dev", func(context.Context, string, ...string) error { return found })
	if !errors.Is(err, found) {
		t.Errorf("it ends with %v", err)
	}
	if err := execute(t.Context(), "sh", "-c", "exit 3"); err == nil {
		t.Error("a program that finds something ends as if it had not")
	}
}

// The program itself, as make starts it without DB: a status of zero would be green. No network is needed for it.
func TestTheProgramEndsWithAStatusOfItsOwnWithoutADatabase(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	recipe := regexp.MustCompile(`(?m)^vulncheck: check-go \$\(if \$\(DB\),bin/govulncheck\) ##.*\n((?:\t.*\n)+)`).FindStringSubmatch(string(makefile))
	if recipe == nil || recipe[1] != "\tgo run ./hack/vulncheck --db='$(DB)'\n" {
		t.Fatalf("make vulncheck does something else: %q", recipe)
	}
	built := filepath.Join(t.TempDir(), "vulncheck")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", built, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), built, "--db=").CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 1 || !strings.Contains(string(out), errNothingChecked.Error()) {
		t.Errorf("it ends with %v and says %q", err, out)
	}
}
