package main

import (
	"context"
	"os"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/balancers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/isolation"
)

// install installs what is missing, which needs the machine's own network, and then calls inside in namespaces of its own.
func install(ctx context.Context, inside func() error) error {
	if !isolation.Inside() {
		if err := balancers.Install(ctx); err != nil {
			return err
		}
	}
	var err error
	code := isolation.Run(func() int {
		err = inside()
		return 0
	})
	if code != 0 {
		os.Exit(code) // Who was inside has said why.
	}
	return err
}
