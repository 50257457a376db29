package snapshot

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
)

// Member is a live member of etcd.
type Member struct {
	client   *clientv3.Client
	endpoint string
	// WithoutQuorum also takes snapshots of a member that knows no leader. What others acknowledged may be missing in them.
	WithoutQuorum bool
}

// dialTimeout bounds connections to a member.
const dialTimeout = 10 * time.Second

// TLSFiles are files in PEM by which etcd and its client know each other.
type TLSFiles struct{ CA, Certificate, Key string }

// Config reads the files. It is nil where none is named: etcd speaks without TLS.
func (f TLSFiles) Config() (*tls.Config, error) {
	if f == (TLSFiles{}) {
		return nil, nil
	}
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("read etcd's CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("read etcd's CA: %s has no certificate in PEM", f.CA)
	}
	pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of etcd's client: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair}}, nil
}

// Dial makes a client of one member.
func Dial(endpoint string, config *tls.Config) (*Member, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: config, DialTimeout: dialTimeout, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("make a client of etcd at %s: %w", endpoint, err)
	}
	return &Member{client: client, endpoint: endpoint}, nil
}

// Close ends the client.
func (m *Member) Close() error { return m.client.Close() }

// point is where in the history of etcd a snapshot was taken.
type point struct {
	etcdVersion, storageVersion string
	revision, compactRevision   int64
	hash                        uint32
}

// tries is how often a snapshot is begun anew because etcd compacted its history in between, which it does every few minutes.
const tries = 5

// open begins a snapshot, and says of which point it is: the compact revision has to be the same before and after etcd opened
// it, or the hash would be of another history.
func (m *Member) open(ctx context.Context) (point, io.ReadCloser, error) {
	if !m.WithoutQuorum {
		// All that was acknowledged until now is in a snapshot that begins after this read.
		if _, err := m.client.Get(ctx, "kok-etcd-agent", clientv3.WithCountOnly()); err != nil {
			return point{}, nil, fmt.Errorf("ask etcd at %s whether it is up to date: %w", m.endpoint, err)
		}
	}
	for range tries {
		p, err := m.here(ctx)
		if compacted(err) {
			continue
		}
		if err != nil {
			return point{}, nil, err
		}
		stream, err := m.client.SnapshotWithVersion(ctx)
		if err != nil {
			return point{}, nil, fmt.Errorf("take a snapshot of etcd at %s: %w", m.endpoint, err)
		}
		same, err := m.stillCompactedAt(ctx, p)
		if err == nil && same {
			if p.storageVersion = archive.MinorOf(stream.Version); p.storageVersion == "" {
				// etcd 3.5 does not say it.
				p.storageVersion = archive.MinorOf(p.etcdVersion)
			}
			return p, stream.Snapshot, nil
		}
		_ = stream.Snapshot.Close()
		if err != nil {
			return point{}, nil, err
		}
	}
	return point{}, nil, fmt.Errorf("take a snapshot of etcd at %s: etcd compacted its history during each of %d tries", m.endpoint, tries)
}

// here asks for the present revision and its hash.
func (m *Member) here(ctx context.Context) (point, error) {
	status, err := m.client.Status(ctx, m.endpoint)
	if err != nil {
		return point{}, fmt.Errorf("ask etcd at %s for its revision: %w", m.endpoint, err)
	}
	hash, err := m.client.HashKV(ctx, m.endpoint, status.Header.Revision)
	if err != nil {
		return point{}, fmt.Errorf("ask etcd at %s for its hash: %w", m.endpoint, rpctypes.Error(err))
	}
	return point{etcdVersion: status.Version, revision: status.Header.Revision, compactRevision: hash.CompactRevision, hash: hash.Hash}, nil
}

// stillCompactedAt reports whether etcd compacted nothing since. A read at the compact revision fails once there is a newer one.
func (m *Member) stillCompactedAt(ctx context.Context, p point) (bool, error) {
	if p.compactRevision <= 0 {
		now, err := m.here(ctx)
		return err == nil && now.compactRevision == p.compactRevision, ignoreCompacted(err)
	}
	_, err := m.client.Get(ctx, "kok-etcd-agent", clientv3.WithRev(p.compactRevision), clientv3.WithSerializable(), clientv3.WithCountOnly())
	return err == nil, ignoreCompacted(err)
}

func compacted(err error) bool { return errors.Is(err, rpctypes.ErrCompacted) }

func ignoreCompacted(err error) error {
	if compacted(err) {
		return nil
	}
	return err
}
