// Command envtest-assets fills a folder with links to the lab's etcd, kube-apiserver and kubectl, as
// KUBEBUILDER_ASSETS wants it, and to the Debian system of the lab's hosts. It builds what the cache has
// not.
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
	links := map[string]string{"debian": set.RootFS}
	for _, program := range []string{set.Etcd, set.Kubectl, filepath.Join(kubernetes, "kube-apiserver")} {
		links[filepath.Base(program)] = program
	}
	for name, target := range links {
		link := filepath.Join(args[0], name)
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	return nil
}
