package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/golist"
)

const diff = "diff --git a/flow.go b/flow.go\n"

func TestABreakIsReadFromItsHeaders(t *testing.T) {
	got, err := parse([]byte("Breaks: A step starts before\n  those that it comes after.\nPackage: ./controlplane/flow\n" +
		"Test: TestRun/one_after_the_other\nNeeds: race envtest\n\n" + diff + "Breaks: is no header in a diff\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := mistake{
		breaks:   "A step starts before those that it comes after.",
		caughtBy: step{pkg: "./controlplane/flow", test: "TestRun/one_after_the_other", race: true, envtest: true},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(mistake{}, step{})); diff != "" {
		t.Error(diff)
	}
	const command = "go test -race -tags=envtest -run=^TestRun$/^one_after_the_other$ ./controlplane/flow"
	if got.caughtBy.String() != command {
		t.Errorf("its step is %s", got.caughtBy)
	}
}

func TestABreakIsRefused(t *testing.T) {
	const breaks, pkg, test = "Breaks: the order.\n", "Package: ./controlplane/flow\n", "Test: TestRun\n"
	for name, refused := range map[string]struct{ content, why string }{
		"without a diff":                {breaks + pkg + test, "there is no diff"},
		"without a text":                {pkg + test + diff, "the header Breaks is missing"},
		"without a package":             {breaks + test + diff, "the header Package is missing"},
		"without a test":                {breaks + pkg + diff, "the header Test is missing"},
		"with an empty header":          {breaks + pkg + "Test: \n" + diff, "the header Test is missing"},
		"with a header twice":           {breaks + breaks + pkg + test + diff, "the header Breaks is there twice"},
		"with a header that nobody has": {breaks + pkg + test + "Author: x\n" + diff, `"Author: x"`},
		"with a text without a header":  {"The order.\n" + pkg + test + diff, `"The order."`},
		"that begins with a space":      {" more\n" + breaks + pkg + test + diff, `" more"`},
		"with several packages":         {breaks + "Package: ./a ./b\n" + test + diff, `"./a ./b" is not one package`},
		"with all packages":             {breaks + "Package: ./...\n" + test + diff, `"./..." is not one package`},
		"with a pattern of tests":       {breaks + pkg + "Test: Run.*\n" + diff, `"Run.*" is not the name of a test`},
		"with a need that nobody knows": {breaks + pkg + test + "Needs: lab\n" + diff, `"lab" is neither race nor envtest`},
	} {
		t.Run(name, func(t *testing.T) {
			if m, err := parse([]byte(refused.content)); err == nil || !strings.Contains(err.Error(), refused.why) {
				t.Errorf("it is read as %+v: %v", m, err)
			}
		})
	}
}

func TestARefusalNamesTheFile(t *testing.T) {
	folder := t.TempDir()
	if _, err := load(folder); err == nil || !strings.Contains(err.Error(), folder) {
		t.Errorf("an empty folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "order.patch"), []byte("nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(folder); err == nil || !strings.Contains(err.Error(), "order.patch") {
		t.Errorf("a file that is no break: %v", err)
	}
}

func TestBreaksAreChosenByName(t *testing.T) {
	all := []mistake{{name: "a"}, {name: "b"}, {name: "c"}}
	for only, want := range map[string]string{"": "a b c", "b": "b", "c,a": "c a"} {
		chosen, err := choose(all, only)
		var names []string
		for _, m := range chosen {
			names = append(names, m.name)
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%q chooses %q, %v", only, got, err)
		}
	}
	if _, err := choose(all, "a,d"); err == nil || !strings.Contains(err.Error(), `"d"`) {
		t.Errorf("a name that no break has: %v", err)
	}
}

// Patches follow the code: one that no longer applies is mended with the change that it met.
func TestEveryBreakAppliesToThisTree(t *testing.T) {
	all, err := load("patches")
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			check := exec.Command("git", "apply", "--check", m.patch)
			check.Dir = top
			// A checkout without a repository of its own is not one of the repository that it may lie in.
			check.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(top))
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("git apply --check: %v\n%s", err, out)
			}
		})
	}
}

// A break whose test has another name now, or other build tags, is caught by nothing.
func TestTheTestOfEveryBreakIsThere(t *testing.T) {
	all, err := load("patches")
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	packages := map[bool]map[string]golist.Package{false: listed(t, top, ""), true: listed(t, top, "envtest")}
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			tests, err := packages[m.caughtBy.envtest][filepath.Join(top, m.caughtBy.pkg)].Functions("Test", "T")
			if err != nil {
				t.Fatal(err)
			}
			if name, _, _ := strings.Cut(m.caughtBy.test, "/"); !slices.Contains(tests, name) {
				t.Errorf("%s finds no test %s: mend the headers Package, Test and Needs of %s", m.caughtBy, name, m.patch)
			}
		})
	}
}

// listed are all packages below a folder with a build tag, by their own folders.
func listed(t *testing.T, folder, tag string) map[string]golist.Package {
	t.Helper()
	all, err := golist.Packages(t.Context(), tag, folder+"/...")
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]golist.Package{}
	for _, p := range all {
		packages[p.Dir] = p
	}
	return packages
}
