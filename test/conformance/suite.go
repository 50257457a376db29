package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/processgroup"
)

// suite is Kubernetes' own test binary.
type suite struct {
	*artifacts.Conformance
	// kubectl is a program of the same version.
	kubectl string
	// out is the folder for reports and logs, an absolute path: specs run in the folder of their binary.
	out       string
	processes int
	timeout   time.Duration
}

// stopLimit is the time for specs to end after an interrupt.
const stopLimit = 30 * time.Second

// provider says that nothing is known of the machines that the cluster runs on.
const provider = "--provider=skeleton"

// specs lists all conformance specs, without a cluster.
func (s *suite) specs(ctx context.Context) ([]string, error) {
	report := filepath.Join(s.out, "specs.json")
	cmd := exec.CommandContext(ctx, s.Program, "--ginkgo.dry-run", "--ginkgo.focus="+regexp.QuoteMeta(conformanceTag), "--ginkgo.json-report="+report,
		provider, "--kubeconfig=")
	if err := s.start(cmd, "specs.log", nil); err != nil {
		return nil, err
	}
	listed, err := readReport(report)
	if err != nil {
		return nil, err
	}
	return conformanceSpecs(listed), nil
}

// run runs specs against the cluster of a kubeconfig file. That some fail is no error but part of the report.
func (s *suite) run(ctx context.Context, names []string, kubeconfig string, progress io.Writer) (*types.Report, error) {
	const name = "report.json"
	file := filepath.Join(s.out, name)
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, s.Ginkgo, "run", "--no-color", "--silence-skips",
		"--procs="+strconv.Itoa(s.processes), "--timeout="+s.timeout.String(), "--focus="+focus(names),
		"--output-dir="+s.out, "--json-report="+name, s.Program, "--",
		provider, "--kubeconfig="+kubeconfig, "--kubectl-path="+s.kubectl)
	err := s.start(cmd, "log", progress)
	var exit *exec.ExitError
	if err != nil && (ctx.Err() != nil || !errors.As(err, &exit)) {
		return nil, err
	}
	report, reportErr := readReport(file)
	if reportErr != nil {
		return nil, errors.Join(err, reportErr)
	}
	return report, nil
}

// focus is an expression for the names and no other ones.
func focus(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	// Ginkgo compares it with the suite's description, a space, and the name.
	return " (" + strings.Join(quoted, "|") + ")$"
}

// start runs a command to its end. What it prints goes into a file of the output folder, and to progress if there is one.
// When the context ends, it and the processes that it started are asked to stop.
func (s *suite) start(cmd *exec.Cmd, log string, progress io.Writer) (err error) {
	file, err := os.Create(filepath.Join(s.out, log))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var out io.Writer = file
	if progress != nil {
		out = io.MultiWriter(file, progress)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := processgroup.Run(cmd, stopLimit); err != nil {
		return fmt.Errorf("%s: %w; what it printed is in %s", filepath.Base(cmd.Path), err, file.Name())
	}
	return nil
}
