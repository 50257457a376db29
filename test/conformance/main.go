// Command conformance runs Kubernetes' own conformance tests against a tenant: those that need no container image from a
// registry. It needs the lab with the providers installed, makes a tenant with two workers, and takes both away again.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/progress"
)

func main() { program.Run("conformance", command(), "") }

type options struct {
	repository, programs, template, out string
	processes                           int
	timeout                             time.Duration
	list                                bool
	only                                string
}

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Kubernetes' conformance tests against a tenant in the lab",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&o.repository, "repository", "out", "folder that make release-manifests wrote")
	cmd.Flags().StringVar(&o.programs, "programs", "bin", "folder with the programs of the providers")
	cmd.Flags().StringVar(&o.template, "template", "templates/cluster-template.yaml", "template of the tenant")
	cmd.Flags().StringVar(&o.out, "out", "out/conformance", "folder for the report, the log, and the list of what was skipped")
	cmd.Flags().IntVar(&o.processes, "processes", 4, "tests that run at once")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Hour, "time for all tests together")
	cmd.Flags().BoolVar(&o.list, "list", false, "only say what would run and what not; needs no lab")
	cmd.Flags().StringVar(&o.only, "only", "", "run only specs whose names match this expression, and write no figures")
	return cmd
}

func (o *options) run(ctx context.Context) (err error) {
	log := progress.New(os.Stdout, time.Now())
	version := artifacts.DefaultVersions().Host
	s, p, err := o.plan(ctx, version, log)
	if err != nil {
		return err
	}
	if o.only != "" {
		if err := p.only(o.only); err != nil {
			return err
		}
	}
	if o.list {
		for _, name := range p.run {
			fmt.Fprintln(log, name)
		}
		log.Print("%d of %d conformance specs run; why others do not: %s", len(p.run), p.total(), o.file("skipped.txt"))
		return o.writeSkipped(p.skipped)
	}
	c, err := open(ctx, o, log, s.Images)
	if err != nil {
		return err
	}
	// What was made goes also after an interrupt.
	defer func() { err = errors.Join(err, c.close(context.WithoutCancel(ctx))) }()
	kubeconfig, err := c.prepare(ctx)
	if err != nil {
		return err
	}
	s.kubectl = c.tenant.Kubectl
	log.Title(fmt.Sprintf("%d of %d conformance specs", len(p.run), p.total()))
	report, err := s.run(ctx, p.run, kubeconfig, log)
	if err != nil {
		return err
	}
	return o.tell(judge(p, report), version, log)
}

// plan builds the tests and says which run.
func (o *options) plan(ctx context.Context, version string, log *progress.Log) (*suite, *plan, error) {
	out, err := filepath.Abs(o.out)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, nil, err
	}
	cache, err := artifacts.CacheDir()
	if err != nil {
		return nil, nil, err
	}
	built, err := artifacts.EnsureConformance(ctx, cache, version, func(step string) { log.Print("%s", step) })
	if err != nil {
		return nil, nil, err
	}
	s := &suite{Conformance: built, out: out, processes: o.processes, timeout: o.timeout}
	specs, err := s.specs(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list the conformance specs of %s: %w", version, err)
	}
	chosen, err := parseSelection(specsFile)
	if err != nil {
		return nil, nil, err
	}
	p, err := chosen.plan(specs)
	if err != nil {
		return nil, nil, fmt.Errorf("test/conformance/specs.yaml is not for Kubernetes %s: %w", version, err)
	}
	return s, p, nil
}

// tell prints and writes what became of the specs; a failure is an error.
func (o *options) tell(r *result, version string, log *progress.Log) error {
	fmt.Fprintln(log)
	r.write(log, version)
	fmt.Fprintf(log, "\nwhat was skipped and why: %s\n", o.file("skipped.txt"))
	measured := []figures.Figure{figures.New("conformance_passed", r.passed, "specs"), figures.New("conformance_failed", r.failures(), "specs")}
	err := o.writeSkipped(r.plan.skipped)
	if o.only == "" {
		for _, figure := range measured {
			fmt.Fprintln(log, figure)
		}
		err = errors.Join(err, figures.Write("conformance", measured))
	}
	if err != nil {
		return err
	}
	if r.failures() > 0 {
		return fmt.Errorf("%d conformance specs failed; more of them is in %s", r.failures(), o.file("log"))
	}
	return nil
}

func (o *options) writeSkipped(groups []group) (err error) {
	file, err := os.Create(o.file("skipped.txt"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return writeSkipped(file, groups)
}

func (o *options) file(name string) string { return filepath.Join(o.out, name) }
