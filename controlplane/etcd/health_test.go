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

func TestVotersThatMayLackWritesAreNamed(t *testing.T) {
	leader := Member{Name: "a", Listed: true, Answered: true, Follows: true, Leader: true, Committed: 5000, Applied: 5000}
	as := func(change func(*Member)) Member {
		m := Member{Name: "b", Listed: true, Answered: true, Follows: true, Committed: 5000, Applied: 4990}
		change(&m)
		return m
	}
	for name, test := range map[string]struct {
		health Health
		want   string
	}{
		"all have all":                    {Health{Members: []Member{leader, as(func(*Member) {})}}, ""},
		"one reports an alarm":            {Health{Members: []Member{leader, as(func(m *Member) { m.Err = errors.New("it reports NOSPACE") })}}, ""},
		"one does not answer":             {Health{Members: []Member{leader, as(func(m *Member) { m.Answered, m.Err = false, errors.New("refused") })}}, "member b does not answer: refused"},
		"one does not say why":            {Health{Members: []Member{leader, as(func(m *Member) { m.Answered = false })}}, "member b does not answer"},
		"one is cut off from the others":  {Health{Members: []Member{leader, as(func(m *Member) { m.Follows = false })}}, "member b knows no leader"},
		"one has not caught up":           {Health{Members: []Member{leader, as(func(m *Member) { m.Applied = 100 })}}, "member b has yet to apply 4900 entries of the log"},
		"a learner has not":               {Health{Members: []Member{leader, as(func(m *Member) { m.Learner, m.Applied = true, 100 })}}, ""},
		"one that was removed":            {Health{Members: []Member{leader, as(func(m *Member) { m.Listed, m.Answered = false, false })}}, ""},
		"one is listed that nobody knows": {Health{Members: []Member{leader}, UnknownMembers: []UnknownMember{{"c", 0x1f}}}, `unexpected member "c" (1f)`},
		"nobody lists them":               {Health{Members: []Member{leader}, Err: errors.New("no quorum")}, "the cluster does not answer: no quorum"},
	} {
		if got := strings.Join(test.health.Lagging(), "; "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
