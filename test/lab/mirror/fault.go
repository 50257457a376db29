package mirror

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// Fault is how a mirror misbehaves.
type Fault string

const (
	// EndEarly announces a whole file, sends half of it and breaks the connection.
	EndEarly Fault = "ends early"
	// Stall sends half of a file, and then nothing.
	Stall Fault = "stalls"
	// Lie sends other bytes than the file has.
	Lie Fault = "lies"
	// Away breaks the connection without an answer.
	Away Fault = "is away"
	// AskPassword wants User and Password.
	AskPassword Fault = "asks for a password"
)

// User and Password are those that AskPassword asks for.
const (
	User     = "mirror"
	Password = "only-in-the-lab"
)

// faults are those of one mirror, by the beginnings of paths.
type faults struct {
	lock   sync.Mutex
	byPath map[string]Fault
	asked  map[string]int
}

// Misbehave has the mirror misbehave for all paths that begin as the given one, until behave is called.
func (m *Mirror) Misbehave(path string, fault Fault) (behave func()) {
	f := &m.faults
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.byPath == nil {
		f.byPath = map[string]Fault{}
	}
	f.byPath[path] = fault
	return func() {
		f.lock.Lock()
		defer f.lock.Unlock()
		delete(f.byPath, path)
	}
}

// Asked is how many requests came for paths that begin as the given one.
func (m *Mirror) Asked(path string) int {
	m.faults.lock.Lock()
	defer m.faults.lock.Unlock()
	count := 0
	for asked, times := range m.faults.asked {
		if strings.HasPrefix(asked, path) {
			count += times
		}
	}
	return count
}

// note counts a request, and gives the fault of the longest path that fits.
func (f *faults) note(path string) Fault {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.asked == nil {
		f.asked = map[string]int{}
	}
	f.asked[path]++
	fault, longest := Fault(""), -1
	for prefix, of := range f.byPath {
		if strings.HasPrefix(path, prefix) && len(prefix) > longest {
			fault, longest = of, len(prefix)
		}
	}
	return fault
}

// wrap answers as the faults say, and else as the handler does.
func (f *faults) wrap(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch fault := f.note(r.URL.Path); fault {
		case Away:
			panic(http.ErrAbortHandler) // It breaks the connection.
		case AskPassword:
			if user, password, _ := r.BasicAuth(); user != User || password != Password {
				w.Header().Set("WWW-Authenticate", `Basic realm="mirror"`)
				http.Error(w, "a user and a password are needed", http.StatusUnauthorized)
				return
			}
			handler.ServeHTTP(w, r)
		case EndEarly, Stall, Lie:
			handler.ServeHTTP(&bad{ResponseWriter: w, fault: fault, ended: r.Context().Done()}, r)
		default:
			handler.ServeHTTP(w, r)
		}
	})
}

// bad is an answer that goes wrong.
type bad struct {
	http.ResponseWriter
	fault Fault
	// ended is closed when nobody waits for the answer any more.
	ended <-chan struct{}
	// sent is how much of the answer went out.
	sent int64
}

func (b *bad) Write(data []byte) (int, error) {
	if b.fault == Lie {
		other := make([]byte, len(data))
		for i := range data {
			other[i] = data[i] ^ 1
		}
		return b.ResponseWriter.Write(other)
	}
	announced, _ := strconv.ParseInt(b.Header().Get("Content-Length"), 10, 64)
	if left := announced/2 - b.sent; int64(len(data)) > left {
		_, _ = b.ResponseWriter.Write(data[:max(left, 0)])
		_ = http.NewResponseController(b.ResponseWriter).Flush()
		if b.fault == Stall {
			<-b.ended
		}
		panic(http.ErrAbortHandler)
	}
	n, err := b.ResponseWriter.Write(data)
	b.sent += int64(n)
	return n, err
}
