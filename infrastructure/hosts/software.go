package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// softwareDir is the folder of the program kok-software.
var softwareDir = path.Clean(software.Dir)

const (
	// maxResult is how much of a result file is read, in bytes.
	maxResult = 64 << 10
	// maxComponent is the length of a component's name, as the schema of KOKSoftware has it.
	maxComponent = 63
	// maxAvoided is how many avoided sources a message names.
	maxAvoided = 5
)

// softwareProblem says why kok-software could not install the software of a machine, fit for a message. It is nil when the
// program did not run, had no problem, or wrote nothing that can be read.
func (h *Host) softwareProblem(ctx context.Context, file string) (*software.Result, error) {
	content, err := h.excerpt(ctx, "head", "--bytes="+strconv.Itoa(maxResult), "--", file)
	if err != nil {
		return nil, err
	}
	return problemIn(content), nil
}

// problemIn reads a result file. It trusts nothing in it, because any root user of the host may have written it.
func problemIn(content []byte) *software.Result {
	result := software.Result{}
	if json.Unmarshal(content, &result) != nil || result.Reason == "" {
		return nil
	}
	return &software.Result{
		Reason:    software.Reason(line(string(result.Reason), maxComponent)),
		Component: line(result.Component, maxComponent),
		Message:   line(result.Message, maxLine),
	}
}

// avoidedSources are those that the program kok-software avoided, fit for a message.
func (h *Host) avoidedSources(ctx context.Context, file string) ([]string, error) {
	content, err := h.excerpt(ctx, "head", "--bytes="+strconv.Itoa(maxResult), "--", file)
	if err != nil {
		return nil, err
	}
	return avoidedIn(content), nil
}

// avoidedIn reads the same result file, and trusts nothing in it either.
func avoidedIn(content []byte) []string {
	result := software.Result{}
	if json.Unmarshal(content, &result) != nil {
		return nil
	}
	return tellable(result.Avoided)
}

// tellable returns the sources in a file of the host, fit for a message.
func tellable(sources []string) []string {
	var told []string
	for i, source := range sources {
		// One more is told as soon as the count of the rest would be. What was told once is told the same again.
		if more := len(sources) - i; i == maxAvoided && more > 1 {
			return append(told, fmt.Sprintf("and %d more", more))
		}
		told = append(told, line(source, maxLine))
	}
	return told
}

// removeSoftware runs kok-software to undo all that it did on the host.
func (h *Host) removeSoftware(ctx context.Context, dir string) error {
	program := path.Join(dir, strings.TrimPrefix(software.Program, software.Dir))
	there, err := h.existing(ctx, dir, program)
	if err != nil || len(there) == 0 {
		return err
	}
	if !slices.Contains(there, program) {
		return h.removeUnused(ctx, dir)
	}
	running, err := h.nodeRuns(ctx)
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return fmt.Errorf("it stays, for without it these could not be ended: %s", strings.Join(running, "; "))
	}
	return h.undo(ctx, program)
}

// undo runs the program and ignores its output.
func (h *Host) undo(ctx context.Context, program string) error {
	args := []string{program, "remove"}
	result, err := h.connection.Run(ctx, ssh.Command{Args: slices.Concat(h.sudo, args), MayBeCut: true})
	if err == nil && result.ExitStatus != 0 {
		err = &CommandError{Command: args, ExitStatus: result.ExitStatus, Output: lastLine(result.Stderr)}
	}
	return err
}

// nodeRuns names running units and containers of a node.
func (h *Host) nodeRuns(ctx context.Context) ([]string, error) {
	units, err := h.unitsLeft(ctx)
	if err != nil {
		return nil, err
	}
	containers, err := h.containersLeft(ctx)
	return append(units, containers...), err
}

// removeUnused removes the folder of kok-software when the program is missing because its download failed. Then there is
// only the folder bin, and the result that the bootstrap data wrote. Anything else was left by a program that did run, and is
// an error.
func (h *Host) removeUnused(ctx context.Context, dir string) error {
	output, err := h.run(ctx, "find", dir, "-mindepth", "1", "-path", dir+"/bin", "-prune", "-o",
		"-not", "-type", "d", "-not", "-path", dir+"/"+path.Base(software.ResultFile)+"*", "-print0", "-quit")
	if err != nil {
		return err
	}
	if kept := list(output); len(kept) > 0 {
		return fmt.Errorf("%s is there, and the program %s, which alone knows what it changed on the host, is gone: put it back as "+
			"docs/data-centre-hosts.md#clean-a-host-by-hand says", tidy(kept[0]), path.Join(dir, strings.TrimPrefix(software.Program, software.Dir)))
	}
	return h.removePaths(ctx, dir)
}
