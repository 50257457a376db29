package etcd

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// hostile is a member that is no etcd.
type hostile struct {
	etcdserverpb.UnimplementedMaintenanceServer
	etcdserverpb.UnimplementedClusterServer

	status *etcdserverpb.StatusResponse
	// fails is why it has no status.
	fails  error
	list   *etcdserverpb.MemberListResponse
	alarms *etcdserverpb.AlarmResponse
}

func (h *hostile) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return h.status, h.fails
}

func (h *hostile) Alarm(context.Context, *etcdserverpb.AlarmRequest) (*etcdserverpb.AlarmResponse, error) {
	return h.alarms, nil
}

func (h *hostile) MemberList(context.Context, *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	return h.list, nil
}

// serve is where the member answers.
func (h *hostile) serve(t *testing.T) Address {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	etcdserverpb.RegisterMaintenanceServer(server, h)
	etcdserverpb.RegisterClusterServer(server, h)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return Address{Client: "http://" + listener.Addr().String()}
}

// Whoever answers in place of a member must not fill the manager's memory, nor the conditions of its control plane.
func TestWhatAMemberAnswersIsBounded(t *testing.T) {
	long := strings.Repeat("a", 300<<10)
	many := func(count, length int) *etcdserverpb.MemberListResponse {
		list := &etcdserverpb.MemberListResponse{Header: &etcdserverpb.ResponseHeader{}}
		for i := range count {
			list.Members = append(list.Members, &etcdserverpb.Member{ID: uint64(i), Name: fmt.Sprintf("%d%s", i, strings.Repeat("b", length))})
		}
		return list
	}
	alarms := &etcdserverpb.AlarmResponse{Header: &etcdserverpb.ResponseHeader{}}
	for i := range 500 {
		alarms.Alarms = append(alarms.Alarms, &etcdserverpb.AlarmMember{MemberID: uint64(i), Alarm: etcdserverpb.AlarmType_CORRUPT})
	}
	follows := func(change func(*etcdserverpb.StatusResponse)) *etcdserverpb.StatusResponse {
		status := &etcdserverpb.StatusResponse{Header: &etcdserverpb.ResponseHeader{}, Leader: 1}
		change(status)
		return status
	}
	none := &etcdserverpb.AlarmResponse{Header: &etcdserverpb.ResponseHeader{}}
	for name, test := range map[string]struct {
		hostile
		// code is that of the error of the member, or of the cluster.
		member, cluster codes.Code
	}{
		"a status": {hostile: hostile{
			status: follows(func(s *etcdserverpb.StatusResponse) { s.Errors, s.Version = []string{long, long}, long }), list: many(1, 0), alarms: none,
		}, member: codes.Unknown},
		"a status that is too large": {hostile: hostile{status: follows(func(s *etcdserverpb.StatusResponse) { s.Version = strings.Repeat(long, 4) }), list: many(1, 0), alarms: none}, member: codes.ResourceExhausted},
		"an error":                   {hostile: hostile{fails: grpcstatus.Error(codes.Internal, long[:32<<10])}, member: codes.Internal},
		"members":                    {hostile: hostile{status: follows(func(*etcdserverpb.StatusResponse) {}), list: many(500, 1<<10), alarms: alarms}},
		"too many members":           {hostile: hostile{status: follows(func(*etcdserverpb.StatusResponse) {}), list: many(500, 4<<10), alarms: none}, cluster: codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			health, err := Check(t.Context(), map[string]Address{"blue-etcd-data-0": test.serve(t)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := grpcstatus.Code(health.Members[0].Err); got != test.member {
				t.Errorf("the member fails by %s, want %s", got, test.member)
			}
			if test.member == codes.OK && grpcstatus.Code(health.Err) != test.cluster {
				t.Errorf("the cluster fails by %v, want %s", health.Err, test.cluster)
			}
			if size := len(strings.Join(append(health.Problems(), health.Lagging()...), "")) + len(health.Members[0].Version); size > 16<<10 {
				t.Errorf("conditions would have %d bytes of it", size)
			}
		})
	}
}
