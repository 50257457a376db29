package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
)

// resumes is how often a download that broke off goes on from the same server.
const resumes = 3

// download is one file on its way from one source.
type download struct {
	disk *disk.Disk
	file *os.File
	hash hash.Hash
	// done is how many bytes were downloaded, etag the version of the file that they are of.
	done int64
	etag string
	// limit is how many bytes the file may have.
	limit int64
	// immutable is true when the URL contains a digest: then a download can be resumed without an etag.
	immutable bool
}

// errBroken means that the server broke off. A resume may work.
var errBroken = errors.New("it ended early")

// from downloads a file from a URL to a path, and checks its SHA-256.
func (d *download) from(ctx context.Context, c *http.Client, address, sha256sum string) error {
	d.hash = sha256.New()
	var err error
	for range 1 + resumes {
		if err = d.attempt(ctx, c, address); err == nil || !errors.Is(err, errBroken) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(d.hash.Sum(nil)); got != sha256sum {
		return finalError{fmt.Errorf("it gave a file of %s with the SHA-256 %s, which is not the one that is wanted", disk.Size(d.done), got)}
	}
	return nil
}

// finalError is a failure that a later try does not change.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// passing reports whether a later try may work.
func passing(err error) bool {
	if final := (finalError{}); errors.As(err, &final) || noRoom(err) || errors.Is(err, errInsecure) || errors.Is(err, errCA) {
		return false
	}
	if answer := (*transport.Error)(nil); errors.As(err, &answer) {
		return later(answer.StatusCode)
	}
	return true
}

// later reports whether the status of an answer may change in a later try.
func later(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// attempt requests the missing bytes.
func (d *download) attempt(ctx context.Context, c *http.Client, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return plain(err)
	}
	if d.done > 0 && (d.etag != "" || d.immutable) {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.done))
		if d.etag != "" {
			r.Header.Set("If-Range", d.etag)
		}
	}
	response, err := c.Do(r)
	if err != nil {
		return plain(err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := d.begin(r, response); err != nil {
		return err
	}
	if response.ContentLength > d.limit-d.done {
		return d.large()
	}
	if response.ContentLength > 0 {
		if err := d.disk.Room(Dir, response.ContentLength); err != nil {
			return err
		}
	}
	n, err := io.Copy(io.MultiWriter(d.disk.Roomy(Dir, d.file), d.hash), io.LimitReader(response.Body, d.limit-d.done+1))
	if d.done += n; d.done > d.limit {
		return d.large()
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || isReset(err) {
		return fmt.Errorf("%w, after %s", errBroken, disk.Size(d.done))
	}
	return err
}

// large says that the server gives more than the limit, or announced more.
func (d *download) large() error {
	return finalError{fmt.Errorf("it gives more than %s, which no program has", disk.Size(d.limit))}
}

// begin reads what the server sends: the rest of the file, which follows what the last attempt wrote, or the whole file, which
// replaces it.
func (d *download) begin(r *http.Request, response *http.Response) error {
	wanted := fmt.Sprintf("bytes %d-", d.done)
	switch {
	case response.StatusCode == http.StatusPartialContent && r.Header.Get("Range") != "" && strings.HasPrefix(response.Header.Get("Content-Range"), wanted):
		return nil
	case response.StatusCode == http.StatusOK:
	case response.StatusCode == http.StatusPartialContent || response.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return errors.New("it does not go on where it ended early")
	case later(response.StatusCode):
		return fmt.Errorf("it answers %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	default:
		return finalError{fmt.Errorf("it answers %d %s", response.StatusCode, http.StatusText(response.StatusCode))}
	}
	d.done, d.etag = 0, ""
	d.hash.Reset()
	if tag := response.Header.Get("ETag"); strings.HasPrefix(tag, `"`) {
		d.etag = tag
	}
	if _, err := d.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return d.file.Truncate(0)
}

// noRoom reports whether an error is about the disk of this machine.
func noRoom(err error) bool {
	problem := (*software.Problem)(nil)
	return errors.As(err, &problem) && problem.Reason == software.NoRoom
}
