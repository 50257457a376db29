package hosts

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/redact"
)

func TestSecretsStayOutOfMessages(t *testing.T) {
	for secret, text := range map[string]string{
		"abcdef.0123456789abcdef":    "kubeadm join --token abcdef.0123456789abcdef",
		"eyJhbGciOi.eyJpc3MiOi.c2ln": "got eyJhbGciOi.eyJpc3MiOi.c2ln back",
		"hunter2":                    "Password: hunter2",
		"s3cret":                     `{"token": "s3cret"}`,
		"us3r:p4@ss":                 "https://us3r:p4@ss@mirror.example/kubelet: cannot be fetched",
		"us3r":                       "proxy HTTP://us3r@[2001:db8::1]:3128 refused",
		"abc-def":                    "Authorization: Bearer abc-def",
		"MC4CAQAwBQYDK2VwBCIEIA":     "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA\n-----END PRIVATE KEY-----",
		"MC4CAQAwBQYDK2VwBCIEIB":     "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIB\n cut off",
		strings.Repeat("LS0tLS1CRUdJTiBDRVJU", 4): "content: " + strings.Repeat("LS0tLS1CRUdJTiBDRVJU", 4),
	} {
		if got := Tidy("before " + text); strings.Contains(got, secret) || !strings.Contains(got, redact.Mark) || !strings.HasPrefix(got, "before ") {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, plain := range []string{
		"Get \"https://127.0.0.1:6443/readyz\": dial tcp 127.0.0.1:6443: connect: connection refused",
		"https://mirror.example/@scope/kubelet?mail=a@b: cannot be fetched", "admin@example was told of https://mirror.example",
	} {
		if got := Tidy(plain); got != plain {
			t.Errorf("%q became %q", plain, got)
		}
	}
	if got, want := Tidy("https://a:b@mirror.example/kubelet"), "https://"+redact.Mark+"@mirror.example/kubelet"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestATailIsBoundedAndPrintable(t *testing.T) {
	got := Tail([]byte(strings.Repeat("\x1b[0mé\x00\xff\n", 5000)))
	if len(got) > maxTail+3 || !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\x1b") || !strings.HasPrefix(got, "...") {
		t.Errorf("%d bytes: %q", len(got), got[:20])
	}
}
