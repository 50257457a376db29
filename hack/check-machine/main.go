// Command check-machine checks that this machine can run the lab, before anything takes long.
package main

import (
	"fmt"
	"os"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/machine"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	cache, err := artifacts.CacheDir()
	if err != nil {
		return err
	}
	if err := machine.LabNeeds(cache).Check(); err != nil {
		return fmt.Errorf("this machine cannot run the lab:\n%w", err)
	}
	return nil
}
