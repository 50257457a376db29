package fetch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/unpack"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// Dir is where downloads are, by their SHA-256.
const Dir = software.Dir + "downloads/"

// Path is where a download is.
func Path(sha256sum string) string { return Dir + sha256sum }

const partSuffix = ".part"

// File is a file that is wanted.
type File struct {
	// Component is the one that needs it.
	Component string
	Archive   bootstrapv1.SoftwareArchive
}

// Fetcher downloads files.
type Fetcher struct {
	disk    *disk.Disk
	mirrors []software.Mirror
	stall   time.Duration
	pause   time.Duration
	// limit is how many bytes a file may have, so that a server without end does not fill the disk.
	limit int64
	proxy func(*http.Request) (*url.URL, error)
	say   func(format string, args ...any)

	mutex   sync.Mutex
	avoided []string
}

// Options are what a Fetcher needs.
type Options struct {
	Disk    *disk.Disk
	Mirrors []software.Mirror
	// Stall is how long a server may send no byte; 30 seconds if unset.
	Stall time.Duration
	// Pause is the time before servers that may be away for a moment are tried again; 5 seconds if unset.
	Pause time.Duration
	// Say is told what is going on, without secrets, one line at a time although files are downloaded side by side.
	Say func(format string, args ...any)
}

// DefaultStall is how long a server may send no byte.
const DefaultStall = 30 * time.Second

const (
	defaultPause = 5 * time.Second
	// rounds is how often servers are tried that may be away for a moment.
	rounds = 3
)

// parallel is how many files are downloaded at the same time.
const parallel = 4

// New returns a Fetcher.
func New(o Options) *Fetcher {
	f := &Fetcher{disk: o.Disk, mirrors: o.Mirrors, stall: o.Stall, pause: o.Pause, limit: unpack.DefaultLimits.Bytes, proxy: http.ProxyFromEnvironment, say: o.Say}
	if f.stall == 0 {
		f.stall = DefaultStall
	}
	if f.pause == 0 {
		f.pause = defaultPause
	}
	return f
}

// Avoided are the sources that failed before another one gave the file.
func (f *Fetcher) Avoided() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Sorted(slices.Values(f.avoided))
}

// All downloads files, several at a time. It keeps complete files from an earlier run.
func (f *Fetcher) All(ctx context.Context, files []File) error {
	bySum := map[string][]File{}
	var sums []string
	for _, file := range files {
		if _, ok := bySum[file.Archive.SHA256]; !ok {
			sums = append(sums, file.Archive.SHA256)
		}
		bySum[file.Archive.SHA256] = append(bySum[file.Archive.SHA256], file)
	}
	if len(sums) == 0 {
		return nil
	}
	if err := f.disk.MakeFolder(strings.TrimSuffix(Dir, "/")); err != nil {
		return fmt.Errorf("make %s: %w", Dir, f.disk.Full(Dir, err))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, sum := range sums {
		group.Go(func() error {
			return software.OfComponent(bySum[sum][0].Component, f.file(ctx, sum, bySum[sum]))
		})
	}
	return group.Wait()
}

// file downloads one file. Several components may name it, with addresses of their own.
func (f *Fetcher) file(ctx context.Context, sum string, files []File) error {
	there, err := f.complete(sum)
	if err != nil || there {
		return err
	}
	var sources []source
	for _, file := range files {
		found, err := sourcesOf(file.Archive, f.mirrors)
		if err != nil {
			return err
		}
		sources = append(sources, found...)
	}
	failures := map[string]string{}
	var full error
	for round := range rounds {
		if round > 0 && !f.rest(ctx) {
			break
		}
		again, done, err := f.round(ctx, sum, files[0].Component, sources, failures)
		if done || err != nil && !noRoom(err) {
			return err
		}
		full = cmp.Or(full, err)
		if sources = again; len(sources) == 0 {
			break
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("download %s: %w", sum, context.Cause(ctx))
	}
	if full != nil {
		return full
	}
	return software.Problemf(software.NoSource, "", "no server gave the file with the SHA-256 %s: %s. Mend a server, or name another mirror",
		sum, strings.Join(slices.Sorted(maps.Values(failures)), "; "))
}

// round tries one source after the other until one gives the file, and returns the sources that may work later. Its error says that the
// context has ended, or that the disk has no room for what a source gives. Only after the latter may the caller try sources again.
func (f *Fetcher) round(ctx context.Context, sum, component string, sources []source, failures map[string]string) (again []source, done bool, err error) {
	var full error
	for _, s := range sources {
		started := time.Now()
		size, err := f.within(ctx, s, sum)
		if err == nil {
			f.tell("downloaded %.12s for %s from %s: %s in %.1f s", sum, component, s.shown(), disk.Size(size), time.Since(started).Seconds())
			f.avoid(slices.Collect(maps.Values(failures)))
			return nil, true, nil
		}
		if ctx.Err() != nil {
			return nil, false, fmt.Errorf("download from %s: %w", s.shown(), context.Cause(ctx))
		}
		if noRoom(err) {
			full = err
		}
		failures[s.shown()] = errortext.Short(s.shown()+": "+software.WithoutSecrets(plain(err).Error()), maxFailure)
		f.tell("avoided %s", failures[s.shown()])
		if passing(err) {
			again = append(again, s)
		}
	}
	return again, false, full
}

// sourceTime is how long one source may take, so that a slow one leaves time for the next.
const sourceTime = 10 * time.Minute

var errSlow = fmt.Errorf("it did not give the file within %s", sourceTime)

func (f *Fetcher) within(ctx context.Context, s source, sum string) (int64, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, sourceTime, errSlow)
	defer cancel()
	size, err := f.from(bounded, s, sum)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return 0, finalError{errSlow}
	}
	return size, err
}

// maxFailure bounds the message about one source, because part of it comes from the server.
const maxFailure = 512

// tell says a line.
func (f *Fetcher) tell(format string, args ...any) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.say(format, args...)
}

// rest waits before servers are tried again, and reports whether there is time left.
func (f *Fetcher) rest(ctx context.Context) bool {
	timer := time.NewTimer(f.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (f *Fetcher) avoid(failures []string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.avoided = append(f.avoided, failures...)
}

// complete reports whether the file exists with the right SHA-256.
func (f *Fetcher) complete(sum string) (bool, error) {
	file, err := os.Open(f.disk.Place(Path(sum)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return false, err
	}
	return hex.EncodeToString(hash.Sum(nil)) == sum, nil
}

// from downloads the file from one source, and returns its size.
func (f *Fetcher) from(ctx context.Context, s source, sum string) (int64, error) {
	guard, err := f.transport(s)
	if err != nil {
		return 0, err
	}
	defer guard.close()
	part := Path(sum) + partSuffix
	if err := f.disk.Remove(part); err != nil {
		return 0, err
	}
	file, err := f.disk.Create(part)
	if err != nil {
		return 0, f.disk.Full(part, err)
	}
	d := &download{disk: f.disk, file: file, limit: f.limit, immutable: s.image}
	address, transport := s.url.String(), http.RoundTripper(guard)
	if s.image {
		address, transport, err = blob(ctx, s, guard, sum)
		ctx = context.WithValue(ctx, layerKey{}, true)
	}
	if err == nil {
		err = d.from(ctx, client(transport), address, sum)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, errors.Join(err, f.disk.Remove(part))
	}
	return d.done, f.disk.Rename(part, Path(sum))
}

// isReset reports whether a connection broke off.
func isReset(err error) bool {
	return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}
