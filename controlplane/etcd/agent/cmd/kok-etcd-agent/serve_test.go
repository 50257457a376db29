package main

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// Without a file, a certificate or etcd it goes on, for all of them may come; it ends when it is told to.
func TestServeGoesOnWhateverIsMissing(t *testing.T) {
	address := loopback.Free(t).String()
	args := []string{
		"serve", "--config-dir=" + t.TempDir(), "--member=one", "--endpoint=https://127.0.0.1:1", "--cacert=/none", "--cert=/none", "--key=/none",
		"--listen=" + address, "--serve-cert=/none", "--serve-key=/none", "--client-ca=/none", "--etcd=/bin/true", "--data-dir=/none", "--quota=1",
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := newCommand()
	var said bytes.Buffer
	command.SetErr(&said)
	command.SetArgs(args)
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	for {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			must(t, connection.Close())
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("it ended with %v:\n%s", err, said.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err != nil || !strings.Contains(said.String(), "backup.json") {
		t.Errorf("it ended with %v:\n%s", err, said.String())
	}
	if _, _, err := execute(t, append(args, "--etcd=/none")...); err == nil || !strings.HasPrefix(err.Error(), "--etcd: ") {
		t.Errorf("without a program of etcd it ends with %v", err)
	}
}
