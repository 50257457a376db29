package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// LoadProgram makes an image of a static program, its entry point, and loads it under the reference into the container
// stores of the named hosts; of all nodes that have power when none is named.
func (l *Lab) LoadProgram(ctx context.Context, reference, program string, hosts ...string) error {
	return l.LoadBuilt(ctx, artifacts.ProgramImage(reference, program), hosts...)
}

// LoadBuilt makes an image and loads it into the container stores of the named hosts; of all nodes that have power when
// none is named.
func (l *Lab) LoadBuilt(ctx context.Context, image artifacts.Image, hosts ...string) error {
	directory, err := os.MkdirTemp("", "kok-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory) //nolint:errcheck // a temporary directory
	archive, err := os.Create(filepath.Join(directory, "image.tar"))
	if err != nil {
		return err
	}
	if err := image.Write(archive); err != nil {
		_ = archive.Close()
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return l.LoadImage(ctx, archive.Name(), hosts...)
}

// LoadImage loads an image archive (docker save or OCI) into the container stores of the named hosts; of all nodes that
// have power when none is named.
func (l *Lab) LoadImage(ctx context.Context, archive string, hosts ...string) error {
	return l.locked(ctx, func() error {
		targets, err := l.imageTargets(hosts)
		if err != nil {
			return err
		}
		group, ctx := errgroup.WithContext(ctx)
		for _, h := range targets {
			group.Go(func() error {
				file, err := os.Open(archive)
				if err != nil {
					return err
				}
				defer file.Close() //nolint:errcheck // only read
				_, err = h.Exec(ctx, file, "ctr", "--namespace", "k8s.io", "images", "import", "-")
				return err
			})
		}
		return group.Wait()
	})
}

func (l *Lab) imageTargets(names []string) ([]*host.Host, error) {
	var targets []*host.Host
	for _, name := range names {
		h, err := l.Host(name)
		if err != nil {
			return nil, err
		}
		targets = append(targets, h)
	}
	if len(names) > 0 {
		return targets, nil
	}
	all, err := l.Hosts()
	if err != nil {
		return nil, err
	}
	for _, h := range nodes(all) {
		if h.Booted() {
			targets = append(targets, h)
		}
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("no host has power: bring the lab up first")
	}
	return targets, nil
}
