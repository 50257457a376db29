package artifacts

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

//go:embed pause/pause.c
var pauseSource []byte

// buildPause compiles the pod sandbox's program, in C because every pod keeps one in memory.
func buildPause(ctx context.Context, cache string) (string, error) {
	flags := []string{"-static", "-Os", "-s", "-Wall", "-Wextra", "-Werror"}
	dir := filepath.Join(cache, "bin", "pause-"+key(slices.Concat(flags, []string{string(pauseSource)})...))
	if exists(dir) {
		return dir, nil
	}
	err := publish(dir, func(tmp string) error {
		if err := os.MkdirAll(tmp, 0o755); err != nil {
			return err
		}
		args := slices.Concat(flags, []string{"-x", "c", "-o", filepath.Join(tmp, "pause"), "-"})
		_, err := run(ctx, command{name: "gcc", args: args, stdin: pauseSource})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("build pause: %w", err)
	}
	return dir, nil
}
