package etcd

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// What a member answers is not in our hands.
func TestAPanicWhileEtcdIsCheckedIsAnAnswerThatIsMissing(t *testing.T) {
	health := &Health{}
	answered := make(chan *clientv3.Client, 1)
	answered <- nil
	close(answered)
	health.checkCluster(t.Context(), answered, nil)
	member := checkMember(t.Context(), nil, "blue-etcd-data-0")
	for name, err := range map[string]error{"the cluster": health.Err, "a member": member.Err} {
		if err == nil || !strings.HasSuffix(err.Error(), "panicked; the manager's log has the stack") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if member.Name != "blue-etcd-data-0" || member.Answered {
		t.Errorf("%+v", member)
	}
}

func TestMembersAreReachedByTheirOwnWay(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dialled := make(chan string, 100)
	members := map[string]Address{}
	for name, address := range map[string]string{"blue-etcd-data-0": "https://192.0.2.1:2379", "blue-etcd-data-1": "https://[2001:db8::1]:2379"} {
		members[name] = Address{Client: address, Dial: func(context.Context) (net.Conn, error) {
			select {
			case dialled <- name:
			default:
			}
			return nil, errors.New("no way")
		}}
	}
	checked := make(chan *Health)
	go func() {
		health, _ := Check(ctx, members, nil)
		checked <- health
	}()
	var seen []string
	for len(seen) < len(members) {
		if name := <-dialled; !slices.Contains(seen, name) {
			seen = append(seen, name)
		}
	}
	cancel()
	if health := <-checked; health == nil || health.Answered() {
		t.Errorf("got %+v", health)
	}
}
