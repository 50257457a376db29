// Command envtest-assets fills a folder with links to the lab's etcd, kube-apiserver and kubectl, as
// KUBEBUILDER_ASSETS wants it, and builds them when the cache has none.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "envtest-assets:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: envtest-assets FOLDER")
	}
	cache, err := artifacts.CacheDir()
	if err != nil {
		return err
	}
	set, err := artifacts.Ensure(ctx, cache, func(step string) { fmt.Fprintln(os.Stderr, step) })
	if err != nil {
		return err
	}
	kubernetes, err := set.BinDir(set.Versions.Host)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return err
	}
	for _, program := range []string{set.Etcd, set.Kubectl, filepath.Join(kubernetes, "kube-apiserver")} {
		link := filepath.Join(args[0], filepath.Base(program))
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(program, link); err != nil {
			return err
		}
	}
	return nil
}
