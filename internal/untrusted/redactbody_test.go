package untrusted

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
)

var secretsOfAWatch = []string{"Bearer abcabd", "abcabd"}

func redacted(body io.ReadCloser) io.ReadCloser {
	return redactBody(body, hiding("abcabd"), secretsOfAWatch)
}

func TestASecretIsHiddenWhereverReadsCutIt(t *testing.T) {
	const text = `{"message":"nobody has Bearer abcabd"}` + "\n" + `{"message":"nor abcabcabd, Bearer abc or Bear"}` + "\n"
	const want = `{"message":"nobody has *************"}` + "\n" + `{"message":"nor abc******, Bearer abc or Bear"}` + "\n"
	for name, room := range map[string]func(io.Reader) io.Reader{
		"by a reader with room":         func(r io.Reader) io.Reader { return r },
		"by a reader of single bytes":   iotest.OneByteReader,
		"by a reader of half its space": iotest.HalfReader,
	} {
		t.Run(name, func(t *testing.T) {
			for cut := range len(text) {
				body := io.MultiReader(strings.NewReader(text[:cut]), strings.NewReader(text[cut:]))
				got, err := io.ReadAll(room(redacted(io.NopCloser(body))))
				if err != nil || string(got) != want {
					t.Errorf("cut after %q: got %q, %v", text[:cut], got, err)
				}
			}
		})
	}
	t.Run("when it comes in single bytes", func(t *testing.T) {
		got, err := io.ReadAll(redacted(io.NopCloser(iotest.OneByteReader(strings.NewReader(text)))))
		if err != nil || string(got) != want {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestWhatIsReadWaitsForNoMore(t *testing.T) {
	for name, test := range map[string]struct{ sent, want string }{
		"an event":                               {`{"type":"ADDED"}` + "\n", `{"type":"ADDED"}` + "\n"},
		"an event that ends with a secret":       {"for abcabd", "for ******"},
		"what comes before the half of a secret": {`{"type":"ADDED"}` + "\nabc", `{"type":"ADDED"}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				received, sending := io.Pipe()
				body := redacted(received)
				go func() { _, _ = io.WriteString(sending, test.sent) }()
				got := make([]byte, len(test.want))
				if _, err := io.ReadFull(body, got); err != nil || string(got) != test.want {
					t.Errorf("got %q, %v", got, err)
				}
				if err := body.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAReadThatWaitsEndsWhenTheWatchIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		received, sending := io.Pipe()
		body := redacted(received)
		ended := make(chan error)
		go func() {
			_, err := io.ReadAll(body)
			ended <- err
		}()
		if _, err := io.WriteString(sending, "Bear"); err != nil { // Held back: the read goes on.
			t.Fatal(err)
		}
		synctest.Wait()
		if err := body.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnErrorOfReadingTellsNoSecret(t *testing.T) {
	body := io.MultiReader(strings.NewReader("before Bear"), iotest.ErrReader(errors.New(`the server went away, debug="abcabd"`)))
	got, err := io.ReadAll(redacted(io.NopCloser(body)))
	if string(got) != "before Bear" || err == nil || err.Error() != `the server went away, debug="******"` {
		t.Errorf("got %q, %v", got, err)
	}
}
