package tenantapi

import (
	"net/http"
	"strconv"
	"sync/atomic"
)

const (
	// ownPage is the most objects of a page that readers of this package ask for. They keep none of them, and bound their number. An
	// informer asks for larger pages, and keeps all until the last has come.
	ownPage = 100
	// maxList is the most that comes of such a list, in all its pages, and maxListPages how many pages.
	maxList      = 2 * maxAnswer
	maxListPages = 1000
)

// list is what has come of a list. A nil one has no bound.
type list struct{ pages, bytes atomic.Int64 }

// addPage counts a page, and reports whether it is one too many.
func (l *list) addPage() (tooMany bool) { return l != nil && l.pages.Add(1) > maxListPages }

// add counts bytes, and reports whether they are too many.
func (l *list) add(bytes int) (tooMany bool) { return l != nil && l.bytes.Add(int64(bytes)) > maxList }

// listOf is the list that a request asks a page of; nil for any other request.
func (g *Guard) listOf(request *http.Request) *list {
	query := request.URL.Query()
	limit, err := strconv.Atoi(query.Get("limit"))
	if err == nil && 0 < limit && limit <= ownPage || request.Method != http.MethodGet {
		return nil
	}
	g.lock.Lock()
	defer g.lock.Unlock()
	if query.Get("continue") == "" {
		delete(g.lists, request.URL.Path)
	}
	asked := g.lists[request.URL.Path]
	if asked == nil {
		if asked = (&list{}); query.Get("continue") == "" && limit == 0 {
			return nil // It may be a request for one object.
		}
		if g.lists == nil {
			g.lists = map[string]*list{}
		}
		g.lists[request.URL.Path] = asked
	}
	return asked
}

// refuseList leaves a tenant alone whose list does not end: what has come of it may still be in memory.
func (g *Guard) refuseList(reason string) error {
	g.LeaveAlone(TooMany, reason)
	return g.pass()
}
