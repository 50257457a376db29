// Package etcd asks etcd clusters about themselves, through etcd's own client.
package etcd

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Timeout bounds one question to one member.
const Timeout = 3 * time.Second

// Member is what one member says of itself and what the cluster says of it.
type Member struct {
	Name string
	// Err is why the member did not answer; nil when it did.
	Err error
	// Listed is true when the cluster counts it as a member, Learner when it does not vote yet.
	Listed, Learner bool
	// Leader is true for the member that leads.
	Leader bool
	// DatabaseSize is the size of its database in bytes.
	DatabaseSize int64
}

// Health is the state of one etcd cluster.
type Health struct {
	// Members are the expected members, by name.
	Members []Member
	// Strangers are members that the cluster lists and nobody expects.
	Strangers []string
	// Alarms are raised alarms, such as "NOSPACE on <member>".
	Alarms []string
	// Err is why the cluster could not be asked for its members; nil when it could.
	Err error
}

// Problems says, for people, what is wrong; none when the cluster is healthy.
func (h *Health) Problems() []string {
	var problems []string
	if h.Err != nil {
		problems = append(problems, fmt.Sprintf("the cluster does not answer: %v", h.Err))
	}
	leader := false
	for _, m := range h.Members {
		leader = leader || m.Leader
		switch {
		case m.Err != nil:
			problems = append(problems, fmt.Sprintf("member %s does not answer: %v", m.Name, m.Err))
		case h.Err == nil && !m.Listed:
			problems = append(problems, fmt.Sprintf("member %s is not in the member list", m.Name))
		case m.Learner:
			problems = append(problems, fmt.Sprintf("member %s is a learner", m.Name))
		}
	}
	if h.Err == nil && !leader {
		problems = append(problems, "no member leads")
	}
	for _, stranger := range h.Strangers {
		problems = append(problems, fmt.Sprintf("unexpected member %s", stranger))
	}
	for _, alarm := range h.Alarms {
		problems = append(problems, "alarm "+alarm)
	}
	return problems
}

// Answered reports whether anything of the cluster answered: when nothing did, it may be the way
// there that is broken.
func (h *Health) Answered() bool {
	return h.Err == nil || slices.ContainsFunc(h.Members, func(m Member) bool { return m.Err == nil })
}

// Check asks every member, given by name and client URL, and the cluster as a whole. It takes at
// most twice Timeout.
func Check(ctx context.Context, members map[string]string, config *tls.Config) (*Health, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   slices.Sorted(maps.Values(members)),
		DialTimeout: Timeout,
		TLS:         config,
		Logger:      zap.NewNop(),
		Context:     ctx,
	})
	if err != nil {
		return nil, fmt.Errorf("make an etcd client: %w", err)
	}
	defer client.Close() //nolint:errcheck // Nothing was written through it.

	health := &Health{}
	var asking sync.WaitGroup
	asking.Go(func() { health.askCluster(ctx, client, members) })
	answers := make([]Member, len(members))
	for i, name := range slices.Sorted(maps.Keys(members)) {
		asking.Go(func() { answers[i] = askMember(ctx, client, name, members[name]) })
	}
	asking.Wait()
	for i := range answers {
		for _, listed := range health.Members {
			if listed.Name == answers[i].Name {
				answers[i].Listed, answers[i].Learner = true, listed.Learner
			}
		}
	}
	health.Members = answers
	return health, nil
}

func askMember(ctx context.Context, client *clientv3.Client, name, url string) Member {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	member := Member{Name: name}
	status, err := client.Status(ctx, url)
	if err != nil {
		member.Err = err
		return member
	}
	member.Leader = status.Leader == status.Header.MemberId
	member.DatabaseSize = status.DbSize
	if len(status.Errors) > 0 {
		member.Err = fmt.Errorf("it reports %s", strings.Join(status.Errors, ", "))
	}
	return member
}

// askCluster fills in the members that the cluster lists; it needs a quorum.
func (h *Health) askCluster(ctx context.Context, client *clientv3.Client, expected map[string]string) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	list, err := client.MemberList(ctx)
	if err != nil {
		h.Err = err
		return
	}
	ids := map[uint64]string{}
	for _, m := range list.Members {
		ids[m.ID] = m.Name
		if _, ok := expected[m.Name]; ok {
			h.Members = append(h.Members, Member{Name: m.Name, Learner: m.IsLearner})
		} else {
			h.Strangers = append(h.Strangers, fmt.Sprintf("%s (%x)", m.Name, m.ID))
		}
	}
	alarms, err := client.AlarmList(ctx)
	if err != nil {
		h.Err = err
		return
	}
	for _, alarm := range alarms.Alarms {
		if alarm.Alarm != etcdserverpb.AlarmType_NONE {
			h.Alarms = append(h.Alarms, fmt.Sprintf("%s on %s", alarm.Alarm, ids[alarm.MemberID]))
		}
	}
}
