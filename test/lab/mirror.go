package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/mirror"
)

func mirrorCommand(open opener) *cobra.Command {
	own := mirror.Own{}
	cmd := &cobra.Command{
		Use: mirror.Command, Short: "Serve what bare workers install themselves from, on the router, until it is interrupted or the lab goes down", Args: cobra.NoArgs,
		RunE: open.run(func(ctx context.Context, l *lab.Lab, _ []string) error {
			return own.Serve(ctx, l, tell, progress(time.Now()))
		}),
	}
	own.AddFlags(cmd.Flags())
	return cmd
}

// tell says how a mirror is used.
func tell(m *mirror.Mirror, content mirror.Content) error {
	authority := filepath.Join(content.Scratch, "ca.crt")
	if err := os.WriteFile(authority, []byte(m.CABundle), 0o644); err != nil {
		return err
	}
	fmt.Printf("\nfiles and images: %s, by the authority in %s\n", m.URL, authority)
	if content.Repository != nil {
		fmt.Printf("apt: %s\nits key:\n%s\n", m.Source(), content.Repository.Key)
	}
	return nil
}
