package attack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Target is a kind of place that nobody of a tenant is to reach.
type Target struct {
	Name string
	// Plant makes a canary there and says at which address it is reached.
	Plant func(ctx context.Context) (*Canary, netip.AddrPort, error)
	// Ask reaches the canary from where it may be reached; it gives the answer.
	Ask func(ctx context.Context, to netip.AddrPort) (string, error)
}

// atOnce is how many tries run beside each other.
const atOnce = 4

// Reach takes each way to each target. A connection from the worker is no success: who is root there reaches by itself what
// its network reaches.
func (a *Attacker) Reach(ctx context.Context, report *Report, ways []Way, targets []Target) error {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, way := range ways {
		if err := a.control(ctx, report, way); err != nil {
			return errors.Join(err, group.Wait())
		}
		for _, target := range targets {
			group.Go(func() error { return a.try(ctx, report, way, target) })
		}
	}
	return group.Wait()
}

// control takes a way to a canary on the attacker's own worker, where it must lead.
func (a *Attacker) control(ctx context.Context, report *Report, way Way) error {
	to := netip.AddrPortFrom(a.Worker.Address, NextPort())
	canary, err := Plant(to.Port(), a.certificate, nil, ListenAt(a.Worker, to.Addr()))
	if err != nil {
		return err
	}
	defer func() { _ = canary.Close() }()
	// API servers, and kube-proxy, hear of new objects a moment later.
	var answer string
	for range 3 {
		var err error
		answer, err = way.Take(ctx, a, to)
		if from := canary.Visitors(); len(from) > 0 {
			read := ""
			if strings.Contains(answer, canary.Token) || err != nil && strings.Contains(err.Error(), canary.Token) {
				read = ", and what it answers came back"
			}
			report.Control("%s reaches a canary on the tenant's own worker, from %s%s", way.Name, from[0], read)
			return nil
		}
		if way.Redirects && !errors.Is(err, errNotAsked) {
			report.Control("%s: the server on the worker is asked, and nobody follows it even to another port of the worker: %v", way.Name, err)
			return nil
		}
		if err != nil {
			answer = err.Error()
		}
	}
	return fmt.Errorf("%s does not even reach a canary on the tenant's own worker, and proves nothing: %s", way.Name, answer)
}

// try takes one way to one target.
func (a *Attacker) try(ctx context.Context, report *Report, way Way, target Target) error {
	canary, to, err := target.Plant(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = canary.Close() }()
	own, err := a.knock(ctx, canary, to)
	if err != nil {
		return err
	}
	before := len(canary.Visitors())
	answer, err := way.Take(ctx, a, to)
	if errors.Is(err, errNotAsked) {
		return fmt.Errorf("%s to %s: %w", way.Name, target.Name, err)
	}
	if err != nil {
		answer = err.Error()
	}
	strangers := func() []netip.Addr {
		return slices.DeleteFunc(canary.Visitors()[before:], func(from netip.Addr) bool { return from == a.Worker.Address || slices.Contains(own, from) })
	}
	Within(ctx, lateness, func() bool { return len(strangers()) > 0 })
	outcome := Outcome{Name: way.Name, Did: way.Did, Target: target.Name, Stopped: answer}
	if len(canary.Visitors()) > before {
		outcome.Remark = "connected from the worker, which reaches it by itself"
	}
	if found := strangers(); len(found) > 0 {
		outcome.Succeeded, outcome.Remark = true, "connected from "+found[0].String()
	}
	if strings.Contains(answer, canary.Token) && len(own) == 0 {
		outcome.Succeeded, outcome.Remark = true, "its token was read"
	}
	report.Add(outcome)
	// The target must be one that answers: else nothing was there to reach.
	got, err := target.Ask(ctx, to)
	if err != nil || !strings.Contains(got, canary.Token) {
		return errors.Join(fmt.Errorf("the canary at %s, %s, answers %q to who may reach it", target.Name, to, got), err)
	}
	return nil
}

// lateness is how long a connection may come after the answer of what caused it.
const lateness = 300 * time.Millisecond

// knock connects from the worker itself, and tells which addresses the target saw then.
func (a *Attacker) knock(ctx context.Context, canary *Canary, to netip.AddrPort) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	connection, err := a.Worker.Dial(ctx, "tcp", to.String())
	if err != nil {
		return nil, nil //nolint:nilerr // It is what most targets should answer.
	}
	defer connection.Close() //nolint:errcheck // Nothing was written.
	Within(ctx, lateness, func() bool { return len(canary.Visitors()) > 0 })
	return canary.Visitors(), nil
}
