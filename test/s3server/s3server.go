// Package s3server gives tests a real S3 server of their own: versitygw, which keeps objects in a folder.
package s3server

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// AccessKey and SecretKey are those of the server's only user.
const (
	AccessKey = "tenant"
	SecretKey = "not-a-secret"
)

// Bucket is the one that there is.
const Bucket = "snapshots"

// variable names the program, which make builds.
const variable = "KOK_VERSITYGW"

// patience bounds the wait for the server.
const patience = 30 * time.Second

// Server is a running one.
type Server struct {
	// Endpoint is its address, Folder where buckets are.
	Endpoint, Folder string
}

// Start starts a server with one bucket, which ends with the test. With files of a certificate it speaks TLS.
func Start(t testing.TB, certificate, key string, flags ...string) Server {
	t.Helper()
	program := os.Getenv(variable)
	if program == "" {
		t.Fatalf("%s names no S3 server: make bin/versitygw builds one, and make test-envtest sets the variable", variable)
	}
	s := Server{Endpoint: "http://" + loopback.Free(t).String(), Folder: t.TempDir()}
	address := s.Endpoint[len("http://"):]
	if err := os.Mkdir(filepath.Join(s.Folder, Bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--quiet", "--port", address, "--access", AccessKey, "--secret", SecretKey, "--health", "/health"}, flags...)
	if certificate != "" {
		s.Endpoint = "https://" + address
		args = append(args, "--cert", certificate, "--key", key)
	}
	// Metadata is kept beside the objects: not every file system of a test has extended attributes.
	server := exec.Command(program, append(args, "posix", "--sidecar", t.TempDir(), s.Folder)...)
	server.Env = append(os.Environ(), "HOME="+t.TempDir())
	var said bytes.Buffer
	server.Stdout, server.Stderr = &said, &said
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = server.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = server.Process.Kill()
		<-ended
	})
	if !answers(t, s.Endpoint, ended) {
		_ = server.Process.Kill()
		<-ended
		t.Fatalf("the S3 server does not answer:\n%s", said.String())
	}
	return s
}

// answers waits until the server does, by its health.
func answers(t testing.TB, endpoint string, ended <-chan struct{}) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: anyCertificate, DisableKeepAlives: true}}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := client.Do(request); err == nil {
			_ = answer.Body.Close()
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
}
