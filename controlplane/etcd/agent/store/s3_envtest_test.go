//go:build envtest

package store

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/s3server"
)

func good(t testing.TB) string {
	t.Helper()
	return secret(t, map[string]string{"accessKeyID": s3server.AccessKey, "secretAccessKey": s3server.SecretKey + "\n"})
}

func config(t testing.TB, server s3server.Server) S3Config {
	t.Helper()
	return S3Config{Endpoint: server.Endpoint, Bucket: s3server.Bucket, Prefix: "team/one", Credentials: good(t)}
}

func open(t testing.TB, c S3Config, options ...func(*s3.Options)) *S3 {
	t.Helper()
	s, err := OpenS3(c, options...)
	must(t, err)
	return s
}

func TestABucketIsAStore(t *testing.T) {
	suite(t, func(t *testing.T) Store { return open(t, config(t, s3server.Start(t, "", ""))) })
}

func TestABucketOverTLSWithItsCA(t *testing.T) {
	certificate, key := s3server.Certificate(t, "localhost", time.Now().Add(time.Hour))
	server := s3server.Start(t, certificate, key)
	c := config(t, server)
	if err := named(t, server, "localhost", c).Check(t.Context()); FieldOf(err) != "s3.caRef" || !strings.Contains(err.Error(), "of no CA that is trusted") {
		t.Errorf("without a CA: %v", err)
	}
	c.CA = certificate
	if err := open(t, c).Check(t.Context()); FieldOf(err) != "s3.endpoint" || !strings.Contains(err.Error(), "not for this name") {
		t.Errorf("for another name: %v", err)
	}
	dial := named(t, server, "localhost", c)
	must(t, dial.Put(t.Context(), "large", bytes.NewReader(random(partBytes+1, 1))))
	if got := read(t, dial, "large"); !bytes.Equal(got, random(partBytes+1, 1)) {
		t.Errorf("%d bytes came back", len(got))
	}
	old, key := s3server.Certificate(t, "localhost", time.Now().Add(-time.Hour))
	c.CA = old
	if err := named(t, s3server.Start(t, old, key), "localhost", c).Check(t.Context()); FieldOf(err) != "s3.endpoint" || !strings.Contains(err.Error(), "renew it") {
		t.Errorf("with an old certificate: %v", err)
	}
}

// named reaches a server by a name.
func named(t testing.TB, server s3server.Server, name string, c S3Config) *S3 {
	t.Helper()
	address := server.Endpoint[len("https://"):]
	c.Endpoint = "https://" + name + address[strings.LastIndex(address, ":"):]
	return open(t, c, func(o *s3.Options) {
		client := o.HTTPClient.(*http.Client)
		transport := client.Transport.(bounded).next.(*http.Transport)
		dial := transport.DialContext
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network, address) }
	})
}

func TestWhatIsWrongWithABucketNamesTheField(t *testing.T) {
	server := s3server.Start(t, "", "")
	reading := s3server.Start(t, "", "", "--readonly")
	for name, test := range map[string]struct {
		change  func(*S3Config)
		options func(*s3.Options)
		field   string
		says    string
	}{
		"nothing":        {field: ""},
		"no such bucket": {change: func(c *S3Config) { c.Bucket = "none" }, field: "s3.bucket", says: "there is no bucket none"},
		"no such key": {change: func(c *S3Config) {
			c.Credentials = secret(t, map[string]string{"accessKeyID": "another", "secretAccessKey": "x"})
		}, field: "s3.credentialsRef", says: "accessKeyID"},
		"a wrong key": {change: func(c *S3Config) {
			c.Credentials = secret(t, map[string]string{"accessKeyID": s3server.AccessKey, "secretAccessKey": "x"})
		}, field: "s3.credentialsRef", says: "secretAccessKey"},
		"it cannot be written": {change: func(c *S3Config) { c.Endpoint = reading.Endpoint }, field: "s3.credentialsRef", says: "may not do this"},
		"a wrong clock": {options: func(o *s3.Options) {
			o.HTTPSignerV4 = late{v4.NewSigner()}
		}, field: "s3.endpoint", says: "set both by NTP"},
		"another region": {change: func(c *S3Config) { c.Region = "eu-west-1" }, field: "s3.region", says: "eu-west-1"},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t, server)
			if test.change != nil {
				test.change(&c)
			}
			var options []func(*s3.Options)
			if test.options != nil {
				options = append(options, test.options)
			}
			err := open(t, c, options...).Check(t.Context())
			if FieldOf(err) != test.field || test.field == "" && err != nil || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("it says %v", err)
			}
			if err != nil {
				t.Log(err)
			}
			if err != nil && strings.Contains(err.Error(), s3server.SecretKey) {
				t.Error("it tells the secret")
			}
		})
	}
}

// late signs for a time that was an hour ago.
type late struct{ *v4.Signer }

func (l late) SignHTTP(ctx context.Context, c aws.Credentials, r *http.Request, hash, service, region string, at time.Time, options ...func(*v4.SignerOptions)) error {
	return l.Signer.SignHTTP(ctx, c, r, hash, service, region, at.Add(-time.Hour), options...)
}

func TestAKeyMayBeChangedWhileTheStoreIsUsed(t *testing.T) {
	c := config(t, s3server.Start(t, "", ""))
	must(t, os.WriteFile(filepath.Join(c.Credentials, "secretAccessKey"), []byte("old"), 0o600))
	if err := open(t, c).Check(t.Context()); FieldOf(err) != "s3.credentialsRef" {
		t.Errorf("it says %v", err)
	}
	must(t, os.WriteFile(filepath.Join(c.Credentials, "secretAccessKey"), []byte(s3server.SecretKey), 0o600))
	must(t, open(t, c).Check(t.Context()))
}

// Stores of one bucket see nothing of each other, and nothing of what lies deeper.
func TestAPrefixIsAStoreOfItsOwn(t *testing.T) {
	c := config(t, s3server.Start(t, "", ""))
	one := open(t, c)
	c.Prefix = "team/one/deeper"
	deeper := open(t, c)
	c.Prefix = "team/on"
	beside := open(t, c)
	for _, s := range []*S3{one, deeper, beside} {
		must(t, s.Put(t.Context(), "a", strings.NewReader(s.String())))
	}
	for _, s := range []*S3{one, deeper, beside} {
		if objects, err := s.List(t.Context()); err != nil || len(objects) != 1 || string(read(t, s, "a")) != s.String() {
			t.Errorf("%s has %v: %v", s, objects, err)
		}
	}
}

func TestAKillDuringAnUploadLeavesNoObject(t *testing.T) {
	server := s3server.Start(t, "", "")
	s := open(t, config(t, server))
	program := reexec.Command(t.Context(), roleUploads)
	program.Env = append(program.Environ(), "ENDPOINT="+server.Endpoint, "CREDENTIALS="+s.config.Credentials)
	in, err := program.StdinPipe()
	must(t, err)
	must(t, program.Start())
	_, err = io.Copy(in, bytes.NewReader(random(2*partBytes, 1)))
	must(t, err)
	deadline := time.After(time.Minute)
	for uploads(t, s) == 0 {
		select {
		case <-deadline:
			t.Fatal("nothing is uploaded")
		case <-time.After(10 * time.Millisecond):
		}
	}
	must(t, program.Process.Kill())
	_ = program.Wait()
	if objects, err := s.List(t.Context()); err != nil || len(objects) != 0 {
		t.Errorf("there are %v: %v", objects, err)
	}
	must(t, s.Put(t.Context(), "object", bytes.NewReader(random(partBytes+1, 2))))
	if uploads(t, s) != 1 {
		t.Error("what may be in use is gone")
	}
}

func uploads(t testing.TB, s *S3) int {
	t.Helper()
	answer, err := s.client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &s.config.Bucket})
	must(t, err)
	return len(answer.Uploads)
}
