// Command vulncheck looks for known vulnerabilities in what the project's programs call: make vulncheck. It takes the address of a database
// of vulnerabilities, or the path of a copy. Without one it fails, because nothing was checked.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
)

// checker is the program that looks; make vulncheck builds it where there is a database.
const checker = "bin/govulncheck"

func main() {
	cmd := &cobra.Command{Use: "vulncheck", Short: "Look for known vulnerabilities in what the programs call", Args: cobra.NoArgs}
	db := cmd.Flags().String("db", "", "the address of a database of vulnerabilities, or the path of a copy")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return check(cmd.Context(), *db, execute) }
	program.Run("vulncheck", cmd, "")
}

var errNothingChecked = errors.New("nothing was checked, for no database of vulnerabilities is given: make vulncheck DB=https://vuln.go.dev, or DB=<path of a copy>")

// check looks for vulnerabilities of a database. A program is started by run.
func check(ctx context.Context, db string, run func(ctx context.Context, name string, args ...string) error) error {
	if db == "" {
		return errNothingChecked
	}
	address, err := addressOf(db)
	if err != nil {
		return err
	}
	return run(ctx, checker, "-db", address, "./...")
}

// addressOf is a database as a URL. The path of a copy must be that of a folder: a word that is mistyped would be one.
func addressOf(db string) (string, error) {
	if parsed, err := url.Parse(db); err == nil && parsed.Scheme != "" {
		if parsed.Scheme != "file" && parsed.Host == "" {
			return "", fmt.Errorf("%q is no address of a database: it names no host", db)
		}
		return db, nil
	}
	path, err := filepath.Abs(db)
	if err != nil {
		return "", err
	}
	if entry, err := os.Stat(path); err != nil || !entry.IsDir() {
		return "", errors.Join(fmt.Errorf("nothing was checked, for %s is no folder with a copy of a database", path), err)
	}
	return (&url.URL{Scheme: "file", Path: path}).String(), nil
}

func execute(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
