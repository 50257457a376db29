//go:build attack

package namespaceuser

import (
	"bytes"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"sync"
)

// ear is a server of the attacker that keeps what it is sent.
type ear struct {
	*httptest.Server

	lock  sync.Mutex
	heard bytes.Buffer
}

// longest is how much is kept of one request.
const longest = 1 << 20

// listen starts a server that answers what it is given, with TLS or without; it ends with the test that made the attacker.
func (a *attacker) listen(secure bool, answer http.HandlerFunc) *ear {
	a.t.Helper()
	e := &ear{}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = io.NopCloser(io.LimitReader(r.Body, longest))
		sent, err := httputil.DumpRequest(r, true)
		e.lock.Lock()
		e.heard.Write(sent)
		if err != nil {
			e.heard.WriteString(err.Error())
		}
		e.lock.Unlock()
		answer(w, r)
	}))
	if secure {
		e.StartTLS()
	} else {
		e.Start()
	}
	a.t.Cleanup(func() {
		e.CloseClientConnections()
		e.Close()
	})
	a.ears = append(a.ears, e)
	return e
}

// all is what the server was sent so far.
func (e *ear) all() []byte {
	e.lock.Lock()
	defer e.lock.Unlock()
	return bytes.Clone(e.heard.Bytes())
}

// authority is the certificate that a client of a server with TLS trusts.
func (e *ear) authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw})
}

// refuse answers as an API server that knows nobody.
func refuse(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"who are you","code":403}`)
}
