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
	fuzzed := 0
	var failures []error
	for _, t := range all {
		if !strings.Contains(t.String(), only) {
			continue
		}
		fmt.Printf("---- %s\n", t)
		if err := fuzz(ctx, t, each); err != nil {
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

// fuzz fuzzes one target; its seeds run first. Go 1.26 may call it a failure that the time was over, without an input that fails
// (https://go.dev/issue/75804): what fails without one is tried once more, and a seed that fails does so again.
func fuzz(ctx context.Context, t target, each time.Duration) error {
	before, err := t.inputs()
	if err != nil {
		return err
	}
	failure := once(ctx, t, each)
	after, err := t.inputs()
	if err != nil {
		return errors.Join(failure, err)
	}
	if failure == nil || after > before || ctx.Err() != nil {
		return failure
	}
	fmt.Printf("%s failed and kept no input: it is fuzzed once more\n", t)
	return once(ctx, t, each)
}

func once(ctx context.Context, t target, each time.Duration) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-run=^"+t.name+"$", "-fuzz=^"+t.name+"$", "-fuzztime="+each.String(), "-fuzzminimizetime="+minimizeTime, t.pkg)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.folder, os.Stdout, os.Stderr
	// Go ends what it fuzzes on an interrupt, and keeps what it found.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	return cmd.Run()
}
