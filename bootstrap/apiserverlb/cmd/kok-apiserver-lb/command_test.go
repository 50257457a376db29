package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/internal/apiservertest"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	command := newCommand()
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&out)
	command.SetArgs(args)
	err := command.ExecuteContext(context.Background())
	return out.String(), err
}

// running serves the report of a program with one backend.
func running(t *testing.T, state string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(status.Report{Server: "https://127.0.0.1:6443", Backends: []status.Backend{{Address: "10.0.0.1:6443", State: state}}})
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestStatusPrintsTheTableAndFailsWhenNoBackendIsReady(t *testing.T) {
	out, err := execute(t, "status", "--address="+running(t, "ready"))
	if err != nil || !strings.Contains(out, "10.0.0.1:6443   ready") {
		t.Errorf("%v: %s", err, out)
	}
	out, err = execute(t, "status", "--address="+running(t, "dead"))
	if !errors.Is(err, errNoneReady) || !strings.Contains(out, "10.0.0.1:6443   dead") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestStatusFindsTheProgramByItsConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	content := "{statusAddress: '" + running(t, "ready") + "', seedBackends: ['10.0.0.1:6443'], certificateAuthorityFile: /ca.crt}"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := execute(t, "status", "--config="+path); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := execute(t, "status", "--config="+path); err == nil || !strings.Contains(err.Error(), "seedBackends") {
		t.Errorf("of a broken configuration: %v", err)
	}
}

func TestStatusFindsTheProgramByItsKubeconfig(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	status := running(t, "ready")
	address := netip.MustParseAddrPort(status)
	kubeconfig := filepath.Join(t.TempDir(), "blue.kubeconfig")
	// As kok kubeconfig writes it: status is at the port after the server's.
	content := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.1:%d", certificate-authority-data: Y2E=}}, {name: d, cluster: {server: "https://10.0.0.1:6443", certificate-authority-data: Y2E=}}],
users: [{name: u, user: {token: t}}]}`, address.Port()-1)
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := execute(t, "status", "--kubeconfig="+kubeconfig); err != nil || !strings.Contains(out, "10.0.0.1:6443   ready") {
		t.Errorf("%v: %s", err, out)
	}
	if written, err := os.ReadDir(cache); err != nil || len(written) > 0 {
		t.Errorf("it writes below the folder of the running program: %v, %v", written, err)
	}
	if _, err := execute(t, "status", "--kubeconfig="+kubeconfig+".missing"); err == nil || !strings.Contains(err.Error(), "read kubeconfig") {
		t.Errorf("of a missing kubeconfig: %v", err)
	}
}

func TestMistakesAreTold(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	for message, args := range map[string][]string{
		"read configuration":                  {"run", "--config=" + missing},
		"missing.yaml":                        {"--config=" + missing},
		"--listen-address and":                {"run", "--listen-address=127.0.0.1:1"},
		"read kubeconfig":                     {"--kubeconfig=" + missing},
		"unknown command \"go\" for \"kok-ap": {"go"},
	} {
		if _, err := execute(t, args...); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// serve runs the program by a kubeconfig at an address until it has said something or ended, and returns what it said.
func serve(t *testing.T, address string) (string, error) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	authority := apiservertest.NewAuthority(t)
	kubeconfig := filepath.Join(t.TempDir(), "blue.kubeconfig")
	content := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.2:1", certificate-authority: %q}}], users: [{name: u, user: {token: t}}]}`, authority.File())
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	said, out := io.Pipe()
	command := newCommand()
	command.SetOut(out)
	command.SetArgs([]string{"--kubeconfig=" + kubeconfig, "--listen-address=" + address, "--status-address=" + loopback.Free(t).String()})
	ended := make(chan error, 1)
	go func() {
		err := command.ExecuteContext(ctx)
		_ = out.Close()
		ended <- err
	}()
	line, _ := bufio.NewReader(said).ReadString('\n')
	go func() { _, _ = io.Copy(io.Discard, said) }()
	if line != "" {
		// Its only API server is away: it accepts, and resets.
		connection, err := net.Dial("tcp", address)
		if errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%q was said before it listens: %v", line, err)
		}
		if err == nil {
			_ = connection.Close()
		}
	}
	cancel()
	return line, <-ended
}

func TestTheServerToUseIsToldOnceItCanBeUsed(t *testing.T) {
	address := loopback.Free(t).String()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := serve(t, address); line != "" || err == nil {
		t.Errorf("at an address that is in use it says %q and ends with %v", line, err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if line, err := serve(t, address); line != "Server to use: https://"+address+"\n" || err != nil {
		t.Errorf("it says %q and ends with %v", line, err)
	}
}
