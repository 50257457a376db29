// Package progress tells a person what a program waits for, and for how long, and in the end what
// it waited for in vain.
package progress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	// interval is the time between two looks at what is waited for.
	interval = 250 * time.Millisecond
	// pause is the least time between two lines about one wait, where no line can be rewritten.
	pause = time.Second
	// reminder is the time after which an unchanged state is printed again, where no line can be
	// rewritten.
	reminder = 15 * time.Second
)

// Log prints lines with the seconds since it was made.
type Log struct {
	mu    sync.Mutex
	out   io.Writer
	live  bool
	width int
	began time.Time
}

// New makes a Log. On a terminal the line of what is waited for is rewritten in place.
func New(out io.Writer, began time.Time) *Log {
	l := &Log{out: out, began: began}
	if file, ok := out.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(file.Fd())) {
		l.live = true
		l.width, _, _ = term.GetSize(int(file.Fd()))
	}
	return l
}

// Began is the time that seconds are counted from.
func (l *Log) Began() time.Time { return l.began }

// Print prints one line with its time.
func (l *Log) Print(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, "%s%s\n", l.erase(), l.stamped(fmt.Sprintf(format, args...)))
}

// Title prints a heading.
func (l *Log) Title(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, "%s\n%s\n", l.erase(), text)
}

// Write passes text on as it is: tables and the output of other programs.
func (l *Log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.out, l.erase())
	return l.out.Write(text)
}

func (l *Log) stamped(text string) string {
	return fmt.Sprintf("%7.1fs  %s", time.Since(l.began).Seconds(), text)
}

// erase clears the line that is being rewritten.
func (l *Log) erase() string {
	if l.live {
		return "\r\x1b[K"
	}
	return ""
}

// rewrite shows text until the next line is printed.
func (l *Log) rewrite(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := []rune(l.stamped(text))
	if l.width > 1 && len(line) >= l.width {
		line = append(line[:l.width-2], '…')
	}
	fmt.Fprint(l.out, l.erase(), string(line))
}

// Stuck is a wait that did not end in time.
type Stuck struct {
	// For is what was waited for, Waited for how long, State what it was in the end.
	For    string
	Waited time.Duration
	State  string
	// Next are commands that show more.
	Next []string
}

func (s *Stuck) Error() string {
	text := fmt.Sprintf("waited %s for %s\n  last state: %s", s.Waited.Round(time.Second), s.For, s.State)
	if len(s.Next) > 0 {
		text += "\n  look next at:\n    " + strings.Join(s.Next, "\n    ")
	}
	return text
}

// Look says whether a wait is over, and if not, why. Its error does not end the wait: it is what the
// state is.
type Look func(ctx context.Context) (done bool, state string, err error)

// Wait looks until it is over. After timeout it gives up with a *Stuck.
func (l *Log) Wait(ctx context.Context, what string, timeout time.Duration, next []string, look Look) error {
	began := time.Now()
	var last string
	var printed time.Time
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		done, state, err := look(ctx)
		if err != nil {
			state = err.Error()
		}
		if done && err == nil {
			l.Print("%s: done after %.1fs", what, time.Since(began).Seconds())
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted while waiting for %s: %w", what, context.Cause(ctx))
		}
		if time.Since(began) > timeout {
			return &Stuck{For: what, Waited: time.Since(began), State: state, Next: next}
		}
		switch text := fmt.Sprintf("waiting %3.0fs for %s: %s", time.Since(began).Seconds(), what, state); {
		case l.live:
			l.rewrite(text)
		case state != last && time.Since(printed) > pause, time.Since(printed) > reminder:
			l.Print("%s", text)
			last, printed = state, time.Now()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// IsStuck says whether an error is a wait that did not end in time.
func IsStuck(err error) bool {
	var stuck *Stuck
	return errors.As(err, &stuck)
}
