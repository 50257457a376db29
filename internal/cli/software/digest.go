package software

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"strings"
	"time"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

const (
	// maxSums bounds a file with digests, maxFile a file of software.
	maxSums = 1 << 20
	maxFile = 2 << 30
	// stallTime is how long a server may send nothing.
	stallTime = time.Minute
)

var digest = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

// reader reads published files: from a mirror if there is one, else from their servers.
type reader struct {
	client  *http.Client
	mirrors []software.Mirror
	// exclusive makes it read from the mirrors only.
	exclusive bool
}

// newReader trusts the authorities of the system, and those of caBundle.
func newReader(mirrors []software.Mirror, caBundle string, exclusive bool) (*reader, error) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the transport of package net/http is another one")
	}
	transport := base.Clone()
	transport.ResponseHeaderTimeout = stallTime
	if caBundle != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the certificate authorities of the system: %w", err)
		}
		if !pool.AppendCertsFromPEM([]byte(caBundle)) {
			return nil, errors.New("--ca-file has no certificate; name a file in PEM format")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &reader{client: &http.Client{Transport: transport}, mirrors: mirrors, exclusive: exclusive}, nil
}

// check downloads a file and compares it with the SHA-256 that is published beside it.
func (r *reader) check(ctx context.Context, file published, architecture bootstrapv1.Architecture) (checked, int64, error) {
	sums, witness, err := r.sums(ctx, file.sums)
	if err != nil {
		return checked{}, 0, err
	}
	want, err := find(sums, path.Base(file.url))
	if err != nil {
		return checked{}, 0, fmt.Errorf("%s: %w", file.sums, err)
	}
	hash := sha256.New()
	size, err := r.read(ctx, file.url, maxFile, hash)
	if err != nil {
		return checked{}, 0, err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		return checked{}, 0, fmt.Errorf("%s has the SHA-256 %s, and %s says %s; do not use it, and tell whoever runs that server", file.url, got, file.sums, want)
	}
	return checked{published: file, architecture: architecture, sha256: want, witness: witness}, size, nil
}

// sums reads a file with digests, and says where it is from: the project's own server, or a mirror when only that has it.
func (r *reader) sums(ctx context.Context, address string) (text, witness string, err error) {
	var sums strings.Builder
	if !r.exclusive {
		project := &reader{client: r.client}
		if _, err = project.read(ctx, address, maxSums, &sums); err == nil {
			return sums.String(), "published", nil
		}
	}
	if len(r.mirrors) == 0 {
		return "", "", err
	}
	sums.Reset()
	_, err = r.read(ctx, address, maxSums, &sums)
	return sums.String(), "the mirror says", err
}

// read copies a file from the first of its sources that gives it.
func (r *reader) read(ctx context.Context, address string, limit int64, to io.Writer) (int64, error) {
	var failures []error
	for _, source := range software.Sources(r.mirrors, address) {
		body, err := r.open(ctx, source)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		size, err := io.Copy(to, io.LimitReader(body, limit+1))
		_ = body.Close()
		switch {
		case err != nil:
			return 0, fmt.Errorf("read %s: %w", source.URL, err)
		case size > limit:
			return 0, fmt.Errorf("%s is larger than %d bytes", source.URL, limit)
		}
		return size, nil
	}
	return 0, errors.Join(failures...)
}

func (r *reader) open(ctx context.Context, source software.Source) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, source.URL, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	if source.Endpoint != nil && source.Endpoint.Username != "" {
		request.SetBasicAuth(source.Endpoint.Username, source.Endpoint.Password)
	}
	answer, err := r.client.Do(request)
	if err != nil {
		cancel()
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close()
		cancel()
		return nil, fmt.Errorf("%s: %s", source.URL, answer.Status)
	}
	return &watched{body: answer.Body, cancel: cancel, timer: time.AfterFunc(stallTime, cancel)}, nil
}

// watched is a body that cancels its request when the server sends nothing for stallTime.
type watched struct {
	body   io.ReadCloser
	cancel context.CancelFunc
	timer  *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	w.timer.Reset(stallTime)
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	defer w.cancel()
	return w.body.Close()
}

// find finds the SHA-256 of a file in a published text: one digest alone, or lines with a digest and a name.
func find(sums, name string) (string, error) {
	for line := range strings.Lines(sums) {
		fields := strings.Fields(line)
		if len(fields) == 0 || !digest.MatchString(fields[0]) {
			continue
		}
		if len(fields) == 1 && strings.TrimSpace(sums) == fields[0] {
			return strings.ToLower(fields[0]), nil
		}
		if len(fields) == 2 && path.Base(strings.TrimPrefix(fields[1], "*")) == name {
			return strings.ToLower(fields[0]), nil
		}
	}
	return "", fmt.Errorf("there is no SHA-256 of %s", name)
}
