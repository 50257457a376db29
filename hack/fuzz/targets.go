package main

import (
	"context"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/golist"
)

// target is one function that Go fuzzes, and the folder of its package.
type target struct{ pkg, folder, name string }

func (t target) String() string { return t.pkg + " " + t.name }

// find gives the targets of the packages that match the patterns, by package and name.
func find(ctx context.Context, patterns ...string) ([]target, error) {
	packages, err := golist.Packages(ctx, "", patterns...)
	if err != nil {
		return nil, err
	}
	var all []target
	for _, p := range packages {
		names, err := p.Functions("Fuzz", "F")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			all = append(all, target{p.ImportPath, p.Dir, name})
		}
	}
	return all, nil
}
