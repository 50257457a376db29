package attack

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

func TestACanaryAnswersWithTLSAndWithoutAndKnowsWhoCame(t *testing.T) {
	certificate, _, err := Certificate(nil, netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	listener := loopback.Listen(t)
	canary, err := Plant(0, certificate, nil, func(uint16) (net.Listener, error) { return listener, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = canary.Close() })
	asking := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, //nolint:gosec // It is a test's own.
	}, Timeout: 10 * time.Second}
	for _, scheme := range []string{"http", "https"} {
		response, err := asking.Get(scheme + "://" + listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || string(answer) != canary.Token {
			t.Errorf("by %s it answers %q, %v", scheme, answer, err)
		}
	}
	if from := canary.Visitors(); len(from) != 2 || !from[0].IsLoopback() {
		t.Errorf("it knows of %v", from)
	}
	// Who connects and says nothing is one, too.
	connection, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	if !Within(t.Context(), 10*time.Second, func() bool { return len(canary.Visitors()) == 3 }) {
		t.Error("it does not know of who says nothing")
	}
}

func TestANameIsElsewhereFromTheSecondQuestionOn(t *testing.T) {
	worker, elsewhere := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("127.0.0.1")
	resolver := NewResolver(worker)
	resolver.Name("a.example.com", elsewhere)
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go resolver.Serve(socket)
	asking := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("udp4", socket.LocalAddr().String())
	}}
	for i, want := range []netip.Addr{worker, elsewhere, elsewhere} {
		got, err := asking.LookupNetIP(t.Context(), "ip4", "a.example.com.")
		if err != nil || len(got) != 1 || got[0].Unmap() != want {
			t.Errorf("question %d: %v, %v", i, got, err)
		}
	}
	if resolver.Asked("a.example.com") != 3 {
		t.Errorf("it was asked %d times", resolver.Asked("a.example.com"))
	}
	if _, err := asking.LookupNetIP(t.Context(), "ip4", "b.example.com."); err == nil {
		t.Error("it knows a name that nobody made")
	}
}

func TestTheTableSaysWhatSucceeded(t *testing.T) {
	report := &Report{}
	report.Add(Outcome{Name: "node proxy", Target: "loopback", Stopped: "connection\n refused"})
	report.Add(Outcome{Name: "webhook", Target: "loopback", Stopped: strings.Repeat("a", 1000), Succeeded: true, Remark: "connected from 127.0.0.1"})
	report.Control("node proxy reaches %s", "the worker")
	text := &strings.Builder{}
	if err := report.Write(text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"stopped", "connection refused", "SUCCEEDED (connected from 127.0.0.1)", "- node proxy reaches the worker"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	if got := report.Succeeded(); len(got) != 1 || got[0].Name != "webhook" {
		t.Errorf("what succeeded: %v", got)
	}
}
