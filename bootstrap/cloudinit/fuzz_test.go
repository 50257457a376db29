package cloudinit

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// leavesWith is what a document says with a value at a place; nil when it is refused.
func leavesWith(t testing.TB, at place, value string) map[string]string {
	t.Helper()
	in := minimal("v1.36.3")
	at.put(&in, value)
	data, err := Render(in)
	if err != nil {
		return nil
	}
	return leavesOf(t, data)
}

// TestEveryTextHasAPlace: a field of text that the API gets must be thought of here.
func TestEveryTextHasAPlace(t *testing.T) {
	fields := texts(reflect.TypeFor[bootstrapv1.KOKConfigSpec](), "")
	known := append(slices.Collect(maps.Keys(places)), choices...)
	for _, field := range fields {
		if !slices.Contains(known, field) {
			t.Errorf("spec.%s takes text and is no place", field)
		}
	}
	for _, name := range known {
		if !slices.Contains(fields, name) && !strings.Contains(name, " ") {
			t.Errorf("%s is no field of a KOKConfig", name)
		}
	}
}

// TestEveryPlaceIsInTheDocument: otherwise nothing would be compared there.
func TestEveryPlaceIsInTheDocument(t *testing.T) {
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			leaves := leavesWith(t, place, place.innocent)
			if leaves == nil {
				t.Fatalf("%q is refused", place.innocent)
			}
			if !slices.ContainsFunc(slices.Collect(maps.Keys(leaves)), func(at string) bool { return strings.Contains(at+leaves[at], place.innocent) }) {
				t.Errorf("%q is not in the document", place.innocent)
			}
		})
	}
	for at, value := range leavesOf(t, render(t, minimal("v1.36.3"))) {
		for name, place := range places {
			if strings.Contains(at+value, place.innocent) {
				t.Errorf("%s: %q is in every document, at %s", name, place.innocent, at)
			}
		}
	}
}

var seeds = []string{
	"plain", "/usr/bin/plain", "https://plain.example/a", "", " ", "a b", "two\nlines", "a\nruncmd:\n- [rm, -rf, /]\n", "\"", "'", "`id`", "$(id)", "${HOME}", "%h%%",
	"#cloud-config", "## template: jinja\n{{ ds }}", "- a", "a: b", "&a *a", "!!binary a", "|\n a", "---\n...", "\\", "\\\"", "\\n", "a\\", "\x00", "\xff", "\u2028", "\u0085", "\r\n",
	"; rm -rf /", "a ; b", "../../etc/shadow", "/etc/../etc/shadow", "/etc/kok-apiserver-lb/config.yaml", "/etc/a b", "a,b=c", "--config=/a", "https://a.example/'\"]\n[x]", "https://a.example/\\", "a:b", "root:root",
	"true", "null", "1e3", "0x10", "~", "deb https://a.example / \ndeb x", "ALL=(ALL) ALL\nother ALL=ALL", "/usr/bin/$$a%i", "https://a.example/$a%i", "a.b", "0600", "http://a:b@c.example:1",
	"node.cluster.x-k8s.io/uninitialized", word,
}

// FuzzValuesStayInTheirPlace gives a value to every place in turn. Either it is refused, or the document is the one
// with an innocent value, with the value in its stead: nothing else changes, comes or goes.
func FuzzValuesStayInTheirPlace(f *testing.F) {
	names := slices.Sorted(maps.Keys(places))
	innocent := map[string]map[string]string{}
	for i, name := range names {
		innocent[name] = leavesWith(f, places[name], places[name].innocent)
		for _, seed := range seeds {
			f.Add(uint8(i), seed)
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, value string) {
		name := names[int(i)%len(names)]
		if diff := misplaced(t, places[name], innocent[name], value); diff != "" {
			t.Errorf("%s: %q: %s", name, value, diff)
		}
	})
}

// misplaced is what else a value changes than its place; empty also when the value is refused.
func misplaced(t testing.TB, at place, innocent map[string]string, value string) string {
	t.Helper()
	got := leavesWith(t, at, value)
	if got == nil || value == "" && at.unset {
		return ""
	}
	want := map[string]string{}
	for key, leaf := range innocent {
		key = strings.ReplaceAll(key, at.innocent, value)
		if want[key] = strings.ReplaceAll(leaf, at.innocent, value); value == "" && want[key] != leaf {
			// What is empty may be left out, or have a default.
			delete(want, key)
			delete(got, key)
		}
	}
	return cmp.Diff(want, got)
}
