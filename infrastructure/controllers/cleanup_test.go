package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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

// A person works on a host whose clean-up failed.
func TestACleanUpThatFailedIsTriedAgainOnlyWhenAPersonWantsIt(t *testing.T) {
	for name, test := range map[string]struct {
		clean func(context.Context) error
		tries int
	}{
		"a host that stays unclean": {func(context.Context) error {
			return &hostclient.HostError{Err: &cleanup.UncleanError{Left: []string{"mount /data"}}}
		}, cleanUpTries},
		"a clean-up that panics": {func(context.Context) error { panic("it panics") }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			begin := func() *background.Runner { return background.New(1, time.Second) }
			backgroundtest.InBubble(t, begin, func(t *testing.T, work *background.Runner, _ *backgroundtest.Woken) {
				host := &infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "host-1"}}
				host.Spec.Quarantine = &infrav1.HostQuarantine{Reason: "no route", Since: metav1.Now()}
				api := withNodes(t, host)
				tries := &atomic.Int32{}
				r := &HostReconciler{Client: api, APIReader: api, probes: work, Hosts: &cleaner{clean: func(ctx context.Context) error {
					tries.Add(1)
					return test.clean(ctx)
				}}}
				reconcile := func() *infrav1.IDCHost {
					host := &infrav1.IDCHost{}
					if err := api.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "host-1"}, host); err != nil {
						t.Fatal(err)
					}
					if _, err := r.cleanLate(t.Context(), host); err != nil {
						t.Error(err)
					}
					return host
				}
				for round := 1; round <= 2; round++ {
					host := reconcile()
					host.Spec.Quarantine.InstanceID = "1"
					if err := api.Update(t.Context(), host); err != nil {
						t.Fatal(err)
					}
					reconcile()
					backgroundtest.After(cleanUpTries * cleanUpRetry * 2)
					reconcile()
					if host := reconcile(); host.Spec.Quarantine == nil || host.Spec.Quarantine.InstanceID != "" {
						t.Errorf("round %d: no person is asked: %+v", round, host.Spec.Quarantine)
					}
					backgroundtest.After(time.Hour)
					if got := int(tries.Load()); got != round*test.tries {
						t.Errorf("it was tried %d times in round %d, want %d", got, round, round*test.tries)
					}
				}
			})
		})
	}
}

// A person who takes a host into quarantine ends what works on it.
func TestACleanUpEndsWhenTheHostNoLongerWaitsForIt(t *testing.T) {
	begin := func() *background.Runner { return background.New(1, time.Second) }
	backgroundtest.InBubble(t, begin, func(t *testing.T, work *background.Runner, _ *backgroundtest.Woken) {
		host := &infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "host-1"}}
		host.Spec.Quarantine = &infrav1.HostQuarantine{Reason: "no route", Since: metav1.Now(), InstanceID: "1"}
		tries := &atomic.Int32{}
		r := &HostReconciler{probes: work, Hosts: &cleaner{clean: func(context.Context) error {
			tries.Add(1)
			return &ssh.Error{Reason: ssh.Away, Err: errors.New("no route")}
		}}}
		for _, instanceID := range []string{"1", ""} {
			host.Spec.Quarantine.InstanceID = instanceID
			if _, err := r.cleanLate(t.Context(), host); err != nil {
				t.Error(err)
			}
			backgroundtest.After(probeRetry / 2)
		}
		backgroundtest.After(time.Hour)
		if got := tries.Load(); got != 1 {
			t.Errorf("it was tried %d times", got)
		}
	})
}
