//go:build root

package lab

import (
	"bytes"
	"context"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// The network alone is made, beside that of a lab that may be up.
func TestAnS3ServerInTheDataCentre(t *testing.T) {
	l, err := OpenIn(t.TempDir(), host.Network{
		Prefix:   "koks3",
		Cloud:    netip.MustParsePrefix("10.215.0.0/24"),
		IDC:      netip.MustParsePrefix("10.225.0.0/24"),
		Uplink:   netip.MustParsePrefix("10.235.0.0/30"),
		Pods:     netip.MustParsePrefix("10.245.0.0/16"),
		Services: netip.MustParsePrefix("10.255.0.0/16"),
	})
	must(t, err)
	if _, err := l.StartS3(t.Context(), func(m string) { t.Log(m) }, "snapshots"); err == nil {
		t.Fatal("it starts without a lab")
	}
	t.Cleanup(func() {
		must(t, l.endPrograms(context.Background()))
		must(t, host.RemoveNetwork(l.network))
		if left, err := host.Leftovers(l.network, l.state); err != nil || len(left) > 0 {
			t.Errorf("left are %v, %v", left, err)
		}
	})
	must(t, host.EnsureNetwork(t.Context(), l.network))
	must(t, host.Claim(l.network, l.state))
	must(t, host.Cut(l.network))

	server, err := l.StartS3(t.Context(), func(m string) { t.Log(m) }, "snapshots", "others")
	must(t, err)
	if want := "https://10.225.0.1:7480"; server.Endpoint != want {
		t.Errorf("it is at %s, not at %s", server.Endpoint, want)
	}
	bucket := open(t, server)
	must(t, bucket.Check(t.Context()))
	must(t, bucket.Put(t.Context(), "object", bytes.NewReader([]byte("what it was"))))

	// Tests damage objects, and take the server away.
	file := filepath.Join(server.Folder, "snapshots", "team", "blue", "object")
	must(t, os.WriteFile(file, []byte("what it is"), 0o600))
	if content := read(t, bucket); content != "what it is" {
		t.Errorf("the object is %q", content)
	}
	must(t, os.Truncate(file, 4))
	if content := read(t, bucket); content != "what" {
		t.Errorf("the object is %q", content)
	}
	must(t, server.Stop(t.Context()))
	if _, err := bucket.List(t.Context()); store.FieldOf(err) != "s3.endpoint" {
		t.Errorf("a server that is away says %v", err)
	}
	must(t, server.Start(t.Context()))
	if content := read(t, bucket); content != "what" {
		t.Errorf("the object is %q", content)
	}

	// Another one has none of it, and other keys.
	again, err := l.StartS3(t.Context(), func(m string) { t.Log(m) }, "snapshots")
	must(t, err)
	if objects, err := open(t, again).List(t.Context()); err != nil || len(objects) > 0 {
		t.Errorf("there are %v, %v", objects, err)
	}
	if _, err := bucket.List(t.Context()); store.FieldOf(err) != "s3.credentialsRef" {
		t.Errorf("with the former keys: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a bucket as members of etcd do.
func open(t *testing.T, server *S3) *store.S3 {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string][]byte{"accessKeyID": []byte(server.AccessKeyID), "secretAccessKey": []byte(server.SecretAccessKey), "ca.crt": server.CA} {
		must(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	bucket, err := store.OpenS3(store.S3Config{Endpoint: server.Endpoint, Bucket: "snapshots", Prefix: "team/blue", Credentials: folder, CA: filepath.Join(folder, "ca.crt")})
	must(t, err)
	return bucket
}

func read(t *testing.T, bucket *store.S3) string {
	t.Helper()
	object, err := bucket.Get(t.Context(), "object")
	must(t, err)
	content, err := io.ReadAll(object)
	must(t, err)
	must(t, object.Close())
	return string(content)
}
