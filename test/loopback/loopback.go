// Package loopback gives tests addresses of this machine alone.
package loopback

import (
	"math/rand/v2"
	"net"
	"testing"
)

// Listen listens at a port of its own until the test ends.
func Listen(t testing.TB) *net.TCPListener {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// Free is an address that nobody listens at, and that nobody else gets: neither a listener with a port of its own nor a
// connection takes it before the test does.
func Free(t testing.TB) *net.TCPAddr {
	t.Helper()
	ip := net.IPv4(127, byte(128+rand.IntN(64)), byte(rand.IntN(256)), byte(1+rand.IntN(254)))
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: ip})
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	return listener.Addr().(*net.TCPAddr)
}

// Serve is the address of a server that hands over its connections one after the other until the test ends.
func Serve(t testing.TB, handle func(*net.TCPConn)) *net.TCPAddr {
	t.Helper()
	listener := Listen(t)
	go func() {
		for {
			connection, err := listener.AcceptTCP()
			if err != nil {
				return
			}
			handle(connection)
		}
	}()
	return listener.Addr().(*net.TCPAddr)
}
