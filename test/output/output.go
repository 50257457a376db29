// Package output keeps what a program writes while a test looks at it.
package output

import (
	"bytes"
	"sync"
)

// Buffer is an io.Writer for the output of a program that may still run. Its zero value is empty.
type Buffer struct {
	lock sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.text.Write(p)
}

// String is what the program has written so far.
func (b *Buffer) String() string {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.text.String()
}
