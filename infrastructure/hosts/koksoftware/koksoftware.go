// Package koksoftware reads what the program kok-software reports on a host, fit for messages, and has it undo all that it
// installed. It trusts nothing in a report, because any root user of the host may have written it.
package koksoftware

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
)

// Dir is the folder of kok-software on a host.
var Dir = path.Clean(software.Dir)

const (
	// maxResult is how much of a result file is read, in bytes.
	maxResult = 64 << 10
	// maxComponent is the length of a component's name, as the schema of KOKSoftware has it.
	maxComponent = 63
	// maxAvoided is how many avoided sources a message names.
	maxAvoided = 5
)

// read returns the beginning of a result file; nothing when there is no file.
func read(ctx context.Context, h *hosts.Host, file string) ([]byte, error) {
	return h.Excerpt(ctx, "head", "--bytes="+strconv.Itoa(maxResult), "--", file)
}

// Problem reads from a result file why kok-software could not install the software of a machine, fit for a message. It is nil
// when the program did not run, had no problem, or wrote nothing that can be read.
func Problem(ctx context.Context, h *hosts.Host, file string) (*software.Result, error) {
	content, err := read(ctx, h, file)
	return problemIn(content), err
}

func problemIn(content []byte) *software.Result {
	result := software.Result{}
	if json.Unmarshal(content, &result) != nil || result.Reason == "" {
		return nil
	}
	return &software.Result{
		Reason:    software.Reason(hosts.Line(string(result.Reason), maxComponent)),
		Component: hosts.Line(result.Component, maxComponent),
		Message:   hosts.Line(result.Message, hosts.MaxLine),
	}
}

// Avoided reads from a result file which sources kok-software avoided, fit for a message.
func Avoided(ctx context.Context, h *hosts.Host, file string) ([]string, error) {
	content, err := read(ctx, h, file)
	return avoidedIn(content), err
}

func avoidedIn(content []byte) []string {
	result := software.Result{}
	if json.Unmarshal(content, &result) != nil {
		return nil
	}
	return Tellable(result.Avoided)
}

// Tellable returns the sources in a file of the host, fit for a message.
func Tellable(sources []string) []string {
	var told []string
	for i, source := range sources {
		// A single source too many is told in place of "and 1 more". So Tellable returns its own result unchanged.
		if more := len(sources) - i; i == maxAvoided && more > 1 {
			return append(told, fmt.Sprintf("and %d more", more))
		}
		told = append(told, hosts.Line(source, hosts.MaxLine))
	}
	return told
}

// Remove runs the kok-software in a folder, which undoes all that it did on the host. running names the units and containers of
// a node that still run: while there are any, Remove fails, because nobody could end them without the node's programs.
func Remove(ctx context.Context, h *hosts.Host, dir string, running func(context.Context, *hosts.Host) ([]string, error)) error {
	program := path.Join(dir, strings.TrimPrefix(software.Program, software.Dir))
	there, err := h.Existing(ctx, dir, program)
	if err != nil || len(there) == 0 {
		return err
	}
	if !slices.Contains(there, program) {
		return removeUnused(ctx, h, dir, program)
	}
	left, err := running(ctx, h)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("it stays, for without it these could not be ended: %s", strings.Join(left, "; "))
	}
	return h.ChangeSilently(ctx, program, "remove")
}

// removeUnused removes the folder of kok-software when the program is missing because its download failed. Then there is
// only the folder bin, and the result that the bootstrap data wrote. Anything else was left by a program that did run, and is
// an error.
func removeUnused(ctx context.Context, h *hosts.Host, dir, program string) error {
	kept, err := h.Find(ctx, dir, "-mindepth", "1", "-path", path.Dir(program), "-prune", "-o",
		"-not", "-type", "d", "-not", "-path", dir+"/"+path.Base(software.ResultFile)+"*", "-print0", "-quit")
	if err != nil {
		return err
	}
	if len(kept) > 0 {
		return fmt.Errorf("%s is there, and the program %s, which alone knows what it changed on the host, is gone: put it back as "+
			"docs/data-centre-hosts.md#clean-a-host-by-hand says", hosts.Tidy(kept[0]), program)
	}
	return h.Remove(ctx, dir)
}
