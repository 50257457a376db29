package errortext

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

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

// An API server refuses a status with a text that is not valid UTF-8. A cut within a letter makes such a text.
func TestLongTextsAreCutBetweenLetters(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		most int
		want string
	}{
		"an empty one stays":                     {"", 5, ""},
		"a short one stays":                      {"short", 6, "short"},
		"one of just that length stays":          {"short", 5, "short"},
		"a longer one has a mark at its end":     {"longer", 5, "lo…"},
		"it is not cut within two bytes":         {"aéb-more", 5, "a…"},
		"nor within three":                       {"日本語日本語", 8, "日…"},
		"nor within four":                        {"a😀b-more", 7, "a…"},
		"a letter that just has room is there":   {"日本語日本語", 9, "日本…"},
		"bytes that are no letters are left out": {"a\xffb-more", 6, "ab…"},
		"the mark alone":                         {"long", 3, "…"},
		"there is no room for the mark":          {"long", 2, ""},
		"there is no room":                       {"long", 0, ""},
		"there is less than that":                {"long", -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Short(test.text, test.most)
			if got != test.want || !utf8.ValidString(got) {
				t.Errorf("%q, want %q", got, test.want)
			}
			if again := Short(got, max(test.most, 0)); again != got {
				t.Errorf("%q, and again %q", got, again)
			}
		})
	}
	if got := Steady(errors.New(strings.Repeat("é", longest))); len(got) > longest || !strings.HasSuffix(got, "é…") {
		t.Errorf("an error has %d bytes", len(got))
	}
}

func TestOtherErrorsAreToldAsTheyAre(t *testing.T) {
	for _, err := range []error{errors.New("no"), &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}} {
		if got := Steady(err); got != err.Error() {
			t.Errorf("%q", got)
		}
	}
}
