package hosttest

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// Liar is a host that answers every command with what a test gives it.
type Liar struct {
	// Answers has what a command prints, by the name of its program, or by that name and the last argument.
	Answers map[string]string
	// Programs and Paths are the programs and paths that find prints.
	Programs, Paths []string
	// Status is the exit status of all commands but find. Written is what dd wrote last.
	Status  int
	Written []byte
}

// Run answers a command.
func (l *Liar) Run(_ context.Context, command ssh.Command) (ssh.Result, error) {
	args := command.Args
	if args[0] == "dd" {
		l.Written = command.Stdin
	}
	if args[0] == "find" {
		return l.find(args), nil
	}
	if _, lies := l.Answers[args[0]]; args[0] == "realpath" && !lies {
		return ssh.Result{Stdout: []byte(strings.Join(operands(args), "\x00") + "\x00")}, nil
	}
	text, ok := l.Answers[args[0]+" "+args[len(args)-1]]
	if !ok {
		text = l.Answers[args[0]]
	}
	return answer(command, ssh.Result{Stdout: []byte(text), Stderr: []byte(text), ExitStatus: l.Status})
}

// find answers for programs, and for paths; the root folder is always there.
func (l *Liar) find(args []string) ssh.Result {
	found := l.Programs
	if args[1] != "-L" {
		found = []string{"/"}
		for _, asked := range args[2:] {
			if slices.Contains(l.Paths, asked) {
				found = append(found, asked)
			}
		}
	}
	return ssh.Result{Stdout: []byte(strings.Join(found, "\x00") + "\x00")}
}

// TellableTo reports whether a text fits into a field of status that has room for length characters.
func TellableTo(text string, length int) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= length && !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' })
}
