package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
)

// Bounds of what others may use.
const (
	maxConnections = 100
	maxHeader      = 16 << 10
	maxBody        = 4 << 10
	headerTimeout  = 10 * time.Second
	answerTimeout  = 30 * time.Second
	idleTimeout    = time.Minute
	endTimeout     = 5 * time.Second
)

// listen answers the manager until the context ends.
func (a *agent) listen(ctx context.Context, l net.Listener) error {
	c := &certificates{files: a.Serving, log: a.Log}
	secured := tls.NewListener(netutil.LimitListener(l, maxConnections), &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: c.forClient})
	server := &http.Server{
		Handler: a.known(), ReadHeaderTimeout: headerTimeout, ReadTimeout: answerTimeout, WriteTimeout: answerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(secured) }()
	select {
	case err := <-ended:
		return fmt.Errorf("answer the manager: %w", err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
	return nil
}

// known answers the manager, and other members where snapshots are on volumes of members. It refuses all whose certificate is of another
// name.
func (a *agent) known() http.Handler {
	manager, peers := a.handler(), a.peerHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := ""
		if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
			name = r.TLS.VerifiedChains[0][0].Subject.CommonName
		}
		if name != "" && name == a.Serving.ClientName {
			a.heardOf()
			manager.ServeHTTP(w, r)
			return
		}
		if name != "" && name == a.Serving.PeerName {
			peers.ServeHTTP(w, r)
			return
		}
		http.Error(w, "only the manager is answered", http.StatusForbidden)
	})
}

func (a *agent) peerHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+backup.ReportPath, a.answerReport)
	mux.HandleFunc("GET "+backup.ObjectsPath+"{name}", a.answerObject)
	return mux
}

func (a *agent) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+backup.ReportPath, a.answerReport)
	mux.HandleFunc("POST "+backup.TakePath, a.answerTake)
	mux.HandleFunc("POST "+backup.DeletePath, a.answerDelete)
	return mux
}

func (a *agent) answerReport(w http.ResponseWriter, _ *http.Request) {
	a.listSoon()
	body, err := encode(a.report())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// Bounds of slots that may be asked for: clocks differ a little, and an old one would go at once.
const (
	mostAhead  = time.Hour
	mostBehind = 24 * time.Hour
	mostAsked  = 8
)

var errAskedTooMuch = errors.New("too many snapshots are asked for: ask again when these are done")

func (a *agent) answerTake(w http.ResponseWriter, r *http.Request) {
	var request backup.TakeRequest
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	slot, now := request.Slot.UTC().Truncate(time.Second), a.Now()
	if err == nil && (slot.After(now.Add(mostAhead)) || slot.Before(now.Add(-mostBehind))) {
		// The present time would make another message of each answer.
		err = fmt.Errorf("the slot %s is not of the last day by the clock of the host node of %s: set the clock right", archive.SlotName(slot), a.Member)
	}
	if err != nil {
		http.Error(w, limited(err.Error()), http.StatusBadRequest)
		return
	}
	if err := a.ask(slot); err != nil {
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func (a *agent) answerDelete(w http.ResponseWriter, r *http.Request) {
	var request backup.DeleteRequest
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	if err == nil && request.Slot.IsZero() {
		err = errors.New("a slot is needed")
	}
	if err != nil {
		http.Error(w, limited(err.Error()), http.StatusBadRequest)
		return
	}
	if err := a.unwant(request.Slot.UTC().Truncate(time.Second)); err != nil {
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// encode writes a report of at most backup.MaxAnswer, without the oldest snapshots where there are too many.
func encode(r backup.Report) ([]byte, error) {
	for {
		var b bytes.Buffer
		if err := json.NewEncoder(&b).Encode(r); err != nil {
			return nil, fmt.Errorf("write a report: %w", err)
		}
		if b.Len() <= backup.MaxAnswer || len(r.Snapshots) == 0 {
			return b.Bytes(), nil
		}
		kept := len(r.Snapshots) / 2
		r.More += len(r.Snapshots) - kept
		r.Snapshots = r.Snapshots[:kept]
	}
}
