package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
)

// S3Config is a bucket of an S3 server, as spec.etcd.backup.store.s3 has it.
type S3Config struct {
	// Endpoint is the address of the server: https://host:port.
	Endpoint string
	Bucket   string
	// Prefix begins the names of all objects; the rest of a name follows after a slash.
	Prefix string
	// Region is what requests are signed for: us-east-1 unless the server has others.
	Region string
	// Credentials is a folder with the files of a Secret: accessKeyID, secretAccessKey and, where there is one, sessionToken.
	// They are read again while the store is used.
	Credentials string
	// CA is a file of certificates in PEM that the server's is signed by; empty for those that the machine trusts.
	CA string
}

// S3 is a store in a bucket.
type S3 struct {
	config S3Config
	client *s3.Client
	prefix string
}

// Fields of an S3 store.
const (
	fieldEndpoint    = backup.FieldEndpoint
	fieldBucket      = backup.FieldBucket
	fieldPrefix      = backup.FieldPrefix
	fieldRegion      = "s3.region"
	fieldCredentials = "s3.credentialsRef"
	fieldCA          = "s3.caRef"
)

const (
	defaultRegion = "us-east-1"
	// partBytes is the size of the parts of an upload, one of which is in memory. S3 allows 10,000 of them.
	partBytes = 8 << 20
	maxParts  = 10_000
	// maxAnswer bounds answers of the server that are no object.
	maxAnswer = 8 << 20
	// maxFile bounds files with credentials.
	maxFile = 64 << 10
	pages   = maxObjects / 1000
)

// OpenS3 checks a configuration and asks no server.
func OpenS3(c S3Config, options ...func(*s3.Options)) (*S3, error) {
	if all := backup.CheckS3(backup.S3{Endpoint: c.Endpoint, Bucket: c.Bucket, Prefix: c.Prefix}); len(all) > 0 {
		return nil, &Problem{Field: all[0].Field, Message: all[0].Message}
	}
	s := &S3{config: c}
	if c.Prefix != "" {
		s.prefix = strings.TrimSuffix(c.Prefix, "/") + "/"
	}
	client, err := c.httpClient()
	if err != nil {
		return nil, err
	}
	if _, err := c.credentials(); err != nil {
		return nil, err
	}
	s.client = s3.New(s3.Options{
		BaseEndpoint: aws.String(strings.TrimSuffix(c.Endpoint, "/")), Region: cmp.Or(c.Region, defaultRegion), UsePathStyle: true, HTTPClient: client,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return c.credentials() }),
		// Other servers than Amazon's know no more than that.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired, ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
		// Slots are times: a clock that is wrong is told, not worked around.
		DisableClockSkewCorrection: true, DisableLogOutputChecksumValidationSkipped: true,
		RetryMode: aws.RetryModeStandard, RetryMaxAttempts: 3,
	}, options...)
	return s, nil
}

// credentials reads the files of the Secret.
func (c S3Config) credentials() (aws.Credentials, error) {
	read := func(name string) (string, error) {
		file, err := os.Open(filepath.Join(c.Credentials, name))
		if err != nil {
			return "", err
		}
		defer file.Close() //nolint:errcheck // It was only read.
		text, err := io.ReadAll(io.LimitReader(file, maxFile))
		return strings.TrimSpace(string(text)), err
	}
	id, errID := read("accessKeyID")
	secret, errSecret := read("secretAccessKey")
	if err := errors.Join(errID, errSecret); err != nil || id == "" || secret == "" {
		return aws.Credentials{}, &Problem{Field: fieldCredentials, Message: "the Secret needs the keys accessKeyID and secretAccessKey", Err: err}
	}
	token, err := read("sessionToken")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return aws.Credentials{}, &Problem{Field: fieldCredentials, Message: "the key sessionToken of the Secret cannot be read", Err: err}
	}
	return aws.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: token, CanExpire: true, Expires: time.Now().Add(time.Minute)}, nil
}

func (c S3Config) httpClient() (*http.Client, error) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second, Control: notLinkLocal}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if c.CA != "" {
		file, err := os.ReadFile(c.CA)
		pool := x509.NewCertPool()
		if err != nil || !pool.AppendCertsFromPEM(file) {
			return nil, &Problem{Field: fieldCA, Message: "it has no certificate in PEM", Err: err}
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	return &http.Client{
		Transport: bounded{transport},
		// Where a redirection leads to is for a person to write down.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// notLinkLocal keeps connections from link-local addresses: clouds give machines their credentials there, and a spec says where to
// connect to.
func notLinkLocal(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if ip := to.Addr().Unmap(); ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
		return fmt.Errorf("%s is no address of an S3 server", ip)
	}
	return nil
}

// bounded bounds answers that are no object.
type bounded struct{ next http.RoundTripper }

// ofObject is in the context of requests for objects.
type ofObject struct{}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil && (r.Context().Value(ofObject{}) == nil || answer.StatusCode != http.StatusOK) {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	}
	return answer, err
}

// Put implements Store. One part is in memory at a time.
func (s *S3) Put(ctx context.Context, name string, content io.Reader) error {
	if err := checkName(name); err != nil {
		return err
	}
	// A server that does not know the condition may take no notice of it.
	if there, err := s.exists(ctx, name); err != nil {
		return err
	} else if there {
		return fmt.Errorf("write %s: %w", s.url(name), ErrExists)
	}
	part := make([]byte, partBytes)
	n, err := io.ReadFull(whilst{ctx, content}, part)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return s.putWhole(ctx, name, part[:n])
	case err != nil:
		return fmt.Errorf("read what goes to %s: %w", s.url(name), err)
	}
	return s.putParts(ctx, name, part, content)
}

// anyObject is the condition that there is no object.
const anyObject = "*"

func (s *S3) putWhole(ctx context.Context, name string, content []byte) error {
	put := func(condition *string) error {
		_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &s.config.Bucket, Key: aws.String(s.prefix + name), Body: bytes.NewReader(content), ContentLength: aws.Int64(int64(len(content))), IfNoneMatch: condition,
		})
		return err
	}
	err := put(aws.String(anyObject))
	if notImplemented(err) {
		err = put(nil)
	}
	return s.written(ctx, name, err)
}

// written says what became of an object.
func (s *S3) written(ctx context.Context, name string, err error) error {
	switch code(err) {
	case "":
		if err == nil {
			return nil
		}
	case "PreconditionFailed":
		return fmt.Errorf("write %s: %w", s.url(name), ErrExists)
	case "ConditionalRequestConflict":
		if there, _ := s.exists(ctx, name); there {
			return fmt.Errorf("write %s: %w", s.url(name), ErrExists)
		}
	}
	return s.problem("write "+s.url(name), err)
}

// putParts uploads a first part and all that follows. Nothing is there before the end.
func (s *S3) putParts(ctx context.Context, name string, part []byte, rest io.Reader) (err error) {
	s.clear(ctx)
	key := aws.String(s.prefix + name)
	upload, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &s.config.Bucket, Key: key})
	if err != nil {
		return s.problem("write "+s.url(name), err)
	}
	defer func() {
		if err != nil {
			s.abort(ctx, key, upload.UploadId)
		}
	}()
	var parts []types.CompletedPart
	n := len(part)
	for last := false; !last; {
		if len(parts) == maxParts {
			return fmt.Errorf("write %s: it has more than %d bytes, which is the most", s.url(name), int64(maxParts)*partBytes)
		}
		number := aws.Int32(int32(len(parts) + 1)) //nolint:gosec // At most maxParts.
		done, err := s.client.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: &s.config.Bucket, Key: key, UploadId: upload.UploadId, PartNumber: number, Body: bytes.NewReader(part[:n]), ContentLength: aws.Int64(int64(n)),
		})
		if err != nil {
			return s.problem("write "+s.url(name), err)
		}
		parts = append(parts, types.CompletedPart{ETag: done.ETag, PartNumber: number})
		n, err = io.ReadFull(whilst{ctx, rest}, part)
		switch {
		case errors.Is(err, io.EOF):
			last = true
		case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("read what goes to %s: %w", s.url(name), err)
		}
	}
	complete := func(condition *string) error {
		_, err := s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
			Bucket: &s.config.Bucket, Key: key, UploadId: upload.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}, IfNoneMatch: condition,
		})
		return err
	}
	if err = complete(aws.String(anyObject)); notImplemented(err) {
		err = complete(nil)
	}
	return s.written(ctx, name, err)
}

// abort gives up an upload, also when its context has ended.
func (s *S3) abort(ctx context.Context, key, upload *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_, _ = s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &s.config.Bucket, Key: key, UploadId: upload})
}

// clear gives up uploads that were cut off. A server that does not allow it keeps them.
func (s *S3) clear(ctx context.Context) {
	uploads, err := s.client.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: &s.config.Bucket, Prefix: &s.prefix})
	if err != nil {
		return
	}
	for _, upload := range uploads.Uploads {
		name, ours := strings.CutPrefix(aws.ToString(upload.Key), s.prefix)
		if ours && checkName(name) == nil && upload.Initiated != nil && time.Since(*upload.Initiated) > stale {
			s.abort(ctx, upload.Key, upload.UploadId)
		}
	}
}

// exists asks by a listing, for the answer to a HEAD says nothing of what is wrong.
func (s *S3) exists(ctx context.Context, name string) (bool, error) {
	key := s.prefix + name
	page, err := s.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &s.config.Bucket, Prefix: &key, MaxKeys: aws.Int32(1)})
	if err != nil {
		return false, s.problem("look for "+s.url(name), err)
	}
	return len(page.Contents) > 0 && aws.ToString(page.Contents[0].Key) == key, nil
}

// Get implements Store.
func (s *S3) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	answer, err := s.client.GetObject(context.WithValue(ctx, ofObject{}, true), &s3.GetObjectInput{Bucket: &s.config.Bucket, Key: aws.String(s.prefix + name)})
	if code(err) == "NoSuchKey" {
		return nil, fmt.Errorf("read %s: %w", s.url(name), ErrNotFound)
	}
	if err != nil {
		return nil, s.problem("read "+s.url(name), err)
	}
	return answer.Body, nil
}

// List implements Store.
func (s *S3) List(ctx context.Context) ([]Object, error) {
	var objects []Object
	var next *string
	for range pages {
		page, err := s.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &s.config.Bucket, Prefix: &s.prefix, Delimiter: aws.String("/"), ContinuationToken: next})
		if err != nil {
			return nil, s.problem("list "+s.url(""), err)
		}
		for _, o := range page.Contents {
			if name, ours := strings.CutPrefix(aws.ToString(o.Key), s.prefix); ours && checkName(name) == nil {
				objects = append(objects, Object{Name: name, Bytes: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)})
			}
		}
		if !aws.ToBool(page.IsTruncated) || aws.ToString(page.NextContinuationToken) == "" {
			slices.SortFunc(objects, func(a, b Object) int { return cmp.Compare(a.Name, b.Name) })
			return objects, nil
		}
		next = page.NextContinuationToken
	}
	return nil, &Problem{Field: fieldPrefix, Message: fmt.Sprintf("%s has more than %d objects: give snapshots a prefix of their own", s.url(""), maxObjects)}
}

// Delete implements Store.
func (s *S3) Delete(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.config.Bucket, Key: aws.String(s.prefix + name)})
	if err != nil && code(err) != "NoSuchKey" {
		return s.problem("delete "+s.url(name), err)
	}
	return nil
}

// Check implements Store.
func (s *S3) Check(ctx context.Context) error {
	if err := s.Put(ctx, probe, strings.NewReader(probe)); err != nil && !errors.Is(err, ErrExists) {
		return err
	}
	if _, err := s.List(ctx); err != nil {
		return err
	}
	return s.Delete(ctx, probe)
}

// url names an object for people.
func (s *S3) url(name string) string {
	return strings.TrimSuffix(s.config.Endpoint, "/") + "/" + s.config.Bucket + "/" + s.prefix + name
}

// String names the store for people.
func (s *S3) String() string { return s.url("") }
