// Command envtest-assets fills a folder with links to etcd and kube-apiserver, as KUBEBUILDER_ASSETS wants it. It builds
// those that are not in the cache, for which it needs neither root nor the lab.
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
	server, err := artifacts.EnsureAPIServer(ctx, cache, func(step string) { fmt.Fprintln(os.Stderr, step) })
	if err != nil {
		return err
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return err
	}
	for _, program := range []string{server.Etcd, server.KubeAPIServer} {
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
