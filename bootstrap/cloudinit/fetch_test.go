package cloudinit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// fetch runs the program that machines run.
func fetch(t *testing.T, sha256, mode, path string, urls ...string) (output string, err error) {
	t.Helper()
	dir := t.TempDir()
	program, list := filepath.Join(dir, "fetch"), filepath.Join(dir, "urls")
	if err := os.WriteFile(program, asset("fetch.sh"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, []byte(strings.Join(urls, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", program, sha256, mode, path, list)
	cmd.Env = append(os.Environ(), "KOK_FETCH_STALL_TIME=1", "KOK_FETCH_RETRIES=0")
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

func TestFetch(t *testing.T) {
	const right = "the file"
	sum := sha256.Sum256([]byte(right))
	want := hex.EncodeToString(sum[:])
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/right [1]":
			_, _ = w.Write([]byte(right))
		case "/private":
			if user, password, _ := r.BasicAuth(); user == "us3r" && password == "p4:ss" && r.URL.RawQuery == "sig=s1gned" {
				_, _ = w.Write([]byte(right))
			} else {
				http.NotFound(w, r)
			}
		case "/stalled":
			w.Header().Set("Content-Length", "8")
			_, _ = w.Write([]byte(right[:1]))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case "/silent":
			<-r.Context().Done()
		case "/wrong":
			_, _ = w.Write([]byte("another file"))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	good, wrong, missing := server.URL+"/right%20[1]", server.URL+"/wrong", server.URL+"/missing"

	t.Run("takes the first URL that gives the right file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a dir", "file")
		if output, err := fetch(t, want, "0750", path, missing, wrong, good); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		content, err := os.ReadFile(path)
		if err != nil || string(content) != right {
			t.Errorf("%q, %v", content, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o750 {
			t.Errorf("%v, %v", info, err)
		}
	})
	t.Run("refuses a file with another SHA-256 and leaves nothing", func(t *testing.T) {
		dir := t.TempDir()
		output, err := fetch(t, want, "0755", filepath.Join(dir, "file"), wrong, missing)
		if err == nil || !strings.Contains(output, "the SHA-256 is not "+want) || !strings.Contains(output, "/missing: cannot be fetched") {
			t.Errorf("%v: %s", err, output)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%v, %v", left, err)
		}
	})
	t.Run("keeps a file that is right already", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(right), 0o600); err != nil {
			t.Fatal(err)
		}
		before := asked
		if output, err := fetch(t, want, "0755", path, good); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		if asked != before {
			t.Error("it was fetched again")
		}
	})
	t.Run("uses the credentials in a URL and keeps them to itself", func(t *testing.T) {
		private := func(path string) string {
			return strings.Replace(server.URL, "http://", "http://us3r:p4%3Ass@", 1) + path + "?sig=s1gned"
		}
		output, err := fetch(t, want, "0755", filepath.Join(t.TempDir(), "file"), private("/missing"), private("/wrong"), private("/private"))
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		if !strings.Contains(output, server.URL+"/missing: cannot be fetched") || !strings.Contains(output, server.URL+"/wrong: the SHA-256 is not") {
			t.Errorf("it does not say what failed: %s", output)
		}
		for _, secret := range []string{"us3r", "p4", "s1gned"} {
			if strings.Contains(output, secret) {
				t.Errorf("it says %q: %s", secret, output)
			}
		}
	})
	t.Run("leaves a server that stalls", func(t *testing.T) {
		for _, stalls := range []string{"/silent", "/stalled"} {
			if output, err := fetch(t, want, "0755", filepath.Join(t.TempDir(), "file"), server.URL+stalls, good); err != nil {
				t.Errorf("%s: %v: %s", stalls, err, output)
			}
		}
	})
	t.Run("replaces a file that is wrong", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if output, err := fetch(t, want, "0755", path, good); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		if content, err := os.ReadFile(path); err != nil || string(content) != right {
			t.Errorf("%q, %v", content, err)
		}
	})
}

func TestFetchTrustsTheAuthorityOfAMirrorAlone(t *testing.T) {
	const right = "the file"
	sum := sha256.Sum256([]byte(right))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(right)) }))
	t.Cleanup(server.Close)
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "file")
	if output, err := fetch(t, hex.EncodeToString(sum[:]), "0755", path, server.URL+"/file"); err == nil {
		t.Errorf("a server of an unknown authority is trusted: %s", output)
	}
	if output, err := fetch(t, hex.EncodeToString(sum[:]), "0755", path, server.URL+"/file "+authority); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}

// installer runs the program that fetches kok-software, with the files of a document, and returns what it leaves.
func installer(t *testing.T, in Input) (program, result []byte, output string, err error) {
	t.Helper()
	dir := t.TempDir()
	for path, content := range contents(t, render(t, in)) {
		if !strings.HasPrefix(path, onworker.StepDir) {
			continue
		}
		at := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, resultFile := filepath.Join(dir, software.Program), filepath.Join(dir, software.ResultFile)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", filepath.Join(dir, installerProgram), filepath.Join(dir, fetchProgram), filepath.Join(dir, installerDir), path, resultFile)
	cmd.Env = append(os.Environ(), "KOK_FETCH_STALL_TIME=1", "KOK_FETCH_RETRIES=0")
	text, err := cmd.CombinedOutput()
	program, _ = os.ReadFile(path)
	result, _ = os.ReadFile(resultFile)
	return program, result, string(text), err
}

func TestTheInstallerIsFetchedForTheMachinesArchitecture(t *testing.T) {
	programs := map[string]string{"amd64": "for amd64", "arm64": "for arm64"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "reader" || password != "p@ss/word" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(programs[strings.TrimPrefix(r.URL.Path, "/mirror/kok-software-linux-")]))
	}))
	t.Cleanup(server.Close)
	in := withSoftware("v1.36.3")
	in.Software.Document.Mirrors = []software.Mirror{{
		Prefix: "https://releases.example/", Exclusive: true,
		Endpoints: []software.Endpoint{{URL: server.URL + "/mirror", Username: "reader", Password: "p@ss/word"}},
	}}
	in.Software.Installers = nil
	for architecture, content := range programs {
		sum := sha256.Sum256([]byte(content))
		in.Software.Installers = append(in.Software.Installers, bootstrapv1.SoftwareInstaller{
			Architecture: bootstrapv1.Architecture(architecture), SHA256: hex.EncodeToString(sum[:]), URLs: []string{"https://releases.example/kok-software-linux-" + architecture},
		})
	}
	t.Run("from a mirror with a password", func(t *testing.T) {
		program, result, output, err := installer(t, in)
		if err != nil || string(program) != programs[goruntime.GOARCH] || len(result) > 0 {
			t.Errorf("%v: %q, %q: %s", err, program, result, output)
		}
	})
	for _, test := range []struct {
		name   string
		reason software.Reason
		fail   func()
	}{
		{"no mirror gives it", software.NoSource, func() { programs[goruntime.GOARCH] = "another" }},
		{"there is none for the architecture", software.NoVariant, func() {
			in.Software.Installers = []bootstrapv1.SoftwareInstaller{{Architecture: "riscv64", SHA256: strings.Repeat("0", 64)}}
		}},
	} {
		t.Run("and the machine says so when "+test.name, func(t *testing.T) {
			test.fail()
			program, result, output, err := installer(t, in)
			if err == nil || len(program) > 0 {
				t.Fatalf("%v: %q: %s", err, program, output)
			}
			var said software.Result
			if err := json.Unmarshal(result, &said); err != nil || said.Reason != test.reason || !strings.Contains(said.Message, "KOKSoftware software-v1.36.3") {
				t.Errorf("%v: %q", err, result)
			}
			if strings.Contains(output+string(result), "p@ss") || strings.Contains(output, "p%40ss") {
				t.Errorf("a password is told: %s", output)
			}
		})
	}
}
