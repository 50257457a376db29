package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/beside"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// directories are where benchmarks have their files, below the machine's directory for temporary files.
const directories = "kok-bench-lb-*"

// removeFormer removes the files of benchmarks that were killed. It needs the claim of the machine: none runs.
func removeFormer() error {
	former, err := filepath.Glob(filepath.Join(os.TempDir(), directories))
	failed := []error{err}
	for _, directory := range former {
		failed = append(failed, os.RemoveAll(directory))
	}
	return errors.Join(failed...)
}

// findOthers prints what there is in a lab that is up; the benchmark itself needs no lab.
func findOthers(ctx context.Context) *beside.Others {
	others, err := readLab(ctx)
	switch {
	case err != nil:
		fmt.Printf("beside it: the lab, whose host cluster does not answer: %v\n", err)
	case others == nil:
		fmt.Println("beside it: no lab is up")
	default:
		fmt.Printf("beside it: the lab; %s\n", others)
	}
	return others
}

// readLab gives nil when no lab is up.
func readLab(ctx context.Context) (*beside.Others, error) {
	opened, err := lab.Open(lab.StateDirectory())
	if err != nil {
		return nil, err
	}
	hosts, err := opened.Hosts()
	if err != nil || !slices.ContainsFunc(hosts, (*host.Host).Booted) {
		return nil, err
	}
	config, err := opened.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.Timeout = 5 * time.Second
	reader, err := kube.New(config, kube.Options{Scheme: scheme.Scheme()})
	if err != nil {
		return nil, err
	}
	return beside.Find(ctx, reader, hosts, "")
}
