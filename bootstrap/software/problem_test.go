package software

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestWithoutSecrets(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a text without URLs stays":       {"a: b, c; 10:20", "a: b, c; 10:20"},
		"a URL stays":                     {"get https://a.b:5/c/d.tar.gz: no", "get https://a.b:5/c/d.tar.gz: no"},
		"a user goes":                     {"https://u:p@a/b", "https://a/b"},
		"a password with an at goes":      {"https://u:p@q@a/b", "https://a/b"},
		"a query goes":                    {`Get "https://a/b?token=x&y=z": refused`, `Get "https://a/b": refused`},
		"a query with a URL goes":         {"https://a/b?u=https://c:d@e/f: no", "https://a/b: no"},
		"a query right at the host goes":  {"https://a?x=y", "https://a"},
		"a fragment goes":                 {"https://a/b#x", "https://a/b"},
		"a proxy without a scheme goes":   {`invalid proxy address "u:p@proxy:3128"`, `invalid proxy address "proxy:3128"`},
		"every one of several is changed": {"http://u:p@a/b?c; http://d:e@f/g?h", "http://a/b http://f/g"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := WithoutSecrets(c.text); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

func TestResultOf(t *testing.T) {
	inner := Problemf(NoRoom, "", "the disk is full")
	for name, c := range map[string]struct {
		err  error
		want Result
	}{
		"of a run that succeeded is empty":    {nil, Result{}},
		"of any error is NotInstalled":        {errors.New("x"), Result{Reason: NotInstalled, Message: "x"}},
		"of a problem is what it says":        {OfComponent("a", fmt.Errorf("download: %w", inner)), Result{Reason: NoRoom, Component: "a", Message: "component a: download: the disk is full"}},
		"of a component's error names it":     {OfComponent("a", errors.New("x")), Result{Reason: NotInstalled, Component: "a", Message: "component a: x"}},
		"of a problem with a URL hides users": {Problemf(NoSource, "a", "http://u:p@h/x?y"), Result{Reason: NoSource, Component: "a", Message: "component a: http://h/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ResultOf(c.err)
			if got.Reason != c.want.Reason || got.Component != c.want.Component || got.Message != c.want.Message {
				t.Errorf("%+v\nwant %+v", got, c.want)
			}
		})
	}
	t.Run("has a bounded message", func(t *testing.T) {
		if got := ResultOf(errors.New(strings.Repeat("ä", maxMessage))).Message; len(got) > maxMessage || !strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes", len(got))
		}
	})
}
