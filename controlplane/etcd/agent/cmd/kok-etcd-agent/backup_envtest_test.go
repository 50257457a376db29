//go:build envtest

package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/s3server"
)

// secured is an etcd that only knows clients with a certificate.
func secured(t *testing.T) (endpoint string, files snapshot.TLSFiles) {
	t.Helper()
	address, peer := loopback.Free(t), "http://"+loopback.Free(t).String()
	files.CA, files.Key = s3server.Certificate(t, address.IP.String(), time.Now().Add(time.Hour))
	files.Certificate, endpoint = files.CA, "https://"+address.String()
	etcd := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd"), "--name=one", "--data-dir="+t.TempDir(), "--listen-client-urls="+endpoint, "--advertise-client-urls="+endpoint,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=one="+peer, "--log-level=error",
		"--cert-file="+files.Certificate, "--key-file="+files.Key, "--client-cert-auth", "--trusted-ca-file="+files.CA)
	etcd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, etcd.Start())
	t.Cleanup(func() {
		_ = etcd.Process.Kill()
		_ = etcd.Wait()
	})
	config, err := files.Config()
	must(t, err)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: config, Logger: zap.NewNop(), DialTimeout: time.Minute})
	must(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = client.Put(ctx, "a", "b")
	must(t, err)
	return endpoint, files
}

func keyFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestAPersonTakesVerifiesListsAndRestores(t *testing.T) {
	reexec.NewStage(t).Cast(role)
	endpoint, files := secured(t)
	person, err := age.GenerateX25519Identity()
	must(t, err)
	must(t, os.Mkdir("store", 0o700))
	must(t, os.Mkdir("scratch", 0o700))
	in := []string{"--store-dir=store", "--hmac-key-file=" + keyFile(t, "key", strings.Repeat("k", 32))}
	take := append([]string{
		"snapshot", "--endpoint=" + endpoint, "--cacert=" + files.CA, "--cert=" + files.Certificate, "--key=" + files.Key, "--cluster=team/one", "--tenant-uid=1-2",
		"--recipients-file=" + keyFile(t, "recipients", "# ada\n"+person.Recipient().String()+"\n"), "--slot=2026-03-04T05:06:07Z",
	}, in...)
	opened := append([]string{"--identity-file=" + keyFile(t, "identity", person.String()+"\n"), "--etcd=" + filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd")}, in...)
	restore := append([]string{"restore", "20260304T050000Z", "--data-dir=data", "--name=two", "--peer-url=http://127.0.0.1:2380", "--token=new", "--tenant-uid=1-2"}, opened...)
	verify := append([]string{"verify", "--scratch=scratch"}, opened...)
	with := func(args []string, more ...string) []string { return slices.Concat(args, more) }
	for _, step := range []struct {
		args       []string
		says, errs string
	}{
		{append([]string{"list"}, in...), "VERIFIED\n", ""},
		{verify, "", "there is no snapshot in this store"},
		{restore, "", "there is no snapshot 20260304T050000Z in this store"},
		{take, "snapshot 20260304T050000Z: revision 2, ", ""},
		{take, "snapshot 20260304T050000Z is there already", ""},
		{append([]string{"list"}, in...), "  2         ", ""},
		{restore, "", "run kok-etcd-agent verify first"},
		{with(verify, "--tenant-uid=3"), "", "Foreign: "},
		{verify, "snapshot 20260304T050000Z is verified: etcd 3.", ""},
		{append([]string{"list", "--json"}, in...), `"verification": {`, ""},
		{with(restore, "--tenant-uid=3"), "", "Foreign: "},
		{restore, "of revision 2 is restored in data: etcd goes on from revision 1000000002", ""},
		{restore, "", "there are data already"},
		{with(restore, "--data-dir=other", "--peer-url=x"), "", "its peer URL is wrong"},
	} {
		out, _, err := execute(t, step.args...)
		if !strings.Contains(out, step.says) || (err == nil) != (step.errs == "") || err != nil && !strings.Contains(err.Error(), step.errs) {
			t.Errorf("%v says %q and ends with %v", step.args, out, err)
		}
	}
	// What the member's init container finds there.
	out, _, err := execute(t, "prepare", "--hold", "--data-dir=data", "--termination-log=log")
	must(t, err)
	message, err := os.ReadFile("log")
	must(t, err)
	if f, err := facts.Decode(string(message)); err != nil || f.State != facts.Present || !f.Checked || f.Revision != 1_000_000_002 {
		t.Errorf("it finds %s: %v", out, err)
	}
	// A script reads the list.
	out, _, err = execute(t, append([]string{"list", "--json"}, in...)...)
	must(t, err)
	var list []listed
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 || list[0].Manifest.Cluster.UID != "1-2" || list[0].Verification.Revision < 2 {
		t.Errorf("it lists %s: %v", out, err)
	}
	foreign := []string{"list", "--store-dir=store", "--hmac-key-file=" + keyFile(t, "key", strings.Repeat("x", 32))}
	if out, _, err = execute(t, foreign...); err != nil || !strings.Contains(out, "20260304T050000Z  Foreign: ") {
		t.Errorf("of another tenant it lists %s: %v", out, err)
	}
}
