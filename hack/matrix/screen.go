package main

import "io"

// screen is an output that may go away, such as a terminal: what is written then is in the log alone.
type screen struct{ io.Writer }

func (s screen) Write(p []byte) (int, error) {
	_, _ = s.Writer.Write(p)
	return len(p), nil
}
