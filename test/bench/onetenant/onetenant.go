// Package onetenant is what benchmarks have in common that measure one tenant of the lab at a time.
package onetenant

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/beside"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/machine"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/progress"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/session"
)

// Bench is the lab with the benchmark's tenant, which is in a namespace of its own name.
type Bench struct {
	*session.Session
	Tenant *tenant.Tenant
	// Others are in the lab beside what is measured, as Look found them.
	Others *beside.Others
}

// Command is a benchmark with a tenant of that name, made from a template. It runs while no other benchmark does.
func Command(name, short, template string, check func() error, run func(ctx context.Context, b *Bench) error) *cobra.Command {
	var repository string
	cmd := &cobra.Command{Use: name, Short: short, Args: cobra.NoArgs}
	cmd.Flags().StringVar(&repository, "repository", "out", "folder that make release-manifests wrote")
	cmd.Flags().StringVar(&template, "template", template, "template of the tenant")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := check(); err != nil {
			return err
		}
		release, err := machine.Claim()
		if err != nil {
			return err
		}
		defer release()
		s, err := session.Open(cmd.Context(), progress.New(os.Stdout, time.Now()))
		if err != nil {
			return err
		}
		return run(cmd.Context(), &Bench{Session: s, Tenant: s.Tenant("bench-"+name, template, repository)})
	}
	return cmd
}

// Look finds and tells what is in the lab beside the benchmark.
func (b *Bench) Look(ctx context.Context) error {
	hosts, err := b.Hosts()
	if err != nil {
		return err
	}
	if b.Others, err = beside.Find(ctx, b.Client, hosts, b.Tenant.Key.Namespace); err != nil {
		return err
	}
	b.Log.Print("beside it: %s", b.Others)
	return nil
}

// API is the tenant's, as its administrator has it. The client does not slow requests down.
func (b *Bench) API(ctx context.Context) (*kubernetes.Clientset, error) {
	kubeconfig, err := secret.Get(ctx, b.Client, b.Tenant.Key, secret.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig.Data[secret.KubeconfigDataName])
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

// Report tells and keeps what was measured.
func (b *Bench) Report(measured []figures.Figure) error {
	_, err := fmt.Fprintf(b.Log, "\nbeside it: %s\n", b.Others)
	for _, figure := range measured {
		_, failed := fmt.Fprintln(b.Log, figure)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, figures.Write(b.Tenant.Key.Name, measured))
}
