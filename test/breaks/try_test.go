package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// project is a repository with a product, its tests, and breaks of it. It is the folder that the test runs in.
type project struct{ *testing.T }

func newProject(t *testing.T) *project {
	t.Helper()
	p := &project{t}
	t.Chdir(t.TempDir())
	// A hook of git that runs the tests means another repository by these.
	for _, variable := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"} {
		t.Setenv(variable, "")
		p.must(os.Unsetenv(variable))
	}
	p.git("init", "--quiet")
	p.write("go.mod", "module example.com/product\n\ngo 1.26\n")
	p.write("product/add.go", "package product\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n")
	p.write("product/add_test.go", `package product

import (
	"io"
	"net"
	"testing"
)

func TestAdd(t *testing.T) {
	if Add(2, 3) != 5 {
		t.Error("wrong")
	}
}

func TestNothing(t *testing.T) {}

func TestThatFails(t *testing.T) { t.Error("always") }

func TestThatWaits(t *testing.T) {
	connection, err := net.Dial("unix", "`+p.path("socket")+`")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, connection)
}
`)
	p.git("add", ".")
	p.git("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false", "commit", "--quiet", "--message=product")
	return p
}

func (p *project) path(name string) string {
	p.Helper()
	path, err := filepath.Abs(name)
	p.must(err)
	return path
}

func (p *project) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *project) write(name, content string) {
	p.Helper()
	p.must(os.MkdirAll(filepath.Dir(name), 0o755))
	p.must(os.WriteFile(name, []byte(content), 0o600))
}

func (p *project) git(arguments ...string) string {
	p.Helper()
	out, err := exec.Command("git", arguments...).CombinedOutput()
	if err != nil {
		p.Fatalf("git %v: %v\n%s", arguments, err, out)
	}
	return string(out)
}

// breaks adds a break that changes how the product adds.
func (p *project) breaks(name, test, from, to string) {
	p.Helper()
	p.write(filepath.Join(folder, name+".patch"), "Breaks: "+name+".\nPackage: ./product\nTest: "+test+"\n\n"+
		"diff --git a/product/add.go b/product/add.go\n--- a/product/add.go\n+++ b/product/add.go\n@@ -3,2 +3,2 @@\n // Add adds.\n"+
		"-func Add(a, b int) int { "+from+" }\n+func Add(a, b int) int { "+to+" }\n")
}

// expectCleanedUp wants no checkout to be left.
func (p *project) expectCleanedUp() {
	p.Helper()
	if _, err := os.Stat(filepath.Join(logs, "tree")); !errors.Is(err, fs.ErrNotExist) {
		p.Errorf("the worktree is still there: %v", err)
	}
	if list := p.git("worktree", "list"); strings.Count(list, "\n") != 1 {
		p.Errorf("git has the worktrees\n%s", list)
	}
}

const right, wrong = "return a + b", "return a - b"

func TestWhatBecomesOfABreak(t *testing.T) {
	for name, test := range map[string]struct {
		test, from, to string
		want           outcome
		note           string
	}{
		"its test fails":                     {"TestAdd", right, wrong, caught, "-run=^TestAdd$ ./product"},
		"its test passes":                    {"TestNothing", right, wrong, notCaught, "-run=^TestNothing$ ./product"},
		"the compiler finds it":              {"TestAdd", right, "return", faulty, "does not compile"},
		"it no longer applies":               {"TestAdd", "return b + a", wrong, faulty, "does not apply"},
		"its test fails without it, too":     {"TestThatFails", right, wrong, faulty, "without the break"},
		"its test is not there":              {"TestThatWasRenamed", right, wrong, faulty, "did not run"},
		"what it wants is a missing subtest": {"TestNothing/part", right, wrong, faulty, "did not run"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			p.breaks("one", test.test, test.from, test.to)
			rows := p.try()
			if len(rows) != 1 || rows[0].outcome != test.want || !strings.Contains(rows[0].note, test.note) {
				t.Errorf("the rows are %+v", rows)
			}
			p.expectCleanedUp()
		})
	}
}

func (p *project) try() []row {
	p.Helper()
	all, err := load(folder)
	p.must(err)
	tree, err := openWorktree(p.path(logs))
	p.must(err)
	defer func() { p.must(tree.close()) }()
	return try(p.Context(), tree, all)
}

func TestEachBreakIsOfTheTreeWithoutTheOthers(t *testing.T) {
	p := newProject(t)
	p.breaks("first", "TestAdd", right, wrong)
	p.breaks("second", "TestNothing", right, wrong)
	p.breaks("third", "TestAdd", right, "return 7")
	var got []outcome
	for _, r := range p.try() {
		got = append(got, r.outcome)
	}
	if len(got) != 3 || got[0] != caught || got[1] != notCaught || got[2] != caught {
		t.Errorf("the outcomes are %q", got)
	}
}

func TestARunFailsUnlessAllAreCaught(t *testing.T) {
	p := newProject(t)
	p.breaks("first", "TestAdd", right, wrong)
	p.must(run(t.Context(), ""))
	p.breaks("second", "TestNothing", right, wrong)
	if err := run(t.Context(), ""); err == nil || err.Error() != "1 of 2 breaks are not caught" {
		t.Errorf("it ends with %v", err)
	}
	p.must(run(t.Context(), "first"))
	p.expectCleanedUp()
}

func TestAnInterruptedRunLeavesNoWorktree(t *testing.T) {
	p := newProject(t)
	p.breaks("first", "TestThatWaits", right, wrong)
	p.breaks("second", "TestAdd", right, wrong)
	listener, err := net.Listen("unix", "socket")
	p.must(err)
	defer listener.Close() //nolint:errcheck // the test is over
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "") }()
	p.must(listener.(*net.UnixListener).SetDeadline(time.Now().Add(time.Minute)))
	test, err := listener.Accept()
	p.must(err)
	interrupt()
	_, _ = io.Copy(io.Discard, test) // until the test that waits has ended
	if err := <-ended; err == nil {
		t.Error("it ends well")
	}
	p.expectCleanedUp()
}

func TestWhatAKilledRunLeftIsNotInTheWay(t *testing.T) {
	p := newProject(t)
	killed, err := openWorktree(p.path(logs))
	p.must(err)
	if _, err := openWorktree(p.path(logs)); err == nil {
		t.Error("two runs use the same worktree")
	}
	p.must(killed.lock.Close())
	p.breaks("one", "TestAdd", right, wrong)
	p.must(run(t.Context(), ""))
	p.expectCleanedUp()
}

func TestTheTableSaysWhatBecameOfEachBreak(t *testing.T) {
	rows := []row{
		{name: "order", outcome: caught, took: 1500 * time.Millisecond, note: "go test ./flow"}, {name: "quorum", outcome: notCaught},
		{name: "key", outcome: faulty, note: "the patch does not apply"}, {name: "race", outcome: notRun},
	}
	var out bytes.Buffer
	if err := writeTable(&out, "abc", rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"commit abc", "order   caught      1.5      go test ./flow", "1 caught, 1 not caught, 1 faulty, 1 not run"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}
