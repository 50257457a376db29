package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

var (
	errStalled  = errors.New("it stalled: no byte, or hardly any, came for too long")
	errInsecure = errors.New("it leads from https to http, which is refused")
	errCA       = errors.New("caBundle of the mirror's endpoint has no certificate in PEM")
)

const (
	connectTimeout = 10 * time.Second
	maxRedirects   = 10
	// maxManifest bounds answers of registries other than layers.
	maxManifest = 4 << 20
)

// layerKey marks the context of a request for a layer, which may be large.
type layerKey struct{}

// guarded is the transport of one source. It allows only https after https, gives up servers that stall, and sends the
// password only to the source's own server.
type guarded struct {
	base   http.RoundTripper
	source source
	stall  time.Duration
}

func (f *Fetcher) transport(s source) (*guarded, error) {
	base := &http.Transport{
		Proxy:               f.proxy,
		DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout: connectTimeout,
		DisableCompression:  true,
		ForceAttemptHTTP2:   true,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if s.caBundle != "" {
		base.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !base.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(s.caBundle)) {
			return nil, errCA
		}
	}
	return &guarded{base: base, source: s, stall: f.stall}, nil
}

func (g *guarded) close() { g.base.(*http.Transport).CloseIdleConnections() }

// RoundTrip implements http.RoundTripper.
func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	own := r.URL.Scheme == g.source.url.Scheme && r.URL.Host == g.source.url.Host
	if g.source.url.Scheme == "https" && r.URL.Scheme != "https" {
		return nil, errInsecure
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	r = r.Clone(ctx)
	// A Referer would show the query to other servers.
	r.Header.Del("Referer")
	if own && !g.source.image && g.source.username != "" {
		r.SetBasicAuth(g.source.username, g.source.password)
	}
	timer := time.AfterFunc(g.stall, func() { cancel(errStalled) })
	response, err := g.base.RoundTrip(r)
	if err != nil {
		timer.Stop()
		if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	timer.Stop()
	body := &watched{body: response.Body, ctx: ctx, cancel: cancel, timer: timer, stall: g.stall}
	response.Body = body
	if g.source.image && r.Context().Value(layerKey{}) == nil {
		body.bounded, body.left = true, maxManifest
	}
	return response, nil
}

// enough is how many bytes must come within the stall time. A server that sends fewer stalls.
const enough = 16 << 10

// watched is the body of an answer. Its Read fails when too few bytes come. The time that this machine takes to write them
// does not count.
type watched struct {
	body    io.ReadCloser
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	stall   time.Duration
	waited  time.Duration
	came    int
	bounded bool
	left    int64
}

func (w *watched) Read(p []byte) (int, error) {
	started := time.Now()
	w.timer.Reset(w.stall - w.waited)
	n, err := w.body.Read(p)
	w.timer.Stop()
	w.waited += time.Since(started)
	if w.came += n; w.came >= enough {
		w.waited, w.came = 0, 0
	}
	if w.left -= int64(n); w.bounded && w.left < 0 {
		return 0, fmt.Errorf("the registry answers with more than %d bytes", maxManifest)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		if cause := context.Cause(w.ctx); errors.Is(cause, errStalled) {
			err = cause
		}
	}
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	err := w.body.Close()
	w.cancel(nil)
	return err
}

// client makes an HTTP client of a transport. It follows redirects.
func client(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return errors.New("it redirects too often")
		}
		return nil
	}}
}

// plain removes the URL from an error, because it may have secrets.
func plain(err error) error {
	for {
		wrapped := (*url.Error)(nil)
		if !errors.As(err, &wrapped) {
			return err
		}
		err = wrapped.Err
	}
}
