//go:build lb

package apiserverlb

import (
	"context"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

// refuseBound is how long a client may take to learn that no API server is there.
const refuseBound = 100 * time.Millisecond

// Connections fail while nobody serves them, at once and not after a time-out; afterwards none does.
func TestEverythingWorksAtOnceAfterAllAPIServersWereAway(t *testing.T) {
	s := newStage(t)
	s.startLoad()
	stop := s.startTries()
	for _, server := range s.running {
		server.Kill()
	}
	gone := load.Now()
	<-time.After(time.Minute)
	starting := load.Now()
	for _, server := range s.running {
		s.must(server.Start())
	}
	s.wait(s.running[0].Ready)
	ready := load.Now()
	s.back(ready)
	refused := s.load.Fresh.Failures(gone, starting)
	for _, server := range s.running {
		s.wait(server.Ready)
	}
	s.listed()
	s.known()
	s.began = load.Now()
	tries := stop()
	s.more(s.attempts() + attempts)
	t.Logf("%d client-go requests failed while no API server was there, of %d other connections %d", len(refused), len(tries), failedIn(tries, gone, starting))
	if failedIn(tries, gone, starting) == 0 {
		t.Error("no connection failed in a minute without an API server")
	}
	s.within("lb_refuse_seconds", slowest(tries, gone, starting), refuseBound)
	s.within("lb_recovery_seconds", recovered(tries, ready), time.Second)
	s.none("after_all_away", true)
}

// try is one request without client-go, which would wait and try again.
type try struct {
	began, ended load.Moment
	failed       bool
}

// startTries sends one request after the other, each on a new connection, ten a second at most. The returned function
// ends that.
func (s *stage) startTries() (stop func() []try) {
	s.t.Helper()
	config, err := s.cluster.FreshConfig(s.balancer.Address)
	s.must(err)
	client, err := rest.HTTPClientFor(config)
	s.must(err)
	ctx, cancel := context.WithCancel(s.t.Context())
	tries := make(chan []try, 1)
	go func() {
		var all []try
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				tries <- all
				return
			case <-ticker.C:
			}
			began := load.Now()
			err := tryOnce(context.WithoutCancel(ctx), client, config.Host)
			all = append(all, try{began, load.Now(), err != nil})
		}
	}()
	return func() []try {
		cancel()
		return <-tries
	}
}

func tryOnce(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func failedIn(tries []try, from, to load.Moment) int {
	count := 0
	for _, t := range tries {
		if t.failed && t.began >= from && t.began < to {
			count++
		}
	}
	return count
}

// slowest is how long the slowest took of those that began between two moments, whatever came of it: one that waits until
// somebody answers was not refused.
func slowest(tries []try, from, to load.Moment) time.Duration {
	longest := time.Duration(0)
	for _, t := range tries {
		if t.began >= from && t.began < to {
			longest = max(longest, t.began.Until(t.ended))
		}
	}
	return longest
}

// recovered is how long after the first API server was ready the last connection began that failed.
func recovered(tries []try, ready load.Moment) time.Duration {
	last := ready
	for _, t := range tries {
		if t.failed && t.began > ready {
			last = t.began
		}
	}
	return ready.Until(last)
}
