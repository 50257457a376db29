package untrusted

import "testing"

func TestWhatIsHiddenIsHiddenAsAWhole(t *testing.T) {
	for text, want := range map[string]string{
		"the longer one: abcd-efgh": "the longer one: *********",
		"its part: abcd":            "its part: ****",
		"one too short to tell: me": "one too short to tell: me",
	} {
		if got := hiding("me", "abcd", "abcd-efgh").Replace(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
