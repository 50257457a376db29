package serve

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

const (
	// copyTimeout bounds the copies of a round, and peerTimeout each question to another agent.
	copyTimeout = 30 * time.Minute
	peerTimeout = 4 * time.Second
	// copyRounds is the number of rounds between two looks at what others have, and mostSilent how many such looks may fail in a row before
	// that is told: members restart.
	copyRounds = 4
	mostSilent = 5
)

// copyMissing copies at most one of the verified snapshots that other members keep on their volumes, and this one lacks: a copy may take
// long, and other work has to come between two of them.
func (a *agent) copyMissing(ctx context.Context, s session, peers []peer) {
	if a.untilCopy--; !s.config.Store.PerMember || a.untilCopy > 0 {
		return
	}
	a.untilCopy = copyRounds
	copied, err := a.copyNext(ctx, s, peers)
	switch {
	case ctx.Err() != nil:
	case copied:
		a.untilCopy = 0 // There may be more.
	case err == nil:
		a.failedCopies = 0
		a.succeeded(ofCopies)
	default:
		if a.failedCopies++; a.failedCopies >= mostSilent || store.FieldOf(err) != "" {
			a.failed(ofCopies, time.Time{}, fmt.Errorf("copy snapshots from other members: %w", err))
		}
	}
}

// copyNext tries one offer after the other until a snapshot is copied. Errors are those of all members and offers before it. What expired
// meanwhile goes.
func (a *agent) copyNext(ctx context.Context, s session, peers []peer) (copied bool, err error) {
	if err := a.list(ctx, s); err != nil {
		return false, err
	}
	bounded, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	offers, err := a.offersOf(bounded, s, peers)
	errs := []error{err}
	uncopied := map[string]bool{}
	for _, o := range inOrder(offers, a.uncopied) {
		if copied || bounded.Err() != nil {
			uncopied[o.String()] = a.uncopied[o.String()]
			continue
		}
		if copied, err = a.copyOne(bounded, s, o); err != nil {
			uncopied[o.String()] = true
			errs = append(errs, fmt.Errorf("%s: %w", o, err))
		}
	}
	a.uncopied = uncopied
	if len(offers) > 0 {
		// A failed copy prunes as well: when a person lowers spec.etcd.backup.keep, a full volume gets room.
		a.prune(ctx, s)
		errs = append(errs, a.list(ctx, s))
	}
	return copied, errors.Join(errs...)
}

// offer is a snapshot that another member has, and this one lacks.
type offer struct {
	from peerStore
	slot time.Time
}

func (o offer) String() string { return archive.SlotName(o.slot) + " of " + o.from.name }

// inOrder sorts offers, the newest first. Those that could not be copied come last: one that hangs must not keep the others waiting.
func inOrder(offers []offer, uncopied map[string]bool) []offer {
	return slices.SortedStableFunc(slices.Values(offers), func(a, b offer) int {
		if last := uncopied[a.String()]; last != uncopied[b.String()] {
			if last {
				return 1
			}
			return -1
		}
		return b.slot.Compare(a.slot)
	})
}

// offersOf asks all other members. Its errors are of those that do not answer.
func (a *agent) offersOf(ctx context.Context, s session, peers []peer) ([]offer, error) {
	keep := s.config.Keep
	var offers []offer
	var errs []error
	for _, p := range peers {
		if p.name == a.Member || !p.healthy {
			continue
		}
		from, err := a.storeOf(p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		report, err := from.report(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, slot := range snapshot.Lacking(a.listing.of(s.id), verifiedIn(report), snapshot.Keep{Last: keep.Last, Daily: keep.Daily, Weekly: keep.Weekly}, a.Now()) {
			offers = append(offers, offer{from, slot})
		}
	}
	return offers, errors.Join(errs...)
}

// copyOne copies a snapshot. It returns false when there is no such snapshot any more, or this tenant did not write it.
func (a *agent) copyOne(ctx context.Context, s session, o offer) (bool, error) {
	a.setWorking(o.slot)
	defer a.setWorking(time.Time{})
	if err := a.storeKeys(ctx, s); err != nil {
		return false, err
	}
	err := snapshot.Copy(ctx, o.from, s.store, s.reader.Key, s.config.Cluster.UID, o.slot)
	switch {
	case errors.Is(err, store.ErrNotFound), archive.ReasonOf(err) == archive.Foreign:
		return false, nil // It expired there meanwhile, or another round copies what this tenant wrote.
	case err != nil:
		return false, err
	}
	a.Log.Info("a snapshot of another member is copied", "snapshot", archive.SlotName(o.slot), "from", o.from.name)
	return true, nil
}

// verifiedIn are the slots of the verified snapshots of a report.
func verifiedIn(r backup.Report) []time.Time {
	var slots []time.Time
	for _, s := range r.Snapshots {
		if s.Reason == "" && !s.Verified.IsZero() {
			slots = append(slots, s.Slot.UTC())
		}
	}
	return slots
}

// peerStore is the volume of another member, as its agent gives it. It can only be read.
type peerStore struct {
	store.Store // Nil: nothing but Get is called.
	name        string
	base        url.URL
	client      *http.Client
}

// storeOf is the volume of a member, whose agent listens at the port of this one.
func (a *agent) storeOf(p peer) (peerStore, error) {
	config, err := a.Client.Config()
	if err != nil {
		return peerStore{}, err
	}
	at, err := a.agentOf(p)
	if err != nil {
		return peerStore{}, fmt.Errorf("find the agent of %s: %w", p.name, err)
	}
	config.ServerName, config.MinVersion = p.name, tls.VersionTLS13
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader, ResponseHeaderTimeout: peerTimeout, TLSHandshakeTimeout: peerTimeout,
		DialContext: (&net.Dialer{Timeout: peerTimeout}).DialContext}
	return peerStore{name: p.name, base: url.URL{Scheme: "https", Host: at}, client: &http.Client{
		Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// agentOf is the address of the agent of a member: host:port.
func (a *agent) agentOf(p peer) (string, error) {
	if a.AgentOf != nil {
		return a.AgentOf(p.name), nil
	}
	client, err := url.Parse(p.clientURL)
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(a.Listen)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(client.Hostname(), port), nil
}

func (p peerStore) request(ctx context.Context, path string) (io.ReadCloser, error) {
	to := p.base
	to.Path = path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask the agent of %s: %w", p.name, err)
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the agent of %s: %w", p.name, err)
	}
	switch answer.StatusCode {
	case http.StatusOK:
		return answer.Body, nil
	case http.StatusNotFound:
		err = store.ErrNotFound
	default:
		said, _ := io.ReadAll(io.LimitReader(answer.Body, maxMessage))
		err = fmt.Errorf("it answers %s: %s", answer.Status, limited(string(said)))
	}
	_ = answer.Body.Close()
	return nil, fmt.Errorf("ask the agent of %s for %s: %w", p.name, path, err)
}

func (p peerStore) report(ctx context.Context) (r backup.Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	body, err := p.request(ctx, backup.ReportPath)
	if err != nil {
		return r, err
	}
	defer body.Close() //nolint:errcheck // It was only read.
	raw, err := io.ReadAll(io.LimitReader(body, backup.MaxAnswer+1))
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		return r, fmt.Errorf("read the answer of the agent of %s: %w", p.name, err)
	}
	return r, nil
}

// Get implements store.Store.
func (p peerStore) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	return p.request(ctx, backup.ObjectsPath+name)
}

// answerObject gives other members a file of a snapshot on this member's volume.
func (a *agent) answerObject(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	if _, kind := archive.ParseName(name); kind == archive.Unknown {
		http.Error(w, "that is no file of a snapshot", http.StatusNotFound)
		return
	}
	s, err := a.open()
	if err != nil {
		http.Error(w, limited(err.Error()), http.StatusServiceUnavailable)
		return
	}
	defer s.store.Close()
	if !s.config.Store.PerMember {
		http.Error(w, "snapshots are not on volumes of members", http.StatusNotFound)
		return
	}
	object, err := s.store.Get(r.Context(), name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		http.Error(w, "it is not there", http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, limited(err.Error()), http.StatusServiceUnavailable)
		return
	}
	defer object.Close() //nolint:errcheck // It was only read.
	// A snapshot takes longer than other answers.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(copyTimeout))
	w.Header().Set("Content-Type", "application/octet-stream")
	if _, err := io.Copy(w, object); err != nil {
		a.Log.Debug("another member did not get a file", "file", name, "error", limited(err.Error()))
		panic(http.ErrAbortHandler) // Else it would look whole. The reader compares its hash all the same.
	}
}
