package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/status"
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
