package lab

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/daemon"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

const (
	s3Name = "s3"
	// s3Port is one that the mirror does not try.
	s3Port = 7480
	// s3Patience bounds the wait for the server.
	s3Patience = 30 * time.Second
)

// S3 is an S3 server with TLS on the lab's router, at its address in the data centre: hosts, pods and this machine reach it, and a
// cut of the link keeps nobody in the data centre from it. It is a program of the lab, and ends with it.
type S3 struct {
	// Endpoint is its address, CA the authority of its certificate, as PEM.
	Endpoint string
	CA       []byte
	// AccessKeyID and SecretAccessKey are those of its only user.
	AccessKeyID, SecretAccessKey string
	// Folder has a folder for each bucket, and there a file for each object by its name. Tests may change them.
	Folder string

	lab     *Lab
	program string
	daemon  *daemon.Daemon
}

// StartS3 starts the one S3 server of the lab, without objects, with some buckets. One that runs is ended, and its objects go.
func (l *Lab) StartS3(ctx context.Context, progress func(string), buckets ...string) (*S3, error) {
	cache, err := artifacts.CacheDir()
	if err != nil {
		return nil, err
	}
	program, err := artifacts.EnsureS3(ctx, cache, progress)
	if err != nil {
		return nil, err
	}
	s := &S3{
		Endpoint: "https://" + l.s3Address().String(), AccessKeyID: "lab", SecretAccessKey: rand.Text(),
		Folder: filepath.Join(l.ProgramFolder(s3Name), "objects"), lab: l, program: program,
	}
	if err := l.checkUp(); err != nil {
		return nil, err
	}
	if err := l.EndProgram(ctx, s3Name); err != nil {
		return nil, err
	}
	if err := s.prepare(buckets); err != nil {
		return nil, fmt.Errorf("prepare the S3 server: %w", err)
	}
	return s, s.Start(ctx)
}

func (l *Lab) s3Address() netip.AddrPort { return netip.AddrPortFrom(l.RouterAddress(), s3Port) }

// prepare makes the folders and the certificate.
func (s *S3) prepare(buckets []string) error {
	folder := s.lab.ProgramFolder(s3Name)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for _, path := range []string{s.sidecar(), s.Folder} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
	}
	for _, bucket := range buckets {
		if err := os.Mkdir(filepath.Join(s.Folder, bucket), 0o700); err != nil {
			return err
		}
	}
	serving, authority, err := s.lab.RouterCertificate()
	if err != nil {
		return err
	}
	s.CA = authority
	key, err := x509.MarshalPKCS8PrivateKey(serving.PrivateKey)
	if err != nil {
		return err
	}
	var chain []byte
	for _, der := range serving.Certificate {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return errors.Join(
		os.WriteFile(s.certificate(), chain, 0o600),
		os.WriteFile(s.key(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600),
	)
}

// sidecar has what the server keeps beside objects: not every file system has extended attributes.
func (s *S3) sidecar() string { return filepath.Join(s.lab.ProgramFolder(s3Name), "sidecar") }

func (s *S3) certificate() string { return filepath.Join(s.lab.ProgramFolder(s3Name), "tls.crt") }

func (s *S3) key() string { return filepath.Join(s.lab.ProgramFolder(s3Name), "tls.key") }

// Start starts the server again after Stop, with the objects and the keys that it had.
func (s *S3) Start(ctx context.Context) error {
	err := s.lab.locked(ctx, func() error {
		if err := s.lab.checkUp(); err != nil {
			return err
		}
		// A process is in the network of the thread that starts it.
		err := host.OnRouter(s.lab.network, func() (err error) {
			s.daemon, err = daemon.Start(s.lab.ProgramLog(s3Name), s.program,
				"--quiet", "--port", s.lab.s3Address().String(), "--access", s.AccessKeyID, "--secret", s.SecretAccessKey, "--health", "/health",
				"--cert", s.certificate(), "--key", s.key(), "posix", "--sidecar", s.sidecar(), s.Folder)
			return err
		})
		if err != nil {
			return err
		}
		if err := host.RecordProcess(s.lab.programRecord(s3Name), s.daemon.PID()); err != nil {
			s.daemon.Kill()
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("start the S3 server: %w", err)
	}
	if err := s.daemon.While(ctx, s.answers); err != nil {
		return errors.Join(fmt.Errorf("wait for the S3 server: %w", err), s.Stop(context.WithoutCancel(ctx)))
	}
	return nil
}

// answers waits until the server does.
func (s *S3) answers(ctx context.Context) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, s3Patience, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint+"/health", nil)
		if err != nil {
			return false, err
		}
		answer, err := client.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // It may be there soon.
		}
		return answer.StatusCode == http.StatusOK, answer.Body.Close()
	})
}

// Stop ends the server at once, as a failure does. Objects stay until the next StartS3, or until the lab's disks go.
func (s *S3) Stop(ctx context.Context) error {
	if err := s.lab.EndProgram(ctx, s3Name); err != nil {
		return err
	}
	return s.daemon.Wait(ctx)
}
