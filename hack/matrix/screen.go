package main

import (
	"bytes"
	"io"
)

// screen is an output that may go away, such as a terminal: what is written then is in the log alone. Steps that run
// beside each other have a title each, which begins their lines; they are shown when they are complete.
type screen struct {
	to    io.Writer
	title string
	rest  []byte
}

func (s *screen) Write(p []byte) (int, error) {
	if s.title == "" {
		_, _ = s.to.Write(p)
		return len(p), nil
	}
	s.rest = append(s.rest, p...)
	if end := bytes.LastIndexByte(s.rest, '\n') + 1; end > 0 {
		s.show(s.rest[:end])
		s.rest = s.rest[end:]
	}
	return len(p), nil
}

// flush shows a last line that never ended.
func (s *screen) flush() {
	if len(s.rest) > 0 {
		s.show(append(s.rest, '\n'))
		s.rest = nil
	}
}

// show writes lines at once, so that those of others do not get between them.
func (s *screen) show(lines []byte) {
	var out bytes.Buffer
	for line := range bytes.Lines(lines) {
		out.WriteString(s.title + " | ")
		out.Write(line)
	}
	_, _ = s.to.Write(out.Bytes())
}
