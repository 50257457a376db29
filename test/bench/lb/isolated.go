package main

import (
	"context"
	"errors"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/balancers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/beside"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/machine"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/isolation"
)

// errInside says that the program inside failed: it has said why.
var errInside = errors.New("the benchmark failed")

// isolated calls inside in namespaces of its own. Before, and after it came to its end, it does what needs the machine's own
// network: it installs what is missing, and looks after the lab that may be up.
func isolated(ctx context.Context, inside func() error) error {
	var others *beside.Others
	if !isolation.Inside() {
		release, err := machine.Claim()
		if err != nil {
			return err
		}
		defer release()
		if err := removeFormer(); err != nil {
			return err
		}
		others = findOthers(ctx)
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
		return errInside
	}
	if err != nil || others == nil {
		return err
	}
	return others.Recovered(ctx)
}
