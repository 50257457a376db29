package previousrelease

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// clone is a git repository with two commits of a small project; it returns them.
func clone(t *testing.T) (folder, first, second string) {
	t.Helper()
	folder = t.TempDir()
	for name, value := range map[string]string{
		"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
		"GIT_CONFIG_GLOBAL": os.DevNull, "GOWORK": "off",
	} {
		t.Setenv(name, value)
	}
	mustGit(t, folder, "init", "--quiet")
	write(t, folder, map[string]string{
		"go.mod":                       "module example.com/project\n\ngo 1.24\n",
		"Makefile":                     "VERSION ?= v9\nbuild:\n\tmkdir -p bin && printf %s $(VERSION) >bin/manager\n",
		"controlplane/main.go":         "package main\n\nimport _ \"embed\"\n\n//go:embed asset.yaml\nvar asset string\n\nfunc main() { print(asset) }\n",
		"controlplane/asset.yaml":      "kind: First\n",
		"hack/release/main.go":         "package main\n\nimport (\n\t\"os\"\n\t\"strings\"\n)\n\nfunc main() {\n\tout := strings.TrimPrefix(os.Args[1], \"--out=\")\n\tif err := os.WriteFile(out+\"/arguments\", []byte(strings.Join(os.Args[2:], \" \")), 0o600); err != nil {\n\t\tpanic(err)\n\t}\n}\n",
		".gitignore":                   "/bin/\n",
		"internal/only-for-git/README": "first\n",
	})
	first = commit(t, folder)
	write(t, folder, map[string]string{"controlplane/asset.yaml": "kind: Second\n"})
	return folder, first, commit(t, folder)
}

func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func commit(t *testing.T, folder string) string {
	t.Helper()
	mustGit(t, folder, "add", "--all")
	mustGit(t, folder, "commit", "--quiet", "--message=change")
	return mustGit(t, folder, "rev-parse", "HEAD")
}

func mustGit(t *testing.T, folder string, args ...string) string {
	t.Helper()
	output, err := git(t.Context(), folder, args...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestAWorktreeHasTheFilesOfItsCommit(t *testing.T) {
	root, first, second := clone(t)
	folder := filepath.Join(root, "out", "previous")
	steps := []struct {
		name, commit, want string
		before             func()
		keeps              bool
	}{
		{name: "where there was nothing", commit: first, want: "kind: First\n"},
		{name: "where it is already, with what was built there", commit: first, want: "kind: First\n", keeps: true},
		{name: "of another commit", commit: second, want: "kind: Second\n"},
		{name: "whose folder was removed by hand", commit: second, want: "kind: Second\n", before: func() { remove(t, folder) }},
		{name: "of which a file is missing", commit: second, want: "kind: Second\n", before: func() { remove(t, filepath.Join(folder, "controlplane", "asset.yaml")) }},
		{name: "in the place of a folder that is no worktree", commit: second, want: "kind: Second\n", before: func() { remove(t, filepath.Join(folder, ".git")) }},
	}
	for _, step := range steps {
		if step.before != nil {
			step.before()
		}
		built := filepath.Join(folder, "bin", "manager")
		if err := Checkout(t.Context(), root, folder, step.commit); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := read(t, folder, "controlplane/asset.yaml"); got != step.want {
			t.Errorf("%s: got %q", step.name, got)
		}
		if _, err := os.Stat(built); (err == nil) != step.keeps {
			t.Errorf("%s: what was built before is there: %t", step.name, err == nil)
		}
		write(t, folder, map[string]string{"bin/manager": "built"})
	}
}

func TestOtherWorktreesWhoseFoldersAreAwayAreStillKnown(t *testing.T) {
	root, first, second := clone(t)
	disk := t.TempDir()
	other, away := filepath.Join(disk, "other"), filepath.Join(disk, "away")
	mustGit(t, root, "worktree", "add", "--detach", other, first)
	if err := os.Rename(other, away); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "out", "previous")
	for _, commit := range []string{first, second} {
		if err := Checkout(t.Context(), root, folder, commit); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(away, other); err != nil {
		t.Fatal(err)
	}
	if got := mustGit(t, other, "rev-parse", "HEAD"); got != first {
		t.Errorf("it is at %s", got)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func TestACommitThatIsMissingSaysHowToGetIt(t *testing.T) {
	root, first, _ := clone(t)
	shallow := filepath.Join(t.TempDir(), "shallow")
	mustGit(t, root, "clone", "--quiet", "--depth=1", "file://"+root, shallow)
	for name, c := range map[string]struct{ root, commit, want string }{
		"of a shallow clone": {shallow, first, "git fetch --unshallow"},
		"of a whole clone":   {root, strings.Repeat("12345678", 5), "hack/previous-release/commit"},
	} {
		err := Checkout(t.Context(), c.root, filepath.Join(t.TempDir(), "previous"), c.commit)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.commit) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATreeIsBuiltByItsOwnMeans(t *testing.T) {
	root, _, _ := clone(t)
	t.Setenv("MAKEFLAGS", " -- VERSION=v8")
	tree := Tree{Folder: root, Version: "v0.0.1", Registry: "registry.example.com", Tag: "previous"}
	if err := tree.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := read(t, tree.Programs(), "manager"); got != "v0.0.1" {
		t.Errorf("the program is of version %s", got)
	}
	out := t.TempDir()
	if err := tree.WriteManifests(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, out, "arguments"), "--version=v0.0.1 --image-registry=registry.example.com --image-tag=previous"; got != want {
		t.Errorf("hack/release was asked for %q, want %q", got, want)
	}
}

func TestAFingerprintTellsProgramsApartAndNotTheirFolders(t *testing.T) {
	root, first, second := clone(t)
	prints := map[string]string{}
	for name, c := range map[string]string{"first": first, "second": second, "again": second} {
		folder := filepath.Join(t.TempDir(), name)
		if err := Checkout(t.Context(), root, folder, c); err != nil {
			t.Fatal(err)
		}
		var err error
		if prints[name], err = (Tree{Folder: folder}).Fingerprint(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if prints["first"] == prints["second"] {
		t.Error("two programs have the same fingerprint")
	}
	if prints["again"] != prints["second"] {
		t.Error("the same program has another fingerprint in another folder")
	}
}

func TestAChangedManagerHasTheFilesThatReplaceOthers(t *testing.T) {
	root, _, _ := clone(t)
	program := filepath.Join(t.TempDir(), "manager")
	if err := (Tree{Folder: root}).BuildChanged(t.Context(), program, map[string][]byte{"controlplane/asset.yaml": []byte("kind: Changed\n")}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(read(t, program), "kind: Changed\n") {
		t.Error("the program has not the file that replaces the tree's")
	}
	if got := read(t, root, "controlplane/asset.yaml"); got != "kind: Second\n" {
		t.Errorf("the tree's file is now %q", got)
	}
	if err := (Tree{Folder: root}).BuildChanged(t.Context(), program, map[string][]byte{"controlplane/none.yaml": nil}); err == nil {
		t.Error("a file that is not there was replaced")
	}
}

func TestThePinnedCommitIsOlderThanThisOne(t *testing.T) {
	if _, err := git(t.Context(), ".", "cat-file", "-e", Commit()+"^{commit}"); err != nil {
		if mustGit(t, ".", "rev-parse", "--is-shallow-repository") == "true" {
			t.Skipf("this clone has only a part of the history: %v", err)
		}
		t.Fatalf("the pinned commit is in no history: %v", err)
	}
	if head := mustGit(t, ".", "rev-parse", "HEAD"); head == Commit() {
		t.Error("the pinned commit is this one: an upgrade from it shows nothing")
	}
	if _, err := git(t.Context(), ".", "merge-base", "--is-ancestor", Commit(), "HEAD"); err != nil {
		t.Errorf("the pinned commit is not in the history of this one: %v", err)
	}
}
