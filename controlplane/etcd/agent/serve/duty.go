package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
)

// peer is a member of etcd as it answers.
type peer struct {
	name, clientURL        string
	voter, healthy, leader bool
}

// onDuty is the name of the member that takes snapshots: the first healthy follower, for the leader has enough to do. It is empty
// when no member is healthy.
func onDuty(peers []peer) string {
	able := slices.DeleteFunc(slices.Clone(peers), func(p peer) bool { return !p.voter || !p.healthy || p.name == "" })
	slices.SortFunc(able, func(a, b peer) int {
		if a.leader != b.leader {
			if b.leader {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	if len(able) == 0 {
		return ""
	}
	return able[0].name
}

// Bounds of asking members.
const (
	listTimeout   = 10 * time.Second
	statusTimeout = 3 * time.Second
)

// askPeers asks etcd for its members, and each of them how it is.
func askPeers(ctx context.Context, endpoint string, files snapshot.TLSFiles) ([]peer, error) {
	config, err := files.Config()
	if err != nil {
		return nil, err
	}
	client, err := dial(endpoint, config)
	if err != nil {
		return nil, err
	}
	defer client.Close() //nolint:errcheck // It was only read.
	members, err := list(ctx, client, endpoint)
	if err != nil {
		return nil, err
	}
	peers := make([]peer, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { peers[i] = askPeer(ctx, client, m) })
	}
	all.Wait()
	return peers, nil
}

// listMembers asks etcd for its members.
func listMembers(ctx context.Context, endpoint string, config *tls.Config) ([]*etcdserverpb.Member, error) {
	client, err := dial(endpoint, config)
	if err != nil {
		return nil, err
	}
	defer client.Close() //nolint:errcheck // It was only read.
	return list(ctx, client, endpoint)
}

func dial(endpoint string, config *tls.Config) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: config, DialTimeout: listTimeout, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("make a client of etcd at %s: %w", endpoint, err)
	}
	return client, nil
}

func list(ctx context.Context, client *clientv3.Client, endpoint string) ([]*etcdserverpb.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	answer, err := client.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask etcd at %s for its members: %w", endpoint, err)
	}
	return answer.Members, nil
}

func askPeer(ctx context.Context, client *clientv3.Client, m *etcdserverpb.Member) peer {
	p := peer{name: m.Name, voter: !m.IsLearner}
	if len(m.ClientURLs) == 0 {
		return p // It never started.
	}
	p.clientURL = m.ClientURLs[0]
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	status, err := client.Status(ctx, m.ClientURLs[0])
	if err != nil || status.Header.MemberId != m.ID {
		return p
	}
	p.leader = status.Leader == m.ID
	p.healthy = status.Leader != 0 && !slices.ContainsFunc(status.Errors, func(text string) bool { return concerns(text, m.ID) })
	return p
}

// concerns reports whether what a member says is wrong keeps it from taking snapshots. All members repeat the alarms of each
// other, and a database that is full can be read.
func concerns(text string, id uint64) bool {
	if !strings.Contains(text, "alarm:") {
		return true
	}
	return !strings.Contains(text, "alarm:NOSPACE") && strings.Contains(text+" ", fmt.Sprintf("memberID:%d ", id))
}
