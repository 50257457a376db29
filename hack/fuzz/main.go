// Command fuzz fuzzes every target of the project for a while, one after the other: make fuzz. It finds them by their code, so
// that a new one is among them without being listed. What fails is kept by Go in testdata/fuzz of the package: mend the code,
// and commit the file as a seed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
)

// minimizeTime is how long Go makes an input that fails smaller.
const minimizeTime = "10s"

func main() {
	cmd := &cobra.Command{Use: "fuzz", Short: "Fuzz every target of the project", Args: cobra.NoArgs}
	each := cmd.Flags().Duration("time", 30*time.Second, "how long each target is fuzzed")
	only := cmd.Flags().String("only", "", "fuzz the targets alone whose package or name contains this")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), *each, *only) }
	program.Run("fuzz", cmd, "")
}

func run(ctx context.Context, each time.Duration, only string) error {
	all, err := find(ctx, "./...")
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("find the folder for the corpus: %w", err)
	}
	fuzzed := 0
	var failures []error
	for _, t := range all {
		if !strings.Contains(t.String(), only) {
			continue
		}
		fmt.Printf("---- %s\n", t)
		if err := fuzz(ctx, t, each, filepath.Join(cache, "kok-fuzz")); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", t, err))
		}
		if ctx.Err() != nil {
			return errors.Join(failures...)
		}
		fuzzed++
	}
	if fuzzed == 0 {
		return fmt.Errorf("no target's package or name contains %q", only)
	}
	if only == "" {
		figure := figures.New("fuzz_targets", fuzzed, "targets")
		fmt.Println(figure)
		failures = append(failures, figures.Write("fuzz", []figures.Figure{figure}))
	}
	return errors.Join(failures...)
}

// fuzz fuzzes one target; its seeds run first. When its time is over, an interrupt ends it. The flag -fuzztime would end it, too, but Go 1.26
// may report that end as a failure (https://go.dev/issue/75804). Go keeps inputs that fail in testdata/fuzz of the package, and inputs that
// lead to new code in the folder corpus.
func fuzz(ctx context.Context, t target, each time.Duration, corpus string) error {
	temporary, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return fmt.Errorf("make a folder for the test program: %w", err)
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	binary := filepath.Join(temporary, "fuzz.test")
	if err := command(ctx, t, "go", "test", "-c", "-vet=off", "-fuzz=^"+t.name+"$", "-o", binary, t.pkg).Run(); err != nil {
		return fmt.Errorf("build the test program: %w", err)
	}
	fuzzing, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	err = command(fuzzing, t, binary, "-test.run=^"+t.name+"$", "-test.fuzz=^"+t.name+"$", "-test.fuzzminimizetime="+minimizeTime,
		"-test.fuzzcachedir="+filepath.Join(corpus, filepath.FromSlash(t.pkg))).Run()
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // It ended well after the interrupt: a target that fails then has an exit status.
	}
	return err
}

// command is a program that runs in the folder of a target's package until it ends, or the context does.
func command(ctx context.Context, t target, name string, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.folder, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	return cmd
}
