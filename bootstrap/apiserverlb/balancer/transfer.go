//go:build unix

package balancer

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
)

// bufferSize is what one read can bring. A TLS record has 16 KiB at most.
const bufferSize = 32 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// source reads from a connection without holding a buffer while there is nothing to read.
type source struct {
	raw syscall.RawConn
	// buffer, n and err are the result of the last read, until the next one.
	buffer *[bufferSize]byte
	n      int
	err    error
	try    func(descriptor uintptr) bool
}

func newSource(connection *net.TCPConn) (*source, error) {
	raw, err := connection.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &source{raw: raw}
	s.try = s.read
	return s, nil
}

// next waits for bytes and returns them. They are valid until release, which must be called before
// the next call. It returns io.EOF at the end.
func (s *source) next() ([]byte, error) {
	if err := s.raw.Read(s.try); err != nil {
		s.release()
		return nil, err
	}
	switch {
	case s.err != nil:
		s.release()
		return nil, s.err
	case s.n == 0:
		s.release()
		return nil, io.EOF
	}
	return s.buffer[:s.n], nil
}

// release gives the buffer back.
func (s *source) release() {
	if s.buffer != nil {
		buffers.Put(s.buffer)
		s.buffer = nil
	}
}

// read tries one read and reports whether it is over: false has the caller wait for bytes.
func (s *source) read(descriptor uintptr) bool {
	if s.buffer == nil {
		s.buffer = buffers.Get().(*[bufferSize]byte)
	}
	for {
		s.n, s.err = syscall.Read(int(descriptor), s.buffer[:])
		switch {
		case errors.Is(s.err, syscall.EINTR):
			continue
		case errors.Is(s.err, syscall.EAGAIN):
			s.release()
			return false
		}
		return true
	}
}
