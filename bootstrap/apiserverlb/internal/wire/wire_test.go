package wire

import (
	"io"
	"net"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

func TestBytesOfAllConnectionsAreCountedByDirection(t *testing.T) {
	address := loopback.Serve(t, func(accepted *net.TCPConn) {
		_, _ = io.ReadFull(accepted, make([]byte, 7))
		_, _ = accepted.Write(make([]byte, 100))
		_ = accepted.Close()
	})
	counter := &Counter{}
	for range 2 {
		connection, err := counter.Dial(t.Context(), "tcp", address.String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := connection.Write(make([]byte, 7)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, connection); err != nil {
			t.Fatal(err)
		}
		_ = connection.Close()
	}
	if counter.Sent() != 14 || counter.Received() != 200 {
		t.Errorf("sent %d and received %d bytes, want 14 and 200", counter.Sent(), counter.Received())
	}
}
