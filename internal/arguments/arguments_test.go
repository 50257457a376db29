package arguments

import "testing"

func TestReason(t *testing.T) {
	owned := Owned{"secure-port": "port", "authorization-*": "all", "authorization-mode-*": "modes", "audit*": "audit"}.With(Owned{"secure-port": "another", "v": "more"})
	for name, want := range map[string]string{
		"secure-port": "another", "v": "more", "authorization-mode": "all", "authorization-mode-x": "modes", "authorization-": "all", "audit": "audit", "audit-log": "audit",
		"secure-ports": "", "authorization": "", "vv": "", "": "",
	} {
		if got, found := owned.Reason(name); got != want || found != (want != "") {
			t.Errorf("%q: %q, %t, want %q", name, got, found, want)
		}
	}
}

func TestWithLeavesBothAsTheyAre(t *testing.T) {
	first, second := Owned{"a": "1"}, Owned{"a": "2", "b": "3"}
	if both := first.With(second); len(both) != 2 || both["a"] != "2" || first["a"] != "1" || len(first) != 1 || len(second) != 2 {
		t.Errorf("%v of %v and %v", both, first, second)
	}
}
