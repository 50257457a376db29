package backups

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics"
)

// Member is how the agent of a member is reached.
type Member struct {
	Name string
	// Address is host:port. The certificate has the name of the member.
	Address string
	// If Dial is set, it connects to the agent in place of Address.
	Dial func(context.Context) (net.Conn, error)
}

// Members are the members of the data etcd whose addresses are known. If dial is set, it connects to their pods in place of the addresses.
func Members(in *components.Input, dial hostclusters.Dial) []Member {
	port := etcdcomponent.Data.Ports(in).Backup
	var members []Member
	for _, name := range etcdcomponent.Data.Members(in) {
		address := in.Addresses[name]
		if address == "" {
			continue
		}
		m := Member{Name: name, Address: net.JoinHostPort(address, fmt.Sprint(port))}
		if dial != nil {
			pod := client.ObjectKey{Namespace: in.Cluster.Namespace, Name: name}
			m.Dial = func(ctx context.Context) (net.Conn, error) { return dial(ctx, pod, port) }
		}
		members = append(members, m)
	}
	return members
}

// askTimeout bounds one request.
const askTimeout = 4 * time.Second

// Answer is what members say together: the report of the one that takes snapshots, else of the one that read the store last.
type Answer struct {
	*backup.Report
	// Volumes are the volumes of the members that answered, by the names of the members.
	Volumes map[string]backup.Volume
	// Kept are the slots of the verified snapshots on the volume of each member that answered, by the name of the member, where members keep
	// snapshots on volumes of their own.
	Kept map[string][]time.Time
	// KeysIDs name the keys that the members which answered store beside snapshots; an empty one is of an earlier release.
	KeysIDs []string
	// Unread says why a member could not list the store last, by the name of the member.
	Unread map[string]backup.Problem
	// NotTaken and NotDeleted say why no member takes, or deletes, the snapshot of a slot that it was asked for.
	NotTaken, NotDeleted map[time.Time]string
	// Silent says why a member did not answer, by the name of the member.
	Silent map[string]string
	// Err says why no member answered; it is empty when one did. While Err is set, Report is from an earlier time.
	Err string
}

// askAll asks all members at once.
func askAll(ctx context.Context, members []Member, config *tls.Config) (Answer, error) {
	reports, errs := make([]*backup.Report, len(members)), make([]error, len(members))
	var group sync.WaitGroup
	for i, m := range members {
		group.Go(func() {
			defer panics.Recover(ctx, "asking an agent", &errs[i])
			report := &backup.Report{}
			if err := m.request(ctx, config, http.MethodGet, backup.ReportPath, nil, report); err != nil {
				errs[i] = err
				return
			}
			bound(report)
			reports[i] = report
		})
	}
	group.Wait()
	volumes, unread, kept, silent := map[string]backup.Volume{}, map[string]backup.Problem{}, map[string][]time.Time{}, map[string]string{}
	for i, report := range reports {
		if errs[i] != nil {
			silent[members[i].Name] = errortext.Steady(errs[i])
		}
		if report != nil && report.Own && !report.Listed.IsZero() {
			kept[members[i].Name] = verifiedSlots(report)
		}
		if report != nil && report.Volume != nil {
			volumes[members[i].Name] = *report.Volume
		}
		if report != nil && report.Unread != nil {
			unread[members[i].Name] = *report.Unread
		}
	}
	reports = slices.DeleteFunc(reports, func(r *backup.Report) bool { return r == nil })
	ids := make([]string, len(reports))
	for i, report := range reports {
		ids[i] = report.KeysID
	}
	if len(reports) == 0 {
		return Answer{}, fmt.Errorf("no member tells of its snapshots: look at the container %s of their pods: %w", backup.Container, errors.Join(errs...))
	}
	return Answer{
		Report: merged(reports), Volumes: volumes, Unread: unread, Kept: kept, KeysIDs: ids, Silent: silent,
		NotTaken: map[time.Time]string{}, NotDeleted: map[time.Time]string{},
	}, nil
}

// whoIsSilent names the members that did not answer, and says why, and what to do; empty when all answered.
func (a Answer) whoIsSilent() string {
	if len(a.Silent) == 0 {
		return ""
	}
	var each []string
	for _, name := range slices.Sorted(maps.Keys(a.Silent)) {
		each = append(each, a.Silent[name])
	}
	return errortext.SteadyText(fmt.Sprintf("members do not answer: look at the container %s of their pods: %s", backup.Container, strings.Join(each, "; ")))
}

// verifiedSlots are the slots of the verified snapshots of a report.
func verifiedSlots(report *backup.Report) []time.Time {
	slots := []time.Time{}
	for _, s := range report.Snapshots {
		if s.Reason == "" && !s.Verified.IsZero() {
			slots = append(slots, s.Slot.UTC())
		}
	}
	return slots
}

// merged is what several members say: the list that was read last, or all lists where each member has another store, and the work of the
// one on duty.
func merged(reports []*backup.Report) *backup.Report {
	newest := *slices.MaxFunc(reports, func(a, b *backup.Report) int { return a.Listed.Compare(b.Listed) })
	for _, r := range reports {
		if r.OnDuty {
			newest.Member, newest.OnDuty, newest.Working, newest.Problem = r.Member, true, r.Working, r.Problem
		}
	}
	if slices.ContainsFunc(reports, func(r *backup.Report) bool { return r.Own }) {
		newest.Snapshots = union(reports)
		for _, r := range reports {
			newest.More = max(newest.More, r.More)
			if newest.Problem == nil {
				newest.Problem = r.Problem
			}
		}
	}
	return &newest
}

// union are the snapshots of all lists, the newest first, each once. Of two of one slot it takes one that is verified, before one that
// is refused on the volume of another member.
func union(reports []*backup.Report) []backup.Snapshot {
	good := func(s backup.Snapshot) bool { return s.Reason == "" && !s.Verified.IsZero() }
	bySlot := map[time.Time]backup.Snapshot{}
	for _, r := range reports {
		for _, s := range r.Snapshots {
			if there, known := bySlot[s.Slot.UTC()]; !known || !good(there) && good(s) {
				bySlot[s.Slot.UTC()] = s
			}
		}
	}
	return slices.SortedFunc(maps.Values(bySlot), func(a, b backup.Snapshot) int { return b.Slot.Compare(a.Slot) })
}

// onDutyFirst are members in the order in which a snapshot is asked for: the one on duty tells why it fails. A silent member is not asked:
// the wait for it would leave no time for the others.
func onDutyFirst(members []Member, answer Answer) []Member {
	able := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return answer.Silent[m.Name] != "" })
	i := slices.IndexFunc(able, func(m Member) bool { return m.Name == answer.Member })
	if i < 0 {
		return able
	}
	first := able[i]
	return slices.Insert(slices.Delete(able, i, i+1), 0, first)
}

// Bounds of what a member may say.
const (
	maxName    = 253
	maxMessage = 1000
	maxYear    = 9999
)

// bound cuts a report to what a member may say: its host node may be somebody else's.
func bound(r *backup.Report) {
	cut := func(text *string, most int) {
		if len(*text) > most {
			*text = strings.ToValidUTF8((*text)[:most], "")
		}
	}
	r.Snapshots = slices.DeleteFunc(r.Snapshots, func(s backup.Snapshot) bool {
		return s.Slot.IsZero() || s.Slot.Year() > maxYear || !s.Slot.Equal(s.Slot.Truncate(time.Second))
	})
	if len(r.Snapshots) > backup.MaxSnapshots {
		r.Snapshots, r.More = r.Snapshots[:backup.MaxSnapshots], r.More+len(r.Snapshots)-backup.MaxSnapshots
	}
	for i := range r.Snapshots {
		s := &r.Snapshots[i]
		for _, name := range []*string{&s.Reason, &s.TenantUID, &s.Member, &s.EncryptionKeyID, &s.EtcdVersion, &s.StorageVersion, &s.SHA256} {
			cut(name, 64)
		}
		s.Message = errortext.Short(s.Message, maxMessage)
	}
	cut(&r.Member, maxName)
	cut(&r.KeysID, 64)
	for _, p := range []*backup.Problem{r.Problem, r.Unread} {
		if p != nil {
			cut(&p.Field, maxName)
			cut(&p.Reason, maxName)
			p.Message = errortext.Short(p.Message, maxMessage)
		}
	}
}

// request has members take the wanted snapshots that are missing, and delete unwanted ones. It notes in the answer who refuses, and why. The
// text tells people what is under way and what fails; it is empty when there is nothing to tell.
func (a Answer) request(ctx context.Context, members []Member, config *tls.Config, wanted, unwanted []time.Time, now time.Time) string {
	members = onDutyFirst(members, a)
	open, going := missingSlots(wanted, a.Report), mayGo(unwanted, a.Report, now)
	each := func(slots []time.Time, do func(context.Context, []Member, *tls.Config, time.Time) error, refused map[time.Time]string) (failed []string) {
		for _, slot := range slots {
			if a.Working.Equal(slot) {
				continue
			}
			if err := do(ctx, members, config, slot); err != nil {
				refused[slot] = errortext.Steady(err)
				failed = append(failed, refused[slot])
			}
		}
		return failed
	}
	deletes := deleteSnapshot
	if a.Own {
		deletes = deleteFromAll
	}
	lines := append(each(open, takeSnapshot, a.NotTaken), each(going, deletes, a.NotDeleted)...)
	if len(open)+len(going) > 0 {
		lines = slices.Insert(lines, 0, fmt.Sprintf("%d snapshots are being taken, %d deleted", len(open), len(going)))
	}
	if silent := a.whoIsSilent(); silent != "" {
		lines = append(lines, silent)
	}
	return strings.Join(lines, "\n")
}

// takeSnapshot asks one member after the other to take a snapshot of a slot, until one answers that it does.
func takeSnapshot(ctx context.Context, members []Member, config *tls.Config, slot time.Time) error {
	if err := askOne(ctx, members, config, backup.TakePath, backup.TakeRequest{Slot: slot}); err != nil {
		return fmt.Errorf("no member takes a snapshot: %w", err)
	}
	return nil
}

// deleteSnapshot asks one member after the other to delete the snapshot of a slot, until one answers that it does.
func deleteSnapshot(ctx context.Context, members []Member, config *tls.Config, slot time.Time) error {
	if err := askOne(ctx, members, config, backup.DeletePath, backup.DeleteRequest{Slot: slot}); err != nil {
		return fmt.Errorf("no member deletes a snapshot: %w", err)
	}
	return nil
}

// deleteFromAll asks every member to delete the snapshot of a slot from its volume.
func deleteFromAll(ctx context.Context, members []Member, config *tls.Config, slot time.Time) error {
	var errs []error
	for i := range members {
		errs = append(errs, askOne(ctx, members[i:i+1], config, backup.DeletePath, backup.DeleteRequest{Slot: slot}))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("not every member deletes it: %w", err)
	}
	return nil
}

// askOne asks one member after the other until one does what it is asked for.
func askOne(ctx context.Context, members []Member, config *tls.Config, path string, asked any) error {
	body, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range members {
		err := m.request(ctx, config, http.MethodPost, path, body, nil)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (m Member) request(ctx context.Context, config *tls.Config, method, path string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	config = config.Clone()
	config.ServerName = m.Name
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10}
	if m.Dial != nil {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return m.Dial(ctx) }
	}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	to := url.URL{Scheme: "https", Host: m.Address, Path: path}
	request, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the agent of %s: %w", m.Name, err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the agent of %s: %w", m.Name, err)
	}
	defer answer.Body.Close() //nolint:errcheck // It was only read.
	if answer.StatusCode == http.StatusNotFound {
		return fmt.Errorf("ask the agent of %s: it is of an earlier release, which cannot do that: set spec.rollout.after to the present time", m.Name)
	}
	if answer.StatusCode/100 != 2 {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, maxMessage))
		return fmt.Errorf("ask the agent of %s: it answers %s: %s", m.Name, answer.Status, strings.ToValidUTF8(strings.TrimSpace(string(said)), ""))
	}
	if into == nil {
		return nil
	}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, backup.MaxAnswer+1))
	if err != nil {
		return fmt.Errorf("read the answer of the agent of %s: %w", m.Name, err)
	}
	if len(raw) > backup.MaxAnswer {
		return fmt.Errorf("the answer of the agent of %s has more than %d bytes", m.Name, backup.MaxAnswer)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read the answer of the agent of %s: %w", m.Name, err)
	}
	return nil
}
