// Package etcd checks how etcd clusters are, and changes their members, through etcd's own client.
package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics"
)

// Timeout bounds one request to one member.
const Timeout = 3 * time.Second

// Address is where one member is reached: by clients, and by the other members.
type Address struct {
	Client, Peer string
	// Dial connects to the member where Client leads nowhere from here; nil where it does.
	Dial func(context.Context) (net.Conn, error)
}

// Member is what one member says of itself and what the cluster says of it.
type Member struct {
	Name string
	// ID is what the cluster knows it by; zero for one that is not listed.
	ID uint64
	// Err is why the member did not answer, or what it reports; nil when all is well.
	Err error
	// Answered is true when it answered, whatever it reports; Follows when it then knew the leader, or was it.
	Answered, Follows bool
	// Listed is true when the cluster counts it as a member, Learner when it does not vote yet. Started
	// is true for one that ran since it was added.
	Listed, Learner, Started bool
	// Full is true when all that it reports is the alarm NOSPACE.
	Full bool
	// Leader is true for the member that leads.
	Leader bool
	// Version is that of its etcd, Revision the newest one that it has.
	Version  string
	Revision int64
	// Committed is the newest entry of the log that it knows to be decided, Applied the newest one that its database has.
	Committed, Applied uint64
	// cluster is the ID of the cluster that it is a member of.
	cluster uint64
	// Differs is true when its data is not that of the majority, by hashes that package operator compares now and then.
	Differs bool
	// DatabaseSize is the size of its database in bytes, DatabaseInUse what is no free page of it, DatabaseQuota what it may
	// become; zero when it did not say.
	DatabaseSize, DatabaseInUse, DatabaseQuota int64
}

// InQuorum reports whether a member votes, and answers as one that follows a leader or leads.
func (m Member) InQuorum() bool { return m.Answered && m.Follows && m.Listed && !m.Learner }

// UnknownMember is a member that nobody expects.
type UnknownMember struct {
	// Name is its name, or its addresses while it has not started.
	Name string
	// ID is what the cluster knows it by.
	ID uint64
}

// String quotes the name: a stranger chose it, and messages have commands that people run.
func (m UnknownMember) String() string { return fmt.Sprintf("%q (%x)", m.Name, m.ID) }

// Health is the state of one etcd cluster.
type Health struct {
	// Members are the expected members, by name.
	Members []Member
	// UnknownMembers are the first ten members that the cluster lists and that are not expected.
	UnknownMembers []UnknownMember
	// Alarms are the first ten raised alarms, such as "NOSPACE on <member>".
	Alarms []string
	// Full is true when the alarm NOSPACE is raised: it takes no writes.
	Full bool
	// CompactedAt is the revision of an etcd that is full and has no version of a key but the newest; 0 for any other.
	CompactedAt int64
	// Disagree is true when no majority of the voters has the same data, by the same hashes.
	Disagree bool
	// ClusterID is the ID that the members that answered give of their cluster, in hexadecimal; empty when none answered, or when
	// they differ.
	ClusterID string
	// Err is why the cluster did not list its members; nil when it did.
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
		case m.Err != nil && m.Answered:
			problems = append(problems, fmt.Sprintf("member %s has a problem: %v", m.Name, m.Err))
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
	for _, unknown := range h.UnknownMembers {
		problems = append(problems, fmt.Sprintf("unexpected member %s", unknown))
	}
	for _, alarm := range h.Alarms {
		problems = append(problems, "alarm "+alarm)
	}
	return problems
}

// mostBehind is how many entries of the log a member may lack and still count as caught up: others write while the manager asks members.
const mostBehind = 1000

// Lagging tells people which voters may lack what was written a while ago. A voter that does not answer may. It returns nothing if each
// voter has it.
func (h *Health) Lagging() []string {
	if h.Err != nil {
		return []string{fmt.Sprintf("the cluster does not answer: %v", h.Err)}
	}
	var lagging []string
	for _, m := range h.Members {
		switch {
		case !m.Listed || m.Learner:
		case !m.Answered && m.Err != nil:
			lagging = append(lagging, fmt.Sprintf("member %s does not answer: %v", m.Name, m.Err))
		case !m.Answered:
			lagging = append(lagging, fmt.Sprintf("member %s does not answer", m.Name))
		case !m.Follows:
			lagging = append(lagging, fmt.Sprintf("member %s knows no leader", m.Name))
		case h.Behind(m) > mostBehind:
			lagging = append(lagging, fmt.Sprintf("member %s has yet to apply %d entries of the log", m.Name, h.Behind(m)))
		}
	}
	for _, unknown := range h.UnknownMembers {
		lagging = append(lagging, fmt.Sprintf("unexpected member %s", unknown))
	}
	return lagging
}

// Answered reports whether any member answered. When none did, the way there may be broken.
func (h *Health) Answered() bool {
	return h.Err == nil || slices.ContainsFunc(h.Members, func(m Member) bool { return m.Answered || m.Err == nil })
}

// Behind is how many entries of the log a member has yet to apply of those that the leader knows; zero when nobody leads.
func (h *Health) Behind(m Member) uint64 {
	for _, leader := range h.Members {
		if leader.Leader && leader.Committed > m.Applied {
			return leader.Committed - m.Applied
		}
	}
	return 0
}

// errNobodyLists says why Check has no list of members. It requests the list only from members that know a leader: another one would not
// answer before it finds a leader.
var errNobodyLists = errors.New("no member answers that knows a leader")

// Check reads the status of every member, given by name, and the cluster's list of members. It makes one connection to each
// member, writes nothing, and takes at most twice Timeout.
func Check(ctx context.Context, members map[string]Address, config *tls.Config) (*Health, error) {
	checked, clients := make([]Member, len(members)), make([]*clientv3.Client, len(members))
	for i, name := range slices.Sorted(maps.Keys(members)) {
		client, err := dial(ctx, []Address{members[name]}, config)
		if err != nil {
			return nil, err
		}
		defer client.Close() //nolint:errcheck // Nothing was written through it.
		checked[i].Name, clients[i] = name, client
	}
	health, answered := &Health{}, make(chan *clientv3.Client, len(members))
	var checks, cluster sync.WaitGroup
	for i, client := range clients {
		checks.Go(func() {
			checked[i] = checkMember(ctx, client, checked[i].Name)
			if checked[i].Follows {
				answered <- client
			}
		})
	}
	cluster.Go(func() { health.checkCluster(ctx, answered, members) })
	checks.Wait()
	close(answered)
	cluster.Wait()
	for i := range checked {
		for _, listed := range health.Members {
			if listed.Name == checked[i].Name {
				checked[i].ID, checked[i].Listed, checked[i].Learner, checked[i].Started = listed.ID, true, listed.Learner, listed.Started
			}
		}
	}
	health.Members = checked
	health.ClusterID = clusterID(checked)
	return health, nil
}

// clusterID is the ID that all members that answered give of their cluster.
func clusterID(members []Member) string {
	id := ""
	for _, m := range members {
		given := fmt.Sprintf("%016x", m.cluster)
		switch {
		case !m.Answered:
		case id != "" && id != given:
			return ""
		default:
			id = given
		}
	}
	return id
}

func checkMember(ctx context.Context, client *clientv3.Client, name string) (member Member) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	member.Name = name
	defer panics.Recover(ctx, "checking a member", &member.Err)
	status, err := maintenance(client).Status(ctx, "")
	if err != nil {
		member.Err = toldError{err}
		return member
	}
	member.Answered, member.Follows = true, status.Leader != 0
	member.Leader = status.Leader == status.Header.MemberId
	member.Version, member.Revision, member.cluster = told(status.Version), status.Header.Revision, status.Header.ClusterId
	member.Committed, member.Applied = status.RaftIndex, status.RaftAppliedIndex
	member.DatabaseSize, member.DatabaseInUse, member.DatabaseQuota = status.DbSize, status.DbSizeInUse, status.DbSizeQuota
	if len(status.Errors) > 0 {
		member.Err = fmt.Errorf("it reports %s", told(strings.Join(status.Errors, ", ")))
		member.Full = !slices.ContainsFunc(status.Errors, func(problem string) bool { return !strings.Contains(problem, "alarm:NOSPACE") })
	}
	return member
}

// maintenance sends requests to the one member that the client is connected to. The client's own methods open another connection for each
// request to a member.
func maintenance(client *clientv3.Client) clientv3.Maintenance {
	return clientv3.NewMaintenanceFromMaintenanceClient(clientv3.RetryMaintenanceClient(client, client.ActiveConnection()), client)
}

// nameOf is the name of a listed member. Etcd has no name for one that has not started since it was added: its address tells which it
// is.
func nameOf(listed *etcdserverpb.Member, expected map[string]Address) string {
	if listed.Name != "" {
		return listed.Name
	}
	for name, address := range expected {
		if slices.Contains(listed.PeerURLs, address.Peer) {
			return name
		}
	}
	return ""
}

// What a member answers is bounded: its image and its host node may be somebody else's.
const (
	// answerBytes is the most of an answer that has no values of keys, headerBytes of its header, which has the text of a failure.
	answerBytes = 1 << 20
	headerBytes = 64 << 10
	// mostTold is how many unknown members and how many alarms are told, and longestTold how many bytes of a text.
	mostTold    = 10
	longestTold = 512
)

// told is the first part of a text of a member.
func told(text string) string {
	return errortext.Short(text, longestTold)
}

// toldError shortens the text of an error that a member caused.
type toldError struct{ error }

// Error implements error.
func (e toldError) Error() string { return told(e.error.Error()) }

// Unwrap returns the error with its full text. errors.Is and errors.As need it.
func (e toldError) Unwrap() error { return e.error }

// dial makes a client for answers without values of keys.
func dial(ctx context.Context, members []Address, config *tls.Config) (*clientv3.Client, error) {
	return dialFor(ctx, members, config, answerBytes)
}

// dialFor is dial with another limit on the bytes of an answer.
func dialFor(ctx context.Context, members []Address, config *tls.Config, mostBytes int) (*clientv3.Client, error) {
	endpoints := make([]string, 0, len(members))
	for _, member := range members {
		endpoints = append(endpoints, member.Client)
	}
	slices.Sort(endpoints)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialTimeout: Timeout, TLS: config, Logger: zap.NewNop(), Context: ctx,
		DialOptions: dialOptions(members), MaxCallRecvMsgSize: mostBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("make an etcd client: %w", err)
	}
	return client, nil
}

// bufferSize is that of connections for a few short requests. By default it is 32 KiB for each direction.
const bufferSize = 4 << 10

// dialOptions lead connections to members through their own Dial. Certificates are still verified by their addresses.
func dialOptions(members []Address) []grpc.DialOption {
	options := []grpc.DialOption{grpc.WithReadBufferSize(bufferSize), grpc.WithWriteBufferSize(bufferSize), grpc.WithMaxHeaderListSize(headerBytes)}
	dials := map[string]func(context.Context) (net.Conn, error){}
	for _, member := range members {
		if at, err := url.Parse(member.Client); err == nil && member.Dial != nil {
			dials[at.Host] = member.Dial
		}
	}
	if len(dials) == 0 {
		return options
	}
	return append(options, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		dial, ok := dials[address]
		if !ok {
			return nil, fmt.Errorf("%s is no member's address", address)
		}
		return dial(ctx)
	}))
}

// checkCluster fills in the members that the cluster lists; it needs a quorum. It asks the members that answered one after the
// other, as they come, until one lists them.
func (h *Health) checkCluster(ctx context.Context, answered <-chan *clientv3.Client, expected map[string]Address) {
	ctx, cancel := context.WithTimeout(ctx, 2*Timeout)
	defer cancel()
	h.Err = errNobodyLists
	for client := range answered {
		if h.Err != nil {
			h.Err = h.list(ctx, client, expected)
		}
	}
}

// list asks one member.
func (h *Health) list(ctx context.Context, client *clientv3.Client, expected map[string]Address) (err error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	defer panics.Recover(ctx, "checking the cluster", &err)
	list, err := client.MemberList(ctx)
	if err != nil {
		return toldError{err}
	}
	alarms, err := client.AlarmList(ctx)
	if err != nil {
		return toldError{err}
	}
	h.Members, h.UnknownMembers, h.Alarms, h.Full = nil, nil, nil, false
	ids := map[uint64]string{}
	for _, m := range list.Members {
		name := nameOf(m, expected)
		ids[m.ID] = name
		if _, ok := expected[name]; ok {
			h.Members = append(h.Members, Member{Name: name, ID: m.ID, Learner: m.IsLearner, Started: m.Name != ""})
		} else if len(h.UnknownMembers) < mostTold {
			h.UnknownMembers = append(h.UnknownMembers, UnknownMember{Name: told(cmp.Or(name, strings.Join(m.PeerURLs, ","))), ID: m.ID})
		}
	}
	for _, alarm := range alarms.Alarms {
		if alarm.Alarm != etcdserverpb.AlarmType_NONE {
			if len(h.Alarms) < mostTold {
				h.Alarms = append(h.Alarms, fmt.Sprintf("%s on %s", alarm.Alarm, told(ids[alarm.MemberID])))
			}
			h.Full = h.Full || alarm.Alarm == etcdserverpb.AlarmType_NOSPACE
		}
	}
	if h.Full {
		h.CompactedAt, err = compactedAt(ctx, client)
	}
	return err
}
