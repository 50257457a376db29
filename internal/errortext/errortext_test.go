package errortext

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

func TestTheSameFailureHasTheSameWords(t *testing.T) {
	server := loopback.Serve(t, func(connection *net.TCPConn) {
		_, _ = io.ReadFull(connection, make([]byte, 1))
		_ = connection.SetLinger(0)
		_ = connection.Close()
	})
	for range 3 {
		connection, err := net.Dial("tcp", server.String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := connection.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		_, err = connection.Read(make([]byte, 1))
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Fatal(err)
		}
		got := Steady(fmt.Errorf("get Secret blue: %w", err))
		if want := "get Secret blue: read tcp " + server.String() + ": read: connection reset by peer"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestOtherErrorsAreToldAsTheyAre(t *testing.T) {
	for _, err := range []error{errors.New("no"), &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}} {
		if got := Steady(err); got != err.Error() {
			t.Errorf("%q", got)
		}
	}
}
