package controllers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hostclient"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cleanup"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background/backgroundtest"
)

// cleaner is a hostclient.Client whose clean-ups are a function.
type cleaner struct {
	hostclient.Client
	clean func(context.Context) error
}

func (c *cleaner) CleanUp(ctx context.Context, _ *infrav1.IDCHost, _ string) error {
	return c.clean(ctx)
}

func TestOnlyWhatTheHostDoesCountsAgainstIt(t *testing.T) {
	lost := &ssh.Error{Reason: ssh.Lost, Server: "admin@192.0.2.7:22", Err: errors.New("EOF")}
	for name, test := range map[string]struct {
		err    error
		counts bool
	}{
		"not an API server that gives no Secret":             {errors.New("read Secret hosts with the key: the server is busy"), false},
		"not one that takes too long for it":                 {fmt.Errorf("read Secret hosts with the key: %w", context.DeadlineExceeded), false},
		"not a host that is away":                            {&ssh.Error{Reason: ssh.Away, Err: errors.New("no route")}, false},
		"not a connection that ends":                         {lost, false},
		"not one that ends after a command failed":           {errors.Join(&hosts.CommandError{Command: []string{"umount"}, ExitStatus: 32}, lost), false},
		"a command that fails":                               {&hostclient.HostError{Err: &hosts.CommandError{Command: []string{"rm"}, ExitStatus: 1}}, true},
		"something that is left":                             {&hostclient.HostError{Err: &cleanup.UncleanError{Left: []string{"mount /data"}}}, true},
		"a host that carries another machine":                {&hostclient.HostError{Err: &ownership.InUseError{}}, true},
		"a command that hangs while the connection does not": {&hostclient.HostError{Err: fmt.Errorf("run umount: %w", context.DeadlineExceeded)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			begin := func() *background.Runner { return background.New(1, time.Second) }
			backgroundtest.InBubble(t, begin, func(t *testing.T, work *background.Runner, _ *backgroundtest.Woken) {
				host := &infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "host-1"}}
				key := background.Key{Object: client.ObjectKeyFromObject(host), Kind: "clean-up"}
				hostClient := &cleaner{clean: func(context.Context) error { return test.err }}
				cleanUp(work, key, hostClient, host, "1", probeRetry)
				backgroundtest.After(5 * probeRetry)
				seen := cleanUp(work, key, hostClient, host, "1", probeRetry)
				if seen == nil || !errors.Is(seen.err, test.err) || (seen.tries >= cleanUpTries) != test.counts || (seen.tries > 0) != test.counts {
					t.Errorf("it is %+v", seen)
				}
			})
		})
	}
}
