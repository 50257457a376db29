package previousrelease

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:embed commit
var pinned string

// Commit is the pinned commit.
func Commit() string { return strings.TrimSpace(pinned) }

// Checkout makes folder a git worktree of a commit of the clone that root is in. One that is there already stays, and
// with it what was built there.
func Checkout(ctx context.Context, root, folder, commit string) error {
	if err := find(ctx, root, commit); err != nil {
		return err
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	if isAt(ctx, folder, commit) {
		return nil
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("remove what is in the way of a worktree: %w", err)
	}
	_, err = git(ctx, root, "worktree", "add", "--force", "--detach", folder, commit)
	return err
}

// find tells whether a clone has a commit, and what to do when it has not.
func find(ctx context.Context, root, commit string) error {
	_, missing := git(ctx, root, "cat-file", "-e", commit+"^{commit}")
	if missing == nil {
		return nil
	}
	shallow, err := git(ctx, root, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return err
	}
	if shallow == "true" {
		return fmt.Errorf("commit %s is not in this shallow clone: git fetch --unshallow", commit)
	}
	return errors.Join(fmt.Errorf("commit %s is not in this clone: git fetch the branch main, or pin another commit in hack/previous-release/commit", commit), missing)
}

// isAt reports whether a folder is the top of a worktree of a commit. A folder that is none of its own is in the clone
// around it, whose commit may be the same.
func isAt(ctx context.Context, folder, commit string) bool {
	if _, err := os.Stat(filepath.Join(folder, ".git")); err != nil {
		return false
	}
	head, err := git(ctx, folder, "rev-parse", "HEAD")
	if err != nil || head != commit {
		return false
	}
	// Files that a former attempt did not get to count as deleted.
	changed, err := git(ctx, folder, "status", "--porcelain", "--untracked-files=no")
	return err == nil && changed == ""
}

func git(ctx context.Context, folder string, args ...string) (string, error) {
	output, err := run(ctx, folder, nil, "git", args...)
	return strings.TrimSpace(output), err
}
