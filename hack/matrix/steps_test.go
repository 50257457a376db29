package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

func TestEveryStepMakesATargetOfTheMakefile(t *testing.T) {
	makefile := read(t, "../../Makefile")
	for _, target := range names(lists()) {
		if recipe(makefile, target) == "" {
			t.Errorf("there is no make %s", target)
		}
	}
	for s := range steps() {
		if recipe(makefile, s.target) == "" {
			t.Errorf("the step %s makes %s, which there is not", s.name, s.target)
		}
	}
}

func TestEveryStepKnowsWhetherItsTargetWritesAReport(t *testing.T) {
	makefile := read(t, "../../Makefile")
	for s := range steps() {
		if writes := strings.Contains(recipe(makefile, s.target), "-ginkgo.json-report="); writes != s.ginkgo {
			t.Errorf("make %s writes a report of ginkgo: %t, which the step %s says of itself: %t", s.target, writes, s.name, s.ginkgo)
		}
	}
}

func TestEveryLabelOfAStepIsOneOfTheSuite(t *testing.T) {
	suite := read(t, "../../test/e2e/suite_test.go")
	for s := range steps() {
		for _, label := range regexp.MustCompile(`\w+`).FindAllString(s.labels, -1) {
			if !strings.Contains(suite, `= "`+label+`"`) {
				t.Errorf("%s chooses specs by the label %s, which none has", s.name, label)
			}
		}
	}
}

// containers of specs that begin a line, and what each has in its Label.
var containers = regexp.MustCompile(`(?m)^(?:var _ = |\t+)(?:Describe|DescribeTable|It)\("([^"]+)".*?\bLabel\(([\w, ]+)\)`)

func TestEverySpecRunsInOneStepOfTestAll(t *testing.T) {
	labels := map[string]string{}
	for _, constant := range regexp.MustCompile(`(?m)^\t(\w+) += "(\w+)"$`).FindAllStringSubmatch(read(t, "../../test/e2e/suite_test.go"), -1) {
		labels[constant[1]] = constant[2]
	}
	files, err := filepath.Glob("../../test/e2e/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, file := range files {
		text := read(t, file)
		if !strings.Contains(text, "\nvar _ = Describe") {
			continue // its specs belong to a container in another file
		}
		var outer []string
		for _, found := range containers.FindAllStringSubmatch(text, -1) {
			var own []string
			for _, name := range strings.Split(found[2], ", ") {
				own = append(own, labels[name])
			}
			if strings.HasPrefix(found[0], "var _") {
				outer = own
			}
			all := append(slices.Clone(outer), own...)
			if !slices.ContainsFunc(all, func(l string) bool {
				return slices.Contains([]string{"gating", "full", "releases", "move", "host_versions", "host_upgrade"}, l)
			}) {
				continue // its specs have these labels
			}
			if slices.Contains(all, "modes") && !slices.Contains(all, "pod_network") {
				all = append(all, "host_network") // each mode has one of the two
			}
			if in := stepsOf(t, all); len(in) != 1 {
				t.Errorf("%s: %q, labelled %q, runs in the steps %q", file, found[1], all, in)
			}
			checked++
		}
	}
	if checked < 25 {
		t.Errorf("only %d containers and specs were found", checked)
	}
}

// stepsOf are the steps of make test-all that run a spec with these labels; of several that differ by their host cluster alone
// the first.
func stepsOf(t *testing.T, labels []string) (found []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range everySpec {
		chosen, err := types.ParseLabelFilter(s.labels)
		if err != nil {
			t.Fatal(err)
		}
		if chosen(labels) && !seen[s.labels] {
			found = append(found, s.name)
			seen[s.labels] = true
		}
	}
	return found
}

func TestEveryHostClusterThatIsSupportedHasAStep(t *testing.T) {
	on := map[string][]string{}
	for _, s := range everySpec {
		if s.hostVersion != "" {
			on[s.labels] = append(on[s.labels], s.hostVersion)
		}
	}
	versions := artifacts.HostVersions()
	want := map[string][]string{"host_versions": versions, "host_upgrade": {versions[len(versions)-2]}}
	if !maps.EqualFunc(on, want, slices.Equal) {
		t.Errorf("there are steps on %v, want %v", on, want)
	}
}

func TestAStepWithAHostClusterOfItsOwnLeavesNoLab(t *testing.T) {
	failed := errors.New("failed")
	plain := step{target: "test-e2e", args: []string{"E2E_LABELS=a"}}
	for name, test := range map[string]struct {
		step step
		err  error
		want []string
	}{
		"another step leaves the lab as it is": {plain, nil, []string{"test-e2e E2E_LABELS=a"}},
		"it has a lab of its own":              {plain.on("v1.35.4"), nil, []string{"clean-lab test-e2e E2E_LABELS=a HOST_VERSION=v1.35.4", "clean-lab"}},
		"also when it failed":                  {plain.on("v1.35.4"), failed, []string{"clean-lab test-e2e E2E_LABELS=a HOST_VERSION=v1.35.4", "clean-lab"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var made []string
			err := test.step.make(ctx, func(ctx context.Context, targets ...string) error {
				if ctx.Err() != nil {
					t.Error("it has no time left for what it makes last")
				}
				made = append(made, strings.Join(targets, " "))
				interrupt()
				if len(made) > 1 {
					return nil
				}
				return test.err
			})
			if !slices.Equal(made, test.want) || !errors.Is(err, test.err) {
				t.Errorf("it made %q, %v, want %q, %v", made, err, test.want, test.err)
			}
		})
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// recipe is the rule of a target with what it runs; empty when there is none.
func recipe(makefile, target string) string {
	return regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:.*\n(?:\t.*\n)*`).FindString(makefile)
}

// steps are those of every list.
func steps() iter.Seq[step] {
	return func(yield func(step) bool) {
		for _, l := range lists() {
			for _, s := range l.steps {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// cleanedUp is what the program of the interrupted step says at its end.
const cleanedUp = "cleaned up"

func TestAnInterruptedStepCleansUp(t *testing.T) {
	s := reexec.NewStage(t)
	long := step{name: "long", target: "long", args: []string{"PROGRAM=" + s.Cast("step")}}
	s.Must(os.WriteFile("Makefile", []byte("long:\n\t@$(PROGRAM)\n"), 0o600))
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan row, 1)
	go func() { ended <- long.run(ctx, ".") }()
	program := s.Accept()
	interrupt()
	s.Hear(program, cleanedUp)
	s.Gone(program)
	if result := <-ended; result.Outcome != failedOutcome {
		t.Errorf("the step %s", result.Outcome)
	}
}

// TestMain is also the program that the interrupted step runs: it tells the test that it runs, and cleans up.
func TestMain(m *testing.M) {
	if reexec.Role() == "" {
		os.Exit(m.Run())
	}
	if err := cleanUp(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// cleanUp waits until it is interrupted, and then says what the test waits for; it ends with the test.
func cleanUp() error {
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	test, err := reexec.Dial()
	if err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, test)
	}()
	select {
	case <-interrupted.Done():
		_, err = io.WriteString(test, cleanedUp)
	case <-gone:
	}
	return errors.Join(err, test.Close())
}
