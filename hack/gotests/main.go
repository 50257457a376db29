// Command gotests runs Go's tests of the project that need no lab. Packages that are parallel by their own hand are tested
// with Go's race detector; it finds them by their code, so that a new one is among them without being listed.
//
//	gotests race      unit tests of parallel packages, with the race detector (make test-race)
//	gotests others    all other tests, those with build tags too (make test-others)
//	gotests every     all tests with the race detector, and every case where others run a sample
//	gotests findings  those that are named after findings of an audit of security (make test-findings)
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/golist"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// tags are the build tags of tests that need no lab.
const tags = "envtest,root"

// sideBySide is how many parallel tests of a package run at once. They mostly wait for an API server.
const sideBySide = "-parallel=4"

// packagesAtOnce is how many packages are tested at once, one more than the two cores of CI: their tests mostly wait, and the longest one
// takes longer than all others together on one core.
const packagesAtOnce = "-p=3"

// rarelyCollected has the compiler, the tests and the API servers that they start collect garbage less often, as long as a program takes less
// than two GiB: they take a fifth less processor time so.
var rarelyCollected = []string{"GOGC=400", "GOMEMLIMIT=2GiB"}

func main() {
	cmd := &cobra.Command{Use: "gotests", Short: "Run Go's tests that need no lab"}
	for use, run := range map[string]func(context.Context) error{"race": race, "others": others, "every": every, "findings": findings} {
		cmd.AddCommand(&cobra.Command{Use: use, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context()) }})
	}
	program.Run("gotests", cmd, "")
}

func race(ctx context.Context) error {
	packages, err := golist.Packages(ctx, "", product...)
	if err != nil {
		return err
	}
	var tested []string
	for _, p := range packages {
		is, err := parallel(p)
		if err != nil {
			return err
		}
		if is && len(p.TestFiles()) > 0 {
			tested = append(tested, p.ImportPath)
		}
	}
	if err := goTest(ctx, "out/test-race.json", detector, tested); err != nil {
		return err
	}
	figure := figures.New("race_packages", len(tested), "packages")
	fmt.Println(figure)
	return figures.Write("test-race", []figures.Figure{figure})
}

func others(ctx context.Context) error {
	packages, err := golist.Packages(ctx, tags, everything)
	if err != nil {
		return err
	}
	untagged, err := golist.Packages(ctx, "", product...)
	if err != nil {
		return err
	}
	known := byPath(untagged)
	var tested []golist.Package
	for _, p := range packages {
		raced := false
		if u, ok := known[p.ImportPath]; ok {
			if raced, err = parallel(u); err != nil {
				return err
			}
			raced = raced && len(p.TestFiles()) == len(u.TestFiles())
		}
		if len(p.TestFiles()) > 0 && !raced {
			tested = append(tested, p)
		}
	}
	ordered, err := longestFirst(tested)
	if err != nil {
		return err
	}
	return goTest(ctx, "out/test-others.json", plain, ordered, "-tags="+tags, "-timeout=45m", sideBySide, packagesAtOnce)
}

func every(ctx context.Context) error {
	if err := os.Setenv(sample.Variable, sample.Every); err != nil {
		return err
	}
	return goTest(ctx, "out/test-every.json", detector, []string{everything}, "-tags="+tags, "-timeout=2h", sideBySide)
}

// instrument says whether go test looks for races.
type instrument bool

const (
	plain    instrument = false
	detector instrument = true
)

// goTest runs the tests of packages, and shows what those print that fail. The report has what each test came to.
func goTest(ctx context.Context, report string, with instrument, packages []string, flags ...string) error {
	args := []string{"--format=pkgname-and-test-fails", "--hide-summary=skipped,output", "--jsonfile=" + report, "--"}
	args = append(append(args, "-vet=off"), flags...) // make lint has run vet
	cmd := exec.CommandContext(ctx, "bin/gotestsum")
	cmd.Env = append(os.Environ(), rarelyCollected...)
	if with == detector {
		if err := artifacts.EnsureCompiler(ctx, func(step string) { fmt.Println(step) }); err != nil {
			return fmt.Errorf("the race detector needs a C compiler: %w", err)
		}
		args = append(args, "-race")
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	cmd.Args = append(append(cmd.Args, args...), packages...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go test %s: %w", strings.Join(flags, " "), err)
	}
	return nil
}
