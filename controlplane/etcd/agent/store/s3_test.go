package store

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// secret is the folder of a Secret with credentials.
func secret(t testing.TB, values map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, value := range values {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(value), 0o600))
	}
	return folder
}

func TestAConfigurationOfS3IsChecked(t *testing.T) {
	good := secret(t, map[string]string{"accessKeyID": "a", "secretAccessKey": "b\n"})
	empty := filepath.Join(t.TempDir(), "ca")
	must(t, os.WriteFile(empty, []byte("none"), 0o600))
	for name, test := range map[string]struct {
		change func(*S3Config)
		field  string
	}{
		"nothing":                  {func(*S3Config) {}, ""},
		"a prefix":                 {func(c *S3Config) { c.Prefix = "team/one/" }, ""},
		"no address":               {func(c *S3Config) { c.Endpoint = "" }, "s3.endpoint"},
		"an address without https": {func(c *S3Config) { c.Endpoint = "s3.example.com" }, "s3.endpoint"},
		"an address with a bucket": {func(c *S3Config) { c.Endpoint = "https://s3.example.com/bucket" }, "s3.endpoint"},
		"an address with secrets":  {func(c *S3Config) { c.Endpoint = "https://a:b@s3.example.com" }, "s3.endpoint"},
		"no bucket":                {func(c *S3Config) { c.Bucket = "" }, "s3.bucket"},
		"a bucket with a path":     {func(c *S3Config) { c.Bucket = "a/b" }, "s3.bucket"},
		"a prefix that leads up":   {func(c *S3Config) { c.Prefix = "../a" }, "s3.prefix"},
		"an absolute prefix":       {func(c *S3Config) { c.Prefix = "/a" }, "s3.prefix"},
		"no credentials":           {func(c *S3Config) { c.Credentials = t.TempDir() }, "s3.credentialsRef"},
		"half of the credentials":  {func(c *S3Config) { c.Credentials = secret(t, map[string]string{"accessKeyID": "a"}) }, "s3.credentialsRef"},
		"empty credentials": {func(c *S3Config) {
			c.Credentials = secret(t, map[string]string{"accessKeyID": "", "secretAccessKey": ""})
		}, "s3.credentialsRef"},
		"no CA":                    {func(c *S3Config) { c.CA = "/none" }, "s3.caRef"},
		"a CA without certificate": {func(c *S3Config) { c.CA = empty }, "s3.caRef"},
	} {
		c := S3Config{Endpoint: "https://s3.example.com:9000", Bucket: "snapshots", Credentials: good}
		test.change(&c)
		if _, err := OpenS3(c); FieldOf(err) != test.field || test.field == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// answering is a store whose server answers in one way.
func answering(t *testing.T, answer http.HandlerFunc) *S3 {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	s, err := OpenS3(S3Config{Endpoint: server.URL, Bucket: "snapshots", Credentials: secret(t, map[string]string{"accessKeyID": "a", "secretAccessKey": "b"})})
	must(t, err)
	return s
}

// What servers answer that no test can start: the field and the way out are told.
func TestAnswersOfOtherServersNameTheField(t *testing.T) {
	said := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code><Message>oh</Message></Error>")
		}
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		field  string
		says   string
	}{
		"another region":    {said(http.StatusBadRequest, "AuthorizationHeaderMalformed"), "s3.region", "us-east-1"},
		"moved":             {said(http.StatusMovedPermanently, "PermanentRedirect"), "s3.region", ""},
		"an old token":      {said(http.StatusBadRequest, "ExpiredToken"), "s3.credentialsRef", "no longer"},
		"denied":            {said(http.StatusForbidden, "AccessDenied"), "s3.credentialsRef", "put, get, list and delete"},
		"denied by a proxy": {said(http.StatusForbidden, ""), "s3.credentialsRef", ""},
		"a wrong clock":     {said(http.StatusForbidden, "RequestTimeTooSkewed"), "s3.endpoint", "and the server says 20"},
		"full":              {said(http.StatusForbidden, "QuotaExceeded"), "s3.bucket", "it is full"},
		"full disks":        {said(http.StatusInsufficientStorage, "XMinioStorageFull"), "s3.bucket", "it is full"},
		"a page of HTML":    {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusNotFound) }, "s3.endpoint", "no S3 server"},
		"another place": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}, "s3.endpoint", "redirects to another one"},
		"an endless listing": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<ListBucketResult>")
			_, _ = io.Copy(w, endless{})
		}, "s3.endpoint", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := answering(t, test.answer)
			err := s.Check(t.Context())
			if FieldOf(err) != test.field || !strings.Contains(err.Error(), test.says) || len(err.Error()) > 2000 {
				t.Errorf("it says %v", err)
			}
			if _, err := s.List(t.Context()); FieldOf(err) != test.field {
				t.Errorf("a listing says %v", err)
			}
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// A server that lists for ever is not followed for ever.
func TestAListingIsBounded(t *testing.T) {
	asked := 0
	s := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = io.WriteString(w, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken></ListBucketResult>")
	})
	if _, err := s.List(t.Context()); FieldOf(err) != "s3.prefix" || asked != pages {
		t.Errorf("it asked %d times: %v", asked, err)
	}
}

// Servers that know no conditions still replace nothing, as far as a look before tells.
func TestAServerWithoutConditionsIsUsed(t *testing.T) {
	objects := map[string]string{}
	s := answering(t, func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.URL.Path, "/snapshots/")
		switch {
		case r.Method == http.MethodGet && r.URL.Query().Get("list-type") != "":
			_, _ = io.WriteString(w, "<ListBucketResult>")
			if _, there := objects[r.URL.Query().Get("prefix")]; there {
				_, _ = io.WriteString(w, "<Contents><Key>"+r.URL.Query().Get("prefix")+"</Key></Contents>")
			}
			_, _ = io.WriteString(w, "</ListBucketResult>")
		case r.Header.Get("If-None-Match") != "":
			w.WriteHeader(http.StatusNotImplemented)
			_, _ = io.WriteString(w, "<Error><Code>NotImplemented</Code></Error>")
		case r.Method == http.MethodPut:
			data, _ := io.ReadAll(r.Body)
			objects[key] = string(data)
		}
	})
	must(t, s.Put(t.Context(), "a", strings.NewReader("first")))
	if err := s.Put(t.Context(), "a", strings.NewReader("second")); err == nil || objects["a"] != "first" {
		t.Errorf("it is %q: %v", objects["a"], err)
	}
}

func TestAServerThatIsNotThereNamesTheEndpoint(t *testing.T) {
	credentials := secret(t, map[string]string{"accessKeyID": "a", "secretAccessKey": "b"})
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	secure.StartTLS()
	defer secure.Close()
	hanging := loopback.Listen(t)
	for name, test := range map[string]struct{ endpoint, says string }{
		"nobody listens":   {"http://" + loopback.Free(t).String(), "cannot be reached"},
		"no such name":     {"https://s3.invalid", "cannot be reached"},
		"TLS to none":      {"https://" + plain.Listener.Addr().String(), "does not speak TLS"},
		"none to TLS":      {"http://" + secure.Listener.Addr().String(), "speaks TLS"},
		"it never answers": {"http://" + hanging.Addr().String(), "the request timed out"},
	} {
		s, err := OpenS3(S3Config{Endpoint: test.endpoint, Bucket: "snapshots", Credentials: credentials})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if name == "it never answers" {
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		}
		if err := s.Check(ctx); FieldOf(err) != "s3.endpoint" || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

func TestNoStoreIsAtALinkLocalAddress(t *testing.T) {
	for address, good := range map[string]bool{
		"10.1.2.3:443": true, "127.0.0.1:443": true, "[2001:db8::1]:443": true,
		"169.254.169.254:80": false, "[fe80::1]:443": false, "[::ffff:169.254.169.254]:443": false, "0.0.0.0:443": false, "224.0.0.1:443": false,
	} {
		if err := notLinkLocal("tcp", address, nil); (err == nil) != good {
			t.Errorf("%s: %v", address, err)
		}
	}
	s, err := OpenS3(S3Config{Endpoint: "http://169.254.169.254", Bucket: "tenants", Credentials: secret(t, map[string]string{"accessKeyID": "a", "secretAccessKey": "b"})})
	must(t, err)
	if err := s.Check(t.Context()); FieldOf(err) != fieldEndpoint || !strings.Contains(err.Error(), "no address of an S3 server") {
		t.Errorf("it is %v", err)
	}
}
