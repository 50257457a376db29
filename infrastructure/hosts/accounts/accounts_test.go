package accounts

import (
	"slices"
	"testing"
)

func TestKeyFiles(t *testing.T) {
	for name, test := range map[string]struct {
		patterns []string
		home     string
		want     []string
	}{
		"in the home, by each way to say so": {[]string{"%h/.ssh/authorized_keys", ".ssh/authorized_keys"}, "/home/a", []string{"/home/a/.ssh/authorized_keys"}},
		"beside the home":                    {[]string{"/etc/keys/%u", "/etc/%%/%u"}, "/home/a", []string{"/etc/keys/a", "/etc/%/a"}},
		"of everybody, or nobody":            {[]string{"/etc/keys/all", "none"}, "/home/a", nil},
		"of a user without a home yet":       {[]string{"%h/.ssh/authorized_keys", "/etc/keys/%u"}, "", []string{"/etc/keys/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := keyFiles(test.patterns, "a", test.home); !slices.Equal(got, test.want) {
				t.Errorf("%q", got)
			}
		})
	}
}
