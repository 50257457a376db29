package tenantapi

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/untrusted"
)

const (
	// maxAnswer is the most that is read of one answer: all requests for certificates of 5,000 nodes that joined within an
	// hour are 25 MiB, a page of a hundred Nodes is 5 MiB at most.
	maxAnswer = 32 << 20
	// maxFailure is the most of an answer that tells of a failure: its text gets into logs.
	maxFailure = 64 << 10
	// maxHeld bounds what is in memory of all answers of a tenant at the same time.
	maxHeld = 2 * maxAnswer
	// maxWatch is after how many bytes a watch is ended. API servers end watches after some minutes, too, and client-go goes
	// on where it was. It also bounds one event.
	maxWatch = 64 << 20
	// soon is the shortest time in which a watch may bring maxWatch bytes: a faster one is hostile.
	soon = time.Minute
	// maxHeader bounds the header of an answer.
	maxHeader = 64 << 10
)

// bound checks the header of an answer, and puts a bounded body in place of its own.
func (g *Guard) bound(request *http.Request, answer *http.Response) error {
	if coding := answer.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return g.refuse(Compressed, "its answer is compressed, although nobody asked for that")
	}
	if answer.StatusCode < http.StatusBadRequest && answer.ContentLength != 0 && !isAskedFor(answer.Header.Get("Content-Type")) {
		return g.refuse(NotJSON, "its answer is not JSON, and nothing else was asked for")
	}
	if answer.StatusCode == http.StatusOK && untrusted.IsWatch(request) {
		answer.Body = &watched{ReadCloser: answer.Body, guard: g, began: g.clock.Now()}
		return nil
	}
	limit := int64(maxAnswer)
	if answer.StatusCode >= http.StatusBadRequest {
		limit = maxFailure
	}
	if answer.ContentLength > limit {
		return g.refuse(TooLarge, tooLarge(limit))
	}
	asked := g.listOf(request)
	if asked.addPage() {
		return g.refuseList(fmt.Sprintf("its list has more than %d pages", maxListPages))
	}
	answer.Body = &bounded{ReadCloser: answer.Body, guard: g, limit: limit, list: asked}
	return nil
}

func (g *Guard) refuse(offence Offence, reason string) error {
	g.Strike(offence, reason)
	return fmt.Errorf("the tenant's API server is not listened to: %s", reason)
}

func tooLarge(limit int64) string {
	return fmt.Sprintf("its answer has more than %d KiB", limit>>10)
}

// bounded is the body of one answer.
type bounded struct {
	io.ReadCloser
	guard       *Guard
	limit, read int64
	// list is the one that the answer is a page of; nil for any other answer.
	list   *list
	values values
	// err is the error of the first Read that failed: code that drains a body goes on reading.
	err    error
	closed sync.Once
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	held := b.guard.held.Add(int64(n))
	switch {
	case b.read > b.limit:
		err = b.guard.refuse(TooLarge, tooLarge(b.limit))
	case b.list.add(n):
		err = b.guard.refuseList(fmt.Sprintf("its list has more than %d MiB in all its pages", maxList>>20))
	case b.values.tooMany(p[:n]):
		err = b.guard.refuse(TooMany, tooManyValues)
	case held > maxHeld:
		err = fmt.Errorf("the answers of the tenant's API server that are read at the same time have more than %d MiB", maxHeld>>20)
	}
	b.err = err
	return n, err
}

// Close implements io.Closer.
func (b *bounded) Close() error {
	b.closed.Do(func() { b.guard.held.Add(-b.read) })
	return b.ReadCloser.Close()
}

// watched is the body of a watch.
type watched struct {
	io.ReadCloser
	guard  *Guard
	began  time.Time
	read   int64
	values values
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	if w.read >= maxWatch {
		return 0, io.EOF
	}
	n, err := w.ReadCloser.Read(p[:min(int64(len(p)), maxWatch-w.read)])
	if w.guard.alone() {
		return 0, w.guard.pass()
	}
	if w.values.tooMany(p[:n]) {
		return 0, w.guard.refuse(TooMany, tooManyValues)
	}
	if w.read += int64(n); w.read >= maxWatch && w.guard.clock.Since(w.began) < soon {
		w.guard.Strike(TooLarge, fmt.Sprintf("a watch brought %d MiB in less than %s", maxWatch>>20, soon))
	}
	return n, err
}
