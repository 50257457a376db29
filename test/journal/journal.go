// Package journal writes down, through an API, what must not be lost: keys, each once, at a steady pace, while something
// happens to the API servers or to etcd behind them. In the end every write that was acknowledged has to be there with its
// value, and a watch that was open all the time has to have brought it.
//
// Every fifth key is read back at once, and has to have its value then too: a read of each would double what the machine
// has to do beside the API servers. Every tenth is written and read over new connections, the others over one that is kept.
//
// A failed request, write or read, is one for which client-go, with its built-in handling of Retry-After and no other
// retry, returns an error; package load says what that handling sends again. What client-go put right by itself is counted
// apart, as raw errors.
package journal

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

// Options say where the journal is written.
type Options struct {
	// Name begins the name of each key: journals of one namespace have names of their own.
	Name string
	// Config is the way to the API.
	Config *rest.Config
	// Namespace exists and may be written to.
	Namespace string
	// Rate is the number of writes a second.
	Rate int
}

// Journal writes until it is stopped.
type Journal struct {
	options Options
	// kept sends requests over one connection, fresh each over a new one.
	kept, fresh kubernetes.Interface
	watch       *watch
	stop        context.CancelFunc
	running     sync.WaitGroup

	lock sync.Mutex
	// began is when it was started, ended when it was stopped, advanced when the last write was acknowledged.
	began, ended, advanced time.Time
	// still is the longest time between two writes that were acknowledged one after the other.
	still time.Duration
	// acknowledged are the values by the names of their keys, other those that a read brought instead.
	acknowledged, other map[string]string
	reads               int
	failed              []string
	raw                 load.Raw
	serverErrors        []string
	slowest             time.Duration
}

// Start begins to write. Its watch begins with what is there now.
func Start(ctx context.Context, o Options) (*Journal, error) {
	j, err := newJournal(o)
	if err != nil {
		return nil, fmt.Errorf("make a client for the journal %s: %w", o.Name, err)
	}
	if j.watch, err = newWatch(ctx, o); err != nil {
		return nil, fmt.Errorf("open the watch of the journal %s: %w", o.Name, err)
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	j.stop, j.began, j.advanced = stop, time.Now(), time.Now()
	j.running.Go(func() { j.watch.run(working) })
	j.running.Go(func() {
		load.Pace(working, o.Rate, func(i int) { j.put(context.WithoutCancel(working), i) })
	})
	return j, nil
}

// newJournal has clients and does nothing.
func newJournal(o Options) (*Journal, error) {
	j := &Journal{options: o, acknowledged: map[string]string{}, other: map[string]string{}}
	kept := rest.CopyConfig(o.Config)
	kept.QPS, kept.Timeout = -1, load.Timeout
	kept.Wrap(j.counting)
	fresh, err := load.Fresh(kept)
	if err != nil {
		return nil, err
	}
	if j.kept, err = kubernetes.NewForConfig(kept); err != nil {
		return nil, err
	}
	j.fresh, err = kubernetes.NewForConfig(fresh)
	return j, err
}

// First is the name and the value of the first key, once it is acknowledged.
func (j *Journal) First() (name, text string, ok bool) {
	j.lock.Lock()
	defer j.lock.Unlock()
	name = j.name(0)
	text, ok = j.acknowledged[name]
	return name, text, ok
}

// Newest is the number of the newest key that is acknowledged; -1 without any.
func (j *Journal) Newest() int {
	j.lock.Lock()
	defer j.lock.Unlock()
	newest := -1
	for name := range j.acknowledged {
		if number, own := j.number(name); own {
			newest = max(newest, number)
		}
	}
	return newest
}

// name is that of the i-th key.
func (j *Journal) name(i int) string { return fmt.Sprintf("%s-%d", j.options.Name, i) }

// number is that of a key; own is false for one of another journal.
func (j *Journal) number(name string) (number int, own bool) {
	text, own := strings.CutPrefix(name, j.options.Name+"-")
	number, err := strconv.Atoi(text)
	return number, own && err == nil
}

// Stop ends the writes, and waits for those under way.
func (j *Journal) Stop() {
	j.lock.Lock()
	if j.ended.IsZero() {
		j.ended = time.Now()
	}
	j.lock.Unlock()
	j.stop()
	j.running.Wait()
}
