package standin

import (
	"context"
	"crypto/tls"
	"errors"
	"hash/fnv"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

const (
	etcdVersion  = "3.6.8"
	etcdRevision = 1000
	// Sizes in bytes, as of a small tenant.
	databaseSize, databaseInUse, databaseQuota = 24 << 20, 20 << 20, 8 << 30
)

// member is one member of an etcd.
type member struct {
	// names are those of all members, and ordinal is the place of this one.
	names       []string
	ordinal     int
	certificate tls.Certificate
	asked       atomic.Bool
}

// first reports whether it stands for its etcd where etcds are counted.
func (m *member) first() bool { return m.ordinal == 0 }

func id(name string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name))
	return hash.Sum64()
}

func (m *member) header() *etcdserverpb.ResponseHeader {
	return &etcdserverpb.ResponseHeader{ClusterId: id("cluster " + m.names[0]), MemberId: id(m.names[m.ordinal]), Revision: etcdRevision, RaftTerm: 1}
}

// newEtcdServer is the one server behind the addresses of all members.
func (h *Host) newEtcdServer() *grpc.Server {
	config := h.serving(&h.toEtcds, func(at *place) *tls.Certificate { return &at.member.certificate })
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	etcdserverpb.RegisterClusterServer(server, &etcdCluster{host: h})
	etcdserverpb.RegisterMaintenanceServer(server, &etcdMaintenance{host: h})
	return server
}

func (h *Host) memberOf(ctx context.Context) (*member, error) {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return nil, errors.New("a request without a connection")
	}
	at, err := h.placeOf(from.LocalAddr)
	if err != nil {
		return nil, err
	}
	return at.member, nil
}

type etcdCluster struct {
	etcdserverpb.UnimplementedClusterServer
	host *Host
}

// MemberList lists the members.
func (c *etcdCluster) MemberList(ctx context.Context, _ *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	asked, err := c.host.memberOf(ctx)
	if err != nil {
		return nil, err
	}
	list := &etcdserverpb.MemberListResponse{Header: asked.header()}
	for _, name := range asked.names {
		list.Members = append(list.Members, &etcdserverpb.Member{ID: id(name), Name: name})
	}
	return list, nil
}

type etcdMaintenance struct {
	etcdserverpb.UnimplementedMaintenanceServer
	host *Host
}

// Status is that of a member of which all is well. The first one leads.
func (s *etcdMaintenance) Status(ctx context.Context, _ *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	asked, err := s.host.memberOf(ctx)
	if err != nil {
		return nil, err
	}
	asked.asked.Store(true)
	return &etcdserverpb.StatusResponse{
		Header: asked.header(), Version: etcdVersion, Leader: id(asked.names[0]), RaftIndex: etcdRevision, RaftAppliedIndex: etcdRevision, RaftTerm: 1,
		DbSize: databaseSize, DbSizeInUse: databaseInUse, DbSizeQuota: databaseQuota,
	}, nil
}

// Alarm lists no alarms.
func (s *etcdMaintenance) Alarm(ctx context.Context, _ *etcdserverpb.AlarmRequest) (*etcdserverpb.AlarmResponse, error) {
	asked, err := s.host.memberOf(ctx)
	if err != nil {
		return nil, err
	}
	return &etcdserverpb.AlarmResponse{Header: asked.header()}, nil
}

// HashKV is the same for all members.
func (s *etcdMaintenance) HashKV(ctx context.Context, _ *etcdserverpb.HashKVRequest) (*etcdserverpb.HashKVResponse, error) {
	asked, err := s.host.memberOf(ctx)
	if err != nil {
		return nil, err
	}
	return &etcdserverpb.HashKVResponse{Header: asked.header(), Hash: 1, CompactRevision: 1, HashRevision: etcdRevision}, nil
}
