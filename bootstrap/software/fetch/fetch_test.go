package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

var content = strings.Repeat("kubelet", 20_000)

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// fetcher downloads to a folder, and keeps what it says.
type fetcher struct {
	*Fetcher
	t    *testing.T
	said []string
}

func newFetcher(t *testing.T, mirrors ...software.Mirror) *fetcher {
	f := &fetcher{t: t}
	f.Fetcher = New(Options{
		Disk: &disk.Disk{Root: t.TempDir()}, Mirrors: mirrors, Stall: time.Minute, Pause: time.Millisecond,
		Say: func(format string, args ...any) {
			f.said = append(f.said, fmt.Sprintf(format, args...))
		},
	})
	return f
}

func (f *fetcher) get(urls ...string) error {
	return f.All(f.t.Context(), []File{{Component: "kubelet", Archive: bootstrapv1.SoftwareArchive{URLs: urls, SHA256: digest(content)}}})
}

// got wants the file to be there.
func (f *fetcher) got() {
	f.t.Helper()
	data, err := os.ReadFile(f.disk.Place(Path(digest(content))))
	if err != nil || string(data) != content {
		f.t.Errorf("the file has %d bytes: %v", len(data), err)
	}
	if entries, err := os.ReadDir(f.disk.Place(Dir)); err != nil || len(entries) != 1 {
		f.t.Errorf("beside the file there are %v: %v", entries, err)
	}
}

// stalls is why a server that stalls is avoided.
const stalls = "it stalled"

// expect shortens the wait for a server that stalls. The honest server has no more time then, so that two seconds are left to it.
func (f *fetcher) expect(reason string) {
	if reason == stalls {
		f.stall = 2 * time.Second
	}
}

// avoidedOnly wants one source to have been avoided, for a reason.
func (f *fetcher) avoidedOnly(source, reason string) {
	f.t.Helper()
	if got := f.Avoided(); len(got) != 1 || !strings.HasPrefix(got[0], source) || !strings.Contains(got[0], reason) {
		f.t.Errorf("avoided %q, want %s because %q", got, source, reason)
	}
}

func serve(t *testing.T, handle http.HandlerFunc) string {
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.URL
}

// large says that the file is larger than any disk.
func large(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", strconv.FormatInt(1<<60, 10))
	_, _ = w.Write([]byte(content))
}

func honest(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(content)) }

func TestAServerThatMisbehavesMakesTheNextOneTheSource(t *testing.T) {
	for name, bad := range map[string]struct {
		handle http.HandlerFunc
		reason string
	}{
		"it gives another file": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("evil")) }, "not the one that is wanted"},
		"it does not have it":   {http.NotFound, "it answers 404 Not Found"},
		"it is out of order":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "it answers 502"},
		"it ends early each time": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			_, _ = w.Write([]byte(content[:5000]))
		}, "it ended early, after 4.9 KiB"},
		"it ends early and does not say so": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			_, _ = w.Write([]byte(content[:5000]))
		}, "not the one that is wanted"},
		"it accepts and says nothing": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, stalls},
		"it stalls in the middle": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(content[:5000]))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, stalls},
		"it gives a byte now and then": {func(w http.ResponseWriter, r *http.Request) {
			for ticker := time.NewTicker(20 * time.Millisecond); r.Context().Err() == nil; <-ticker.C {
				_, _ = w.Write([]byte(content[:1]))
				w.(http.Flusher).Flush()
			}
		}, stalls},
		"it redirects in a circle":      {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, "redirects too often"},
		"it wants a password":           {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, "it answers 401"},
		"it is larger than any program": {large, "it gives more than 4.0 GiB, which no program has"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFetcher(t)
			f.expect(bad.reason)
			first := serve(t, bad.handle)
			if err := f.get(first+"/kubelet", serve(t, honest)); err != nil {
				t.Fatal(err)
			}
			f.got()
			f.avoidedOnly(first+"/kubelet: ", bad.reason)
		})
	}
	t.Run("it is away", func(t *testing.T) {
		f := newFetcher(t)
		away := "http://" + loopback.Free(t).String() + "/kubelet"
		if err := f.get(away, serve(t, honest)); err != nil {
			t.Fatal(err)
		}
		f.got()
		f.avoidedOnly(away, "connection refused")
	})
}

func TestAServerThatGivesMoreThanTheLimitIsAvoided(t *testing.T) {
	for name, handle := range map[string]http.HandlerFunc{
		"without an end": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(content))
			}
		},
		"by a byte": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(content + "x")) },
		"by a byte, and says so": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(content)+1))
			_, _ = w.Write([]byte(content + "x"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFetcher(t)
			f.limit = int64(len(content))
			liar := serve(t, handle)
			if err := f.get(liar+"/kubelet", serve(t, honest)); err != nil {
				t.Fatal(err)
			}
			f.got()
			f.avoidedOnly(liar+"/kubelet: ", "it gives more than 136.7 KiB, which no program has")
		})
	}
}

func TestADiskWithoutRoomIsTheReasonWhenNoServerIsAskedAgain(t *testing.T) {
	away := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	for name, c := range map[string]struct {
		// more is how much more than by default a server may give.
		more int64
		// then are the answers of the server that is asked after the one for whose file there is no room.
		then []http.HandlerFunc
		want software.Reason
	}{
		"one that is away for a moment is":              {1 << 61, []http.HandlerFunc{away, honest}, ""},
		"one that is away for a moment is after a liar": {0, []http.HandlerFunc{away, honest}, ""},
		"one that lacks the file is not":                {1 << 61, []http.HandlerFunc{http.NotFound}, software.NoRoom},
		"one that is away each time is not":             {1 << 61, []http.HandlerFunc{away, away, away}, software.NoRoom},
		"one that was away and lacks it is not":         {1 << 61, []http.HandlerFunc{away, http.NotFound}, software.NoRoom},
		"a liar is no disk without room":                {0, []http.HandlerFunc{http.NotFound}, software.NoSource},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			f := newFetcher(t)
			f.limit += c.more
			err := f.get(serve(t, large), serve(t, func(w http.ResponseWriter, r *http.Request) { c.then[asked.Add(1)-1](w, r) }))
			if got := software.ResultOf(err); got.Reason != c.want || int(asked.Load()) != len(c.then) {
				t.Errorf("after %d answers %+v", asked.Load(), got)
			}
			if c.want == "" {
				f.got()
			}
		})
	}
}

func TestWhenNoServerGivesTheFileAllAreNamedAndNothingIsLeft(t *testing.T) {
	f := newFetcher(t)
	lies := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("evil")) })
	none := serve(t, http.NotFound)
	result := software.ResultOf(f.get(lies+"/a", none+"/b"))
	if result.Reason != software.NoSource || result.Component != "kubelet" || !strings.Contains(result.Message, lies+"/a: it gave") || !strings.Contains(result.Message, none+"/b: it answers 404") {
		t.Errorf("%+v", result)
	}
	if entries, err := os.ReadDir(f.disk.Place(Dir)); err != nil || len(entries) != 0 {
		t.Errorf("%v are left: %v", entries, err)
	}
}

func TestAServerThatIsAwayForAMomentIsAskedAgain(t *testing.T) {
	var asked atomic.Int32
	f := newFetcher(t)
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < rounds {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		honest(w, r)
	})
	if err := f.get(address); err != nil {
		t.Fatal(err)
	}
	f.got()
}

func TestADownloadThatBrokeOffGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		etag   string
		ranges []string
	}{
		"where it was, of the same version":       {`"1"`, []string{"", "bytes=5000-", "bytes=10000-"}},
		"from the start when there is no version": {"", []string{"", "", ""}},
		"from the start when the version is weak": {`W/"1"`, []string{"", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			var ranges []string
			address := serve(t, func(w http.ResponseWriter, r *http.Request) {
				ranges = append(ranges, r.Header.Get("Range"))
				if c.etag != "" {
					w.Header().Set("ETag", c.etag)
				}
				if len(ranges) == 3 {
					http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
					return
				}
				from := 0
				_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
				w.Header().Set("Content-Length", strconv.Itoa(len(content)-from))
				if from > 0 {
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
					w.WriteHeader(http.StatusPartialContent)
				}
				_, _ = w.Write([]byte(content[from : from+5000]))
			})
			f := newFetcher(t)
			if err := f.get(address); err != nil {
				t.Fatal(err)
			}
			f.got()
			if !slices.Equal(ranges, c.ranges) || len(f.Avoided()) > 0 {
				t.Errorf("asked for %q, avoided %q", ranges, f.Avoided())
			}
		})
	}
	t.Run("from the start when the file changed meanwhile", func(t *testing.T) {
		asked := 0
		address := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if asked++; asked == 1 {
				w.Header().Set("ETag", `"old"`)
				w.Header().Set("Content-Length", strconv.Itoa(len(content)))
				_, _ = w.Write([]byte("of the old file"))
				return
			}
			w.Header().Set("ETag", `"new"`)
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
		})
		f := newFetcher(t)
		if err := f.get(address); err != nil {
			t.Fatal(err)
		}
		f.got()
	})
}

func TestFilesThatAreCompleteAreKeptAndOthersAreNot(t *testing.T) {
	var asked atomic.Int32
	address := serve(t, func(w http.ResponseWriter, r *http.Request) { asked.Add(1); honest(w, r) })
	f := newFetcher(t)
	for _, step := range []struct {
		has  string
		want int32
	}{{"", 1}, {content, 1}, {"spoilt", 2}} {
		if step.has != "" {
			if err := os.WriteFile(f.disk.Place(Path(digest(content))), []byte(step.has), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.get(address); err != nil {
			t.Fatal(err)
		}
		f.got()
		if asked.Load() != step.want {
			t.Errorf("with %.10q it was downloaded %d times, want %d", step.has, asked.Load(), step.want)
		}
	}
}

func TestFilesAreDownloadedSideBySideAndEachOnce(t *testing.T) {
	var now, most, asked atomic.Int32
	together := make(chan struct{})
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
			if n == parallel {
				close(together)
			}
		}
		defer now.Add(-1)
		<-together
		_, _ = w.Write([]byte(r.URL.Path))
	})
	var files []File
	for i := range 8 {
		path := fmt.Sprintf("/%d", i%6)
		files = append(files, File{Component: path, Archive: bootstrapv1.SoftwareArchive{URLs: []string{address + path}, SHA256: digest(path)}})
	}
	f := newFetcher(t)
	if err := f.All(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	if most.Load() != parallel || asked.Load() != 6 {
		t.Errorf("%d at once, %d in all", most.Load(), asked.Load())
	}
}

func TestAnInterruptedDownloadEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	f := newFetcher(t)
	address := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel(fmt.Errorf("a person stopped it"))
		<-r.Context().Done()
	})
	err := f.All(ctx, []File{{Component: "kubelet", Archive: bootstrapv1.SoftwareArchive{URLs: []string{address, serve(t, honest)}, SHA256: digest(content)}}})
	if err == nil || !strings.Contains(err.Error(), "a person stopped it") {
		t.Error(err)
	}
}

// authority is the certificate of a TLS server as PEM.
func authority(server *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func TestARedirectFromHTTPSToHTTPIsRefused(t *testing.T) {
	plainServer := serve(t, honest)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plainServer, http.StatusFound)
	}))
	t.Cleanup(secure.Close)
	f := newFetcher(t, software.Mirror{Prefix: "https://dl.k8s.io/", Exclusive: true, Endpoints: []software.Endpoint{{URL: secure.URL, CABundle: authority(secure)}}})
	if err := f.get("https://dl.k8s.io/kubelet"); err == nil || !strings.Contains(err.Error(), errInsecure.Error()) {
		t.Error(err)
	}
}

func TestACertificateOfAnotherAuthorityIsRefused(t *testing.T) {
	secure := httptest.NewTLSServer(http.HandlerFunc(honest))
	t.Cleanup(secure.Close)
	for name, c := range map[string]struct{ bundle, reason string }{
		"without caBundle":          {"", "certificate"},
		"with a caBundle of no PEM": {"nonsense", errCA.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFetcher(t, software.Mirror{Prefix: "https://dl.k8s.io/", Exclusive: true, Endpoints: []software.Endpoint{{URL: secure.URL, CABundle: c.bundle}}})
			if err := f.get("https://dl.k8s.io/kubelet"); err == nil || !strings.Contains(err.Error(), c.reason) {
				t.Error(err)
			}
		})
	}
}

func TestThePasswordIsToldToTheEndpointAlone(t *testing.T) {
	var other []string
	elsewhere := serve(t, func(w http.ResponseWriter, r *http.Request) {
		other = append(other, r.Header.Get("Authorization")+r.Header.Get("Referer"))
		honest(w, r)
	})
	endpoint := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "machine" || password != "s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, elsewhere+"/kubelet", http.StatusFound)
	})
	f := newFetcher(t, software.Mirror{Prefix: "https://dl.k8s.io", Exclusive: true, Endpoints: []software.Endpoint{{URL: endpoint + "/", Username: "machine", Password: "s3cret"}}})
	if err := f.get("https://dl.k8s.io/kubelet?token=s3cret"); err != nil {
		t.Fatal(err)
	}
	f.got()
	if !slices.Equal(other, []string{""}) {
		t.Errorf("another server was told %q", other)
	}
}

func TestNothingThatIsSaidHasSecrets(t *testing.T) {
	address, err := url.Parse(serve(t, http.NotFound))
	if err != nil {
		t.Fatal(err)
	}
	away, err := url.Parse("http://" + loopback.Free(t).String())
	if err != nil {
		t.Fatal(err)
	}
	f := newFetcher(t)
	var urls []string
	for _, u := range []*url.URL{address, away} {
		u.User, u.Path, u.RawQuery = url.UserPassword("machine", "s3cret"), "/kubelet", "token=s3cret"
		urls = append(urls, u.String())
	}
	failed := f.get(urls...)
	if err := f.get(append(urls, serve(t, honest))...); err != nil {
		t.Fatal(err)
	}
	all := failed.Error() + strings.Join(f.Avoided(), "") + strings.Join(f.said, "")
	if len(f.Avoided()) != 2 || strings.Contains(all, "s3cret") || strings.Contains(all, "machine") || !strings.Contains(all, address.Host+"/kubelet: it answers 404") {
		t.Error(all)
	}
}

func TestAProxyIsUsed(t *testing.T) {
	var asked atomic.Value
	proxy, err := url.Parse(serve(t, func(w http.ResponseWriter, r *http.Request) { asked.Store(r.URL.String()); honest(w, r) }))
	if err != nil {
		t.Fatal(err)
	}
	f := newFetcher(t)
	f.proxy = http.ProxyURL(proxy)
	if err := f.get("http://dl.k8s.io/kubelet"); err != nil {
		t.Fatal(err)
	}
	f.got()
	if asked.Load() != "http://dl.k8s.io/kubelet" {
		t.Errorf("the proxy was asked for %v", asked.Load())
	}
}
