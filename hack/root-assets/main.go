// Command root-assets installs what tests with the build tag root need besides root: the Debian packages that the lab
// needs on this machine, with OpenSSH's server among them, and the Debian system of the lab's hosts.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "root-assets:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cache, err := artifacts.CacheDir()
	if err != nil {
		return err
	}
	_, err = artifacts.EnsureDebian(ctx, cache, func(step string) { fmt.Fprintln(os.Stderr, step) })
	return err
}
