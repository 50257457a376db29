package ssh_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh/sshtest"
)

// Whoever is root on a host may have a server of their own answer there.
func TestACommandEndsWithItsContextWhereNoSessionIsOpened(t *testing.T) {
	t.Parallel()
	c, err := ssh.Dial(t.Context(), ssh.Target{Host: *through(t, sshtest.StartWithoutSessions(t))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(ctx, ssh.Command{Args: []string{"true"}})
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
}
