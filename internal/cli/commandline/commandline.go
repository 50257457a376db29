// Package commandline checks that command lines in documents and in help name commands and flags that exist.
package commandline

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli"
)

// call is a call of the program in a line of a shell script.
var call = regexp.MustCompile(`(?:^|[;&|(!]|\b(?:if|until|while|do|then|else|sudo))\s*(?:kubectl )?kok((?: [^;&|)]*)?)(?:$|[;&|)])`)

// Calls are the arguments of each call of the program in a line of a shell script.
func Calls(line string) [][]string {
	line, _, _ = strings.Cut(line, " #")
	if strings.HasPrefix(line, "#") {
		return nil
	}
	var calls [][]string
	for _, found := range call.FindAllStringSubmatch(line, -1) {
		calls = append(calls, words(found[1]))
	}
	return calls
}

var word = regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`)

// words splits a line like a shell, and leaves out what the shell would expand.
func words(text string) []string {
	var all []string
	for _, found := range word.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(found[3], ">") || strings.HasPrefix(found[3], "2>") || strings.HasPrefix(found[3], "<(") {
			break // Where output goes.
		}
		all = append(all, found[1]+found[2]+found[3])
	}
	return all
}

// Check finds the command that these arguments call. The error is what the program itself would refuse before it did
// anything.
func Check(arguments []string) (name string, err error) {
	root := cli.New("kok", genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(arguments...)
	command, rest, err := root.Find(arguments)
	if err != nil {
		return "", err
	}
	name = command.CommandPath()
	command.InitDefaultHelpFlag()
	command.InitDefaultVersionFlag()
	if err := command.ParseFlags(rest); err != nil {
		return name, fmt.Errorf("%s: %w", name, err)
	}
	if help := command.Flags().Lookup("help"); help != nil && help.Changed {
		return name, nil
	}
	if command.HasSubCommands() && len(command.Flags().Args()) > 0 {
		return name, fmt.Errorf("%s has no command %s", name, command.Flags().Arg(0))
	}
	return name, errors.Join(command.ValidateArgs(command.Flags().Args()), command.ValidateRequiredFlags(), command.ValidateFlagGroups())
}

// Each calls a function for a command and all below it.
func Each(command *cobra.Command, visit func(*cobra.Command)) {
	visit(command)
	for _, child := range command.Commands() {
		Each(child, visit)
	}
}
