package hosttest

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// Liar is a host that answers a program with whatever it likes.
type Liar struct {
	// Answers are those by the first argument, or by the first and the last.
	Answers map[string]string
	// Programs and Paths are those that find finds.
	Programs, Paths []string
	// Status is what commands end with, Written what was written into a file last.
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
	answer, ok := l.Answers[args[0]+" "+args[len(args)-1]]
	if !ok {
		answer = l.Answers[args[0]]
	}
	return ssh.Result{Stdout: []byte(answer), Stderr: []byte(answer), ExitStatus: l.Status}, nil
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

// TellableTo reports whether a text fits into a field of status of that many characters.
func TellableTo(text string, length int) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= length && !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' })
}
