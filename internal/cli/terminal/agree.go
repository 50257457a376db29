package terminal

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// maxAnswer is how much of an answer is read, in bytes.
const maxAnswer = 64

// IsTerminal reports whether a person can answer questions at an input.
func IsTerminal(in io.Reader) bool {
	file, isFile := in.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

// Agreed reads an answer, and reports whether it is "yes" or "y". It fails when the context ends before.
func Agreed(ctx context.Context, in io.Reader) (bool, error) {
	answer := make(chan string, 1)
	// A read from a terminal takes no context.
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(in, maxAnswer)).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case said := <-answer:
		return said == "yes" || said == "y", nil
	}
}
