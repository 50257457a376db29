package serve

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// listing is what was in the store when it was read last.
type listing struct {
	// reading is held while the store is read: there is never more than one listing at a time.
	reading sync.Mutex

	lock sync.Mutex
	// id is that of the session which listed, objects and entries what it found, and at when. began is when the last try began.
	id      string
	objects []store.Object
	entries []snapshot.Entry
	at      time.Time
	began   time.Time
}

const (
	// listAtMost is the least time between two listings of the store that requests of the manager cause.
	listAtMost = time.Minute
	// readTimeout bounds a listing.
	readTimeout = 5 * time.Minute
)

// begin forgets what was listed of another store, or read with other keys.
func (l *listing) begin(id string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.id != id {
		l.id, l.objects, l.entries, l.at, l.began = id, nil, nil, time.Time{}, time.Time{}
	}
}

// of are the snapshots of a session's store; none where another one was listed.
func (l *listing) of(id string) []snapshot.Entry {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.id != id {
		return nil
	}
	return l.entries
}

func (l *listing) last() (entries []snapshot.Entry, at time.Time) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.entries, l.at
}

// list reads the store. While the store's objects are as before, it reads no manifest or verification again.
func (a *agent) list(ctx context.Context, s session) error {
	a.listing.reading.Lock()
	defer a.listing.reading.Unlock()
	return a.listNow(ctx, s)
}

// listNow is list, for who holds the lock.
func (a *agent) listNow(ctx context.Context, s session) error {
	err := a.readStore(ctx, s)
	switch {
	case err == nil:
		a.succeeded(ofListing)
	case ctx.Err() == nil:
		a.failed(ofListing, time.Time{}, err)
	}
	return err
}

func (a *agent) readStore(ctx context.Context, s session) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	l := &a.listing
	l.lock.Lock()
	l.began = a.Now()
	// Before the first listing there is nothing to compare with.
	before, known := l.objects, l.id == s.id && !l.at.IsZero()
	l.lock.Unlock()
	objects, err := s.store.List(ctx)
	if err != nil {
		return err
	}
	if !known || !slices.EqualFunc(before, objects, sameObject) {
		entries, err := snapshot.ListOf(ctx, s.store, s.reader.Key, s.config.Cluster.UID)
		if err != nil {
			return err
		}
		l.lock.Lock()
		l.id, l.objects, l.entries = s.id, objects, entries
		l.lock.Unlock()
	}
	l.lock.Lock()
	l.at = a.Now()
	l.lock.Unlock()
	return nil
}

func sameObject(a, b store.Object) bool {
	return a.Name == b.Name && a.Bytes == b.Bytes && a.Modified.Equal(b.Modified)
}

// listSoon has the store listed beside all else, unless that was tried a moment ago or is done now.
func (a *agent) listSoon() {
	l := &a.listing
	if !l.reading.TryLock() {
		return
	}
	l.lock.Lock()
	due := a.Now().Sub(l.began) >= listAtMost
	l.lock.Unlock()
	if !due || a.ctx.Err() != nil {
		l.reading.Unlock()
		return
	}
	a.background.Go(func() {
		defer l.reading.Unlock()
		s, err := a.open()
		if err != nil {
			return // The next round says it.
		}
		defer s.store.Close()
		_ = a.listNow(a.ctx, s) // A report tells it.
	})
}
