package kubeconfigs

import (
	"net"
	"strings"
	"testing"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// Of three API servers the first two are on host nodes that are off.
func TestAnAPIServerThatAnswersIsReached(t *testing.T) {
	off, alsoOff, on := listen(t), listen(t), listen(t)
	_, _ = off.Close(), alsoOff.Close()
	dial := toFirst([]string{off.Addr().String(), alsoOff.Addr().String(), on.Addr().String()})
	connection, err := dial(t.Context(), "tcp", "192.0.2.1:443")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	if got := connection.RemoteAddr().String(); got != on.Addr().String() {
		t.Errorf("it leads to %s", got)
	}
	_, err = toFirst([]string{off.Addr().String(), alsoOff.Addr().String()})(t.Context(), "tcp", "192.0.2.1:443")
	for _, server := range []net.Listener{off, alsoOff} {
		if err == nil || !strings.Contains(err.Error(), server.Addr().String()) {
			t.Errorf("it fails by %v, and not by %s", err, server.Addr())
		}
	}
}
