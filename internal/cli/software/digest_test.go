package software

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

func sum(content string) string {
	digest := sha256.Sum256([]byte(content))
	return hex.EncodeToString(digest[:])
}

func TestTheDigestOfAFileIsFound(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for name, test := range map[string]struct{ sums, file, want string }{
		"alone":                           {a, "kubelet", a},
		"alone, with an end of line":      {a + "\n", "kubelet", a},
		"in capitals":                     {strings.ToUpper(a) + "\n", "kubelet", a},
		"among others":                    {b + "  runc.arm64\n" + a + "  runc.amd64\n", "runc.amd64", a},
		"of a binary file":                {a + " *runc.amd64\n", "runc.amd64", a},
		"with a folder":                   {a + "  ./packages/runc.amd64\n", "runc.amd64", a},
		"not of a file with another name": {b + "  runc.arm64\n", "runc.amd64", ""},
		"not of a part of the name":       {b + "  runc.amd64.asc\n", "runc.amd64", ""},
		"not alone among others":          {a + "\n" + b + "\n", "kubelet", ""},
		"not in an answer that is none":   {"<html>not found</html>", "kubelet", ""},
		"not if it is too short":          {a[1:] + "  kubelet", "kubelet", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := find(test.sums, test.file)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestAFileIsComparedWithWhatIsPublished(t *testing.T) {
	content := map[string]string{"/good": "a program", "/good.sha256": sum("a program"), "/changed": "another", "/changed.sha256": sum("a program"), "/lone": "a"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, found := content[r.URL.Path]
		if !found {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	r, err := newReader(nil, "", false)
	if err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		"/good": "", "/changed": "do not use it", "/lone": "404", "/missing": "404",
	} {
		got, _, err := r.check(t.Context(), published{component: "kubelet", url: server.URL + path, sums: server.URL + path + ".sha256"}, "amd64")
		if says == "" {
			if err != nil || got.sha256 != sum("a program") {
				t.Errorf("%s: %+v, %v", path, got, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
}

func TestAMirrorIsAskedWithItsPassword(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "reader" || password != "secret" || r.URL.Path != "/up/a.example/file" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, "content")
	}))
	t.Cleanup(server.Close)
	mirrors := []software.Mirror{{Prefix: "https://a.example/", Exclusive: true, Endpoints: []software.Endpoint{
		{URL: server.URL + "/missing"}, {URL: server.URL + "/up/a.example/", Username: "reader", Password: "secret"},
	}}}
	r, err := newReader(mirrors, "", true)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if _, err := r.read(t.Context(), "https://a.example/file", 100, &got); err != nil || got.String() != "content" {
		t.Errorf("%q, %v", got.String(), err)
	}
	if _, err := r.read(t.Context(), "https://a.example/file", 3, io.Discard); err == nil || !strings.Contains(err.Error(), "larger than 3 bytes") {
		t.Errorf("an answer without an end is read on: %v", err)
	}
	mirrors[0].Endpoints[1].Password = "wrong"
	if _, err := r.read(t.Context(), "https://a.example/file", 100, io.Discard); err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("%v", err)
	}
}

func TestAMirrorIsBelievedAboutADigestWhenItsProjectIsSilentAlone(t *testing.T) {
	serve := func(content map[string]string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, found := content[r.URL.Path]
			if !found {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	project := serve(map[string]string{"/both": "a program", "/both.sha256": sum("a program")})
	mirror := serve(map[string]string{"/both": "another", "/both.sha256": sum("another"), "/own": "ours", "/own.sha256": sum("ours")})
	mirrors := []software.Mirror{{Prefix: project + "/", Endpoints: []software.Endpoint{{URL: mirror}}}}
	for _, test := range []struct {
		name, file string
		exclusive  bool
		witness    string
		refused    bool
	}{
		{name: "a mirror with another file than its project's is found out", file: "/both", refused: true},
		{name: "a file that the project lacks is by the mirror's word", file: "/own", witness: "the mirror says"},
		{name: "with the mirror alone every file is", file: "/both", exclusive: true, witness: "the mirror says"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := newReader(mirrors, "", test.exclusive)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := r.check(t.Context(), published{component: "kubelet", url: project + test.file, sums: project + test.file + ".sha256"}, "amd64")
			if (err != nil) != test.refused || got.witness != test.witness {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
