package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/mirror"
)

func mirrorCommand(open opener) *cobra.Command {
	s := mirror.Sources{}
	cmd := &cobra.Command{
		Use: "mirror", Short: "Serve what bare workers install themselves from, on the router, until it is interrupted", Args: cobra.NoArgs,
		RunE: open.run(func(ctx context.Context, l *lab.Lab, _ []string) error {
			return serveMirror(ctx, l, s, progress(time.Now()))
		}),
	}
	cmd.Flags().StringSliceVar(&s.Kubernetes, "kubernetes", []string{artifacts.DefaultVersions().Host}, "versions of kubelet")
	cmd.Flags().StringVar(&s.Programs, "programs", "bin", "folder with kok-software and kok-apiserver-lb, which make builds")
	cmd.Flags().StringVar(&s.ReleaseVersion, "release", "v0.1.0", "version of the release that has them")
	return cmd
}

// serveMirror serves until the context ends.
func serveMirror(ctx context.Context, l *lab.Lab, s mirror.Sources, progress func(string)) error {
	folder, err := os.MkdirTemp("", "kok-site-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // a temporary folder
	cache, err := artifacts.CacheDir()
	if err != nil {
		return err
	}
	set, err := artifacts.Ensure(ctx, cache, progress)
	if err != nil {
		return err
	}
	s.Images = set.WorkerImages
	content, err := mirror.Prepare(ctx, folder, s, progress)
	if err != nil {
		return err
	}
	m, err := mirror.Start(ctx, l, content)
	if err != nil {
		return err
	}
	authority := filepath.Join(folder, "ca.crt")
	if err := os.WriteFile(authority, []byte(m.CABundle), 0o644); err != nil {
		return err
	}
	fmt.Printf("\nfiles and images: %s, by the authority in %s\napt: %s\nits key:\n%s\n", m.URL, authority, m.Source(), content.Repository.Key)
	<-ctx.Done()
	return m.Close()
}
