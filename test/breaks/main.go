// Command breaks tests the tests: it breaks the product in ways that a reviewer may miss, one at a time, and wants the test
// that each patch names to fail. It is make test-breaks.
//
// Each file in patches is one break: headers, which break.go reads, and a diff that git apply takes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

const (
	// folder is where breaks are, and logs where the worktree and what tests write are, from the top folder of the repository.
	folder = "test/breaks/patches"
	logs   = "out/breaks"
)

func main() {
	only := flag.String("only", "", "names of the breaks to try, separated by commas; empty for all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "breaks:", err)
		os.Exit(1)
	}
}

// run tries the chosen breaks, and prints and writes what became of them. All must be caught.
func run(ctx context.Context, only string) (err error) {
	all, err := load(folder)
	if err != nil {
		return err
	}
	chosen, err := choose(all, only)
	if err != nil {
		return err
	}
	top, err := os.Getwd()
	if err != nil {
		return err
	}
	tree, err := openWorktree(filepath.Join(top, logs))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tree.close()) }()
	rows := try(ctx, tree, chosen)
	if err := writeTable(os.Stdout, tree.commit, rows); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return report(rows)
}

// report prints and writes the figures.
func report(rows []row) error {
	caughtRows := 0
	for _, r := range rows {
		if r.outcome == caught {
			caughtRows++
		}
	}
	measured := []figures.Figure{figures.New("breaks_total", len(rows), "breaks"), figures.New("breaks_caught", caughtRows, "breaks")}
	for _, figure := range measured {
		fmt.Println(figure)
	}
	if err := figures.Write("test-breaks", measured); err != nil {
		return err
	}
	if caughtRows < len(rows) {
		return fmt.Errorf("%d of %d breaks are not caught", len(rows)-caughtRows, len(rows))
	}
	return nil
}
