package terminal

import "testing"

func TestATerminalObeysNoText(t *testing.T) {
	for text, want := range map[string]string{
		"plain, with ü and …": "plain, with ü and …", "two\nlines": "two\nlines", "red \x1b[31m": "red  [31m", "back\rspace\b": "back space ", "\xff": "?",
	} {
		if got := Plain(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
