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

func TestWhatIsAnotherOneEachTimeIsLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		"dial tcp: lookup far on 10.0.0.10:53: read udp 10.1.2.3:53211->10.0.0.10:53: i/o timeout":                           "dial tcp: lookup far on 10.0.0.10:53: read udp 10.0.0.10:53: i/o timeout",
		"x509: certificate has expired or is not yet valid: current time 2026-01-02T03:04:05Z is after 2025-01-02T03:04:05Z": "x509: certificate has expired or is not yet valid: the present time is after 2025-01-02T03:04:05Z",
	} {
		if got := Steady(errors.New(text)); got != want {
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
