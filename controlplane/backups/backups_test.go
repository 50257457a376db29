package backups

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
)

var (
	five = time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	six  = five.Add(time.Hour)
	blue = &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue"}}
)

// perMember is a control plane whose members keep snapshots on volumes of their own.
func perMember() *controlplanev1.KOKControlPlane {
	own := blue.DeepCopy()
	own.Spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{Store: controlplanev1.EtcdSnapshotStore{PerMember: &controlplanev1.PerMemberStoreSpec{}}}
	return own
}

func spec() *controlplanev1.EtcdBackupSpec {
	return &controlplanev1.EtcdBackupSpec{
		Recipients: []string{"age1person"},
		Store:      controlplanev1.EtcdSnapshotStore{S3: &controlplanev1.S3StoreSpec{Endpoint: "https://s3", Bucket: "tenants"}},
	}
}

func stored(slot time.Time, edits ...func(*backup.Snapshot)) backup.Snapshot {
	s := backup.Snapshot{Slot: slot, Taken: slot.Add(time.Second), Verified: slot.Add(time.Minute), Revision: 7, TenantUID: "1-2", SHA256: strings.Repeat("a", 64), EtcdVersion: "3.6.8"}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func unverified(s *backup.Snapshot) { s.Verified = time.Time{} }

func refused(s *backup.Snapshot) {
	*s = backup.Snapshot{Slot: s.Slot, Reason: string(archive.Tampered), Message: "bytes changed"}
}

func TestMembersAreTold(t *testing.T) {
	of := tenantFacts{Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, UID: "1-2", Recipient: "age1tenant", EncryptionKeyID: "ab", KeysID: "cd"}
	got := configFor(spec(), of)
	if got.Every != time.Hour || got.Keep != (backup.Keep{Last: 24, Daily: 7, Weekly: 4}) || !slices.Equal(got.Recipients, []string{"age1tenant", "age1person"}) || got.Store.S3.Prefix != "team/blue" || got.Cluster.UID != "1-2" {
		t.Errorf("without a wish it is %+v", got)
	}
	wished := spec()
	wished.Every, wished.Keep.Last, wished.Store.S3.Prefix = &metav1.Duration{Duration: 5 * time.Minute}, ptr.To[int32](2), "mine"
	if got := configFor(wished, of); got.Every != 5*time.Minute || got.Keep.Last != 2 || got.Store.S3.Prefix != "mine" || maxAge(wished) != 15*time.Minute {
		t.Errorf("with wishes it is %+v", got)
	}
	file, err := backup.Encode(got)
	if read, decodeErr := backup.DecodeConfig(file); err != nil || decodeErr != nil || read.Every != got.Every {
		t.Errorf("a member reads %+v: %v, %v", read, err, decodeErr)
	}
}

func TestVerdict(t *testing.T) {
	unreachable := &backup.Problem{Slot: six, Field: "store.s3.bucket", Message: "there is no bucket", Since: six}
	for name, test := range map[string]struct {
		seen   Seen
		after  time.Duration
		status metav1.ConditionStatus
		reason string
		says   []string
	}{
		"nobody was asked":        {status: metav1.ConditionUnknown, reason: conditionsv1.HealthUnknownReason, says: []string{"yet"}},
		"nobody answers":          {seen: Seen{Err: "refused"}, status: metav1.ConditionUnknown, reason: conditionsv1.HealthUnknownReason, says: []string{"refused"}},
		"a Secret is missing":     {seen: Seen{Problem: "spec.etcd.backup.store.s3.credentialsRef names …"}, status: metav1.ConditionFalse, reason: conditionsv1.StoreUnreachableReason, says: []string{"credentialsRef", "no snapshot is verified yet"}},
		"nobody listed it":        {seen: Seen{Report: &backup.Report{}}, status: metav1.ConditionUnknown, reason: conditionsv1.HealthUnknownReason},
		"nobody answers any more": {seen: Seen{Report: &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(five)}}, Err: "refused"}, after: 4 * time.Hour, status: metav1.ConditionUnknown, reason: conditionsv1.HealthUnknownReason, says: []string{"refused", "20260304T050000Z"}},
		"there is none":           {seen: Seen{Report: &backup.Report{Listed: six}}, status: metav1.ConditionFalse, reason: conditionsv1.BackupTooOldReason, says: []string{"no snapshot is verified yet"}},
		"one is not verified":     {seen: Seen{Report: &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(five, unverified)}}}, status: metav1.ConditionFalse, reason: conditionsv1.BackupTooOldReason},
		"one is refused":          {seen: Seen{Report: &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(five, refused)}}}, status: metav1.ConditionFalse, reason: conditionsv1.BackupTooOldReason},
		"one is verified":         {seen: Seen{Report: &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(five)}}}, status: metav1.ConditionTrue, reason: conditionsv1.BackedUpReason, says: []string{"20260304T050000Z"}},
		"the next one failed":     {seen: Seen{Report: &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(five)}, Problem: unreachable}}, status: metav1.ConditionTrue, reason: conditionsv1.BackedUpReason, says: []string{"20260304T050000Z", "store.s3.bucket: there is no bucket"}},
		"it is too old":           {seen: Seen{Report: &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(five)}}}, after: 4 * time.Hour, status: metav1.ConditionFalse, reason: conditionsv1.BackupTooOldReason, says: []string{"20260304T050000Z", "maxAge, 3h0m0s"}},
		"one is in the future":    {seen: Seen{Report: &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(six.Add(48 * time.Hour))}}}, status: metav1.ConditionFalse, reason: conditionsv1.BackupTooOldReason, says: []string{"no snapshot is verified yet", "20260306T060000Z is in the future"}},
		"and an older one is not": {seen: Seen{Report: &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(six.Add(48 * time.Hour)), stored(five)}}}, status: metav1.ConditionTrue, reason: conditionsv1.BackedUpReason, says: []string{"20260304T050000Z is verified", "20260306T060000Z is in the future"}},
		"and who is silent":       {seen: Seen{Report: &backup.Report{Listed: six}, Silent: "members do not answer: b"}, status: metav1.ConditionFalse, reason: conditionsv1.BackupTooOldReason, says: []string{"no snapshot is verified yet", "members do not answer: b"}},
		"it is too old, and why":  {seen: Seen{Report: &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(five)}, Problem: unreachable}}, after: 4 * time.Hour, status: metav1.ConditionFalse, reason: conditionsv1.StoreUnreachableReason, says: []string{"no bucket", "20260304T050000Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Verdict(spec(), test.seen, five.Add(time.Minute+test.after))
			if got.Type != conditionsv1.EtcdBackedUpCondition || got.Status != test.status || got.Reason != test.reason {
				t.Errorf("got %+v", got)
			}
			for _, text := range test.says {
				if !strings.Contains(got.Message, text) {
					t.Errorf("%q lacks %q", got.Message, text)
				}
			}
		})
	}
}

func TestStatusHasTheNewestVerifiedSnapshot(t *testing.T) {
	former := &controlplanev1.NewestSnapshotStatus{TakenAt: metav1.NewTime(five.Add(-time.Hour))}
	sized := func(s *backup.Snapshot) { s.StoredBytes = 42 }
	for name, test := range map[string]struct {
		report *backup.Report
		want   time.Time
		bytes  int64
	}{
		"nobody has told":              {want: former.TakenAt.Time},
		"the store was not read yet":   {report: &backup.Report{}, want: former.TakenAt.Time},
		"there is none":                {report: &backup.Report{Listed: six}},
		"one is not verified":          {report: &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(five, unverified)}}},
		"a newer one is in the future": {report: &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(six.Add(2 * time.Hour)), stored(five, sized)}}, want: five.Add(time.Second), bytes: 42},
		"a newer one is not verified":  {report: &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(six, unverified), stored(five, sized)}}, want: five.Add(time.Second), bytes: 42},
	} {
		t.Run(name, func(t *testing.T) {
			got := NewestStatus(Seen{Report: test.report}, former, six)
			if (got == nil) != test.want.IsZero() || got != nil && (!got.TakenAt.Time.Equal(test.want) || ptr.Deref(got.StoredBytes, 0) != test.bytes) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// object is one of a snapshot; without a slot it is one that somebody wants.
func object(slot string, edits ...func(*controlplanev1.KOKEtcdSnapshot)) controlplanev1.KOKEtcdSnapshot {
	o := controlplanev1.KOKEtcdSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a", CreationTimestamp: metav1.NewTime(six)}}
	o.Spec.ControlPlaneName, o.Spec.Slot = "blue", slot
	for _, edit := range edits {
		edit(&o)
	}
	return o
}

func TestObjectsSayWhatTheStoreHas(t *testing.T) {
	report := func(snapshots ...backup.Snapshot) *backup.Report {
		return &backup.Report{Listed: six, Snapshots: snapshots}
	}
	failed := report()
	failed.Problem = &backup.Problem{Slot: six, Field: "store.s3.bucket", Message: "there is no bucket"}
	partial := report()
	partial.More = 1
	came := object("")
	describe(&came, ptr.To(stored(six)))
	for name, test := range map[string]struct {
		objects                []controlplanev1.KOKEtcdSnapshot
		report                 *backup.Report
		create, update, delete int
		// stored and verified are the reasons of the updated one.
		stored, verified string
	}{
		"nobody answers":                   {objects: []controlplanev1.KOKEtcdSnapshot{object("20260304T050000Z")}},
		"the store was not listed yet":     {objects: []controlplanev1.KOKEtcdSnapshot{object("20260304T050000Z")}, report: &backup.Report{}},
		"one has no object":                {report: report(stored(five)), create: 1},
		"one has an object":                {objects: []controlplanev1.KOKEtcdSnapshot{object("20260304T050000Z")}, report: report(stored(five)), update: 1, stored: "Stored", verified: "Verified"},
		"one is not verified":              {objects: []controlplanev1.KOKEtcdSnapshot{object("20260304T050000Z")}, report: report(stored(five, unverified)), update: 1, stored: "Stored"},
		"one is refused":                   {objects: []controlplanev1.KOKEtcdSnapshot{object("20260304T050000Z")}, report: report(stored(five, refused)), update: 1, stored: "Tampered", verified: "Tampered"},
		"one is gone":                      {objects: []controlplanev1.KOKEtcdSnapshot{object("20260304T050000Z")}, report: report(), delete: 1},
		"the list has the newest alone":    {objects: []controlplanev1.KOKEtcdSnapshot{object("20260304T050000Z")}, report: partial, delete: 1},
		"one that somebody wanted is gone": {objects: []controlplanev1.KOKEtcdSnapshot{came}, report: report(), update: 1, stored: "Gone", verified: "Gone"},
		"nobody could take it for a day": {objects: []controlplanev1.KOKEtcdSnapshot{object("", func(o *controlplanev1.KOKEtcdSnapshot) {
			o.CreationTimestamp = metav1.NewTime(six.Add(-24 * time.Hour))
		})}, report: report(), update: 1, stored: "NotStored"},
		"somebody wants one":               {objects: []controlplanev1.KOKEtcdSnapshot{object("")}, report: report(), update: 1, stored: "Taking"},
		"the one that is wanted came":      {objects: []controlplanev1.KOKEtcdSnapshot{object("")}, report: report(stored(six)), update: 1, stored: "Stored", verified: "Verified"},
		"the one that is wanted cannot be": {objects: []controlplanev1.KOKEtcdSnapshot{object("")}, report: failed, update: 1, stored: "NotStored"},
		"it is another control plane's": {objects: []controlplanev1.KOKEtcdSnapshot{object("20260304T050000Z", func(o *controlplanev1.KOKEtcdSnapshot) { o.Spec.ControlPlaneName = "red" })},
			report: report()},
	} {
		t.Run(name, func(t *testing.T) {
			got := reconciled(blue, test.objects, Answer{Report: test.report}, keepers{}, six)
			if len(got.Create) != test.create || len(got.Update) != test.update || len(got.Delete) != test.delete {
				t.Fatalf("got %+v", got)
			}
			for _, o := range got.Create {
				if o.Name != "blue-20260304t050000z" || o.Spec.Slot != "20260304T050000Z" || o.Spec.ControlPlaneName != "blue" {
					t.Errorf("it creates %+v", o)
				}
			}
			for _, o := range got.Update {
				if got := conditions.GetReason(o, conditionsv1.SnapshotStoredCondition); got != test.stored {
					t.Errorf("Stored has the reason %q", got)
				}
				if got := conditions.GetReason(o, conditionsv1.SnapshotVerifiedCondition); got != test.verified {
					t.Errorf("Verified has the reason %q", got)
				}
				// Nothing is written twice.
				if again := reconciled(blue, []controlplanev1.KOKEtcdSnapshot{*o}, Answer{Report: test.report}, keepers{}, six); len(again.Update)+len(again.Create) > 0 {
					t.Errorf("it is written again: %+v", again)
				}
			}
		})
	}
}

// agentThat is a member whose agent reports that it listed an empty store, and answers requests for snapshots with a status and a text.
func agentThat(t *testing.T, status int, says string) (Member, *tls.Config) {
	t.Helper()
	agent := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != backup.ReportPath {
			http.Error(w, says, status)
			return
		}
		if err := json.NewEncoder(w).Encode(backup.Report{Listed: six}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(agent.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(agent.Certificate())
	return Member{Name: agent.Certificate().DNSNames[0], Address: agent.Listener.Addr().String()}, &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
}

func TestPeopleReadWhoTakesNoSnapshotAndWhy(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		says   string
		reason string
		want   string
	}{
		"it refuses":   {http.StatusTooManyRequests, "too many snapshots are asked for", conditionsv1.SnapshotNotStoredReason, "it answers 429 Too Many Requests: too many snapshots are asked for"},
		"it is broken": {http.StatusInternalServerError, "oh", conditionsv1.SnapshotNotStoredReason, "it answers 500 Internal Server Error: oh"},
		"it is old":    {http.StatusNotFound, "", conditionsv1.SnapshotNotStoredReason, "it is of an earlier release"},
		"it does":      {http.StatusAccepted, "", conditionsv1.SnapshotTakingReason, "it is being taken"},
	} {
		t.Run(name, func(t *testing.T) {
			member, config := agentThat(t, test.status, test.says)
			members := []Member{{Name: "away", Address: "127.0.0.1:1"}, member}
			objects := []controlplanev1.KOKEtcdSnapshot{object("")}
			answer, err := askAll(t.Context(), members, config)
			if err != nil {
				t.Fatal(err)
			}
			problem := answer.request(t.Context(), members, config, wantedSlots(objects, six), nil, six)
			got := reconciled(blue, objects, answer, keepers{}, six)
			if len(got.Update) != 1 || conditions.GetReason(got.Update[0], conditionsv1.SnapshotStoredCondition) != test.reason {
				t.Fatalf("got %+v", got)
			}
			message := conditions.GetMessage(got.Update[0], conditionsv1.SnapshotStoredCondition)
			for _, says := range []string{test.want, "ask the agent of away: ", "look at the container backup"} {
				if !strings.Contains(message, says) {
					t.Errorf("%q lacks %q", message, says)
				}
			}
			// A reconcile wakes when the answer changes.
			if !strings.Contains(problem, "ask the agent of away: ") || test.says != "" && !strings.Contains(problem, test.says) {
				t.Errorf("the probe says %q", problem)
			}
		})
	}
}

func TestASnapshotThatDoesNotComeSaysWhy(t *testing.T) {
	problem := func(slot time.Time) *backup.Report {
		return &backup.Report{Problem: &backup.Problem{Slot: slot, Message: "no member of etcd is healthy"}}
	}
	storedOnly := object("", func(o *controlplanev1.KOKEtcdSnapshot) { describe(o, ptr.To(stored(six, unverified))) })
	for name, test := range map[string]struct {
		object controlplanev1.KOKEtcdSnapshot
		answer Answer
		reason string
		says   string
	}{
		"nobody was asked yet":                       {object: object("")},
		"nobody answers, and none did before":        {object: object(""), answer: Answer{Err: "no member tells"}, reason: "Taking", says: "it is being taken\nno member tells"},
		"nobody answers any more":                    {object: object(""), answer: Answer{Report: &backup.Report{Listed: six}, Err: "no member tells"}, reason: "Taking", says: "it is being taken\nno member tells"},
		"nobody has listed the store":                {object: object(""), answer: Answer{Report: problem(time.Time{})}, reason: "Taking", says: "it is being taken\nno member of etcd is healthy"},
		"nobody lists it, and it failed":             {object: object(""), answer: Answer{Report: problem(six)}, reason: "NotStored", says: "no member of etcd is healthy"},
		"nobody lists it, and another one failed":    {object: object(""), answer: Answer{Report: problem(five)}, reason: "Taking", says: "it is being taken"},
		"one that came stays":                        {object: storedOnly, answer: Answer{Err: "no member tells"}},
		"one of the store is not asked for":          {object: object("20260304T060000Z"), answer: Answer{Err: "no member tells"}},
		"members are silent, and those left are not": {object: object(""), answer: Answer{Report: &backup.Report{Listed: six}, Silent: map[string]string{"b": "b is away", "a": "a is away"}}, reason: "Taking", says: "it is being taken\nmembers do not answer: look at the container backup of their pods: a is away; b is away"},
	} {
		t.Run(name, func(t *testing.T) {
			got := reconciled(blue, []controlplanev1.KOKEtcdSnapshot{test.object}, test.answer, keepers{}, six)
			if test.reason == "" {
				if len(got.Update) > 0 {
					t.Errorf("it says %+v", got.Update[0].Status)
				}
				return
			}
			if len(got.Update) != 1 || conditions.GetReason(got.Update[0], conditionsv1.SnapshotStoredCondition) != test.reason || conditions.GetMessage(got.Update[0], conditionsv1.SnapshotStoredCondition) != test.says {
				t.Fatalf("got %+v", got)
			}
			if again := reconciled(blue, []controlplanev1.KOKEtcdSnapshot{*got.Update[0]}, test.answer, keepers{}, six); len(again.Update) > 0 {
				t.Error("it is written twice")
			}
		})
	}
}

// The probe has less time than waits for silent members would take.
func TestSilentMembersAreNotAskedForSnapshots(t *testing.T) {
	answer := Answer{Report: &backup.Report{Member: "c"}, Silent: map[string]string{"a": "away"}}
	if able := onDutyFirst([]Member{{Name: "a"}, {Name: "b"}, {Name: "c"}}, answer); len(able) != 2 || able[0].Name != "c" || able[1].Name != "b" {
		t.Errorf("asked are %v", able)
	}
}

func TestWantedAreThoseThatNeitherCameNorWereRefused(t *testing.T) {
	came := object("")
	describe(&came, ptr.To(stored(six)))
	deleted := object("", func(o *controlplanev1.KOKEtcdSnapshot) { o.DeletionTimestamp = ptr.To(metav1.NewTime(six)) })
	source := object("", func(o *controlplanev1.KOKEtcdSnapshot) { o.Spec.Source = &controlplanev1.EtcdSnapshotSource{} })
	got := wantedSlots([]controlplanev1.KOKEtcdSnapshot{came, deleted, source, object("20260304T050000Z"), object("")}, six)
	if !slices.Equal(got, []time.Time{six}) {
		t.Errorf("got %v", got)
	}
}

func TestOrigin(t *testing.T) {
	of := client.ObjectKey{Namespace: "team", Name: "blue"}
	backed := blue.DeepCopy()
	backed.Spec.Etcd.Backup = spec()
	record := object("20260304T050000Z")
	if got, ok := OriginOf(&record, backed, of); !ok || !got.Slot.Equal(five) || Store(got.Store, got.Of).S3.Prefix != "team/blue" {
		t.Errorf("of a control plane it is %+v, %t", got, ok)
	}
	if _, ok := OriginOf(&record, blue, of); ok {
		t.Error("a control plane without backups has no store")
	}
	pending := object("")
	if _, ok := OriginOf(&pending, backed, of); ok {
		t.Error("one that is being taken is in no store")
	}
	elsewhere := object("", func(o *controlplanev1.KOKEtcdSnapshot) {
		o.Spec.Source = &controlplanev1.EtcdSnapshotSource{Store: spec().Store, Slot: "20260304T060000Z"}
	})
	if got, ok := OriginOf(&elsewhere, nil, client.ObjectKey{}); !ok || !got.Slot.Equal(six) {
		t.Errorf("of a source it is %+v, %t", got, ok)
	}
}

func TestAMemberWithoutAnAgentIsNamed(t *testing.T) {
	_, err := askAll(t.Context(), []Member{{Name: "blue-etcd-data-0", Address: "127.0.0.1:1"}}, &tls.Config{MinVersion: tls.VersionTLS12})
	if err == nil || !strings.Contains(err.Error(), "blue-etcd-data-0") || errors.Unwrap(err) == nil {
		t.Errorf("got %v", err)
	}
}

// Ask keeps what each member says of its own volume and of its way to the store, not only what the member on duty says. It leaves out a member that does not answer.
func TestMembersTellOfTheirVolumesAndTheirWayToTheStore(t *testing.T) {
	says, unread := backup.Volume{FreeBytes: 5, SurvivorBytes: 7}, backup.Problem{Field: "store.s3.bucket", Message: "there is no bucket"}
	agent := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(backup.Report{Volume: &says, Unread: &unread}); err != nil {
			t.Error(err)
		}
	}))
	defer agent.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(agent.Certificate())
	name := agent.Certificate().DNSNames[0]
	answer, err := askAll(t.Context(), []Member{{Name: name, Address: agent.Listener.Addr().String()}, {Name: "away", Address: "127.0.0.1:1"}}, &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12})
	if err != nil || answer.Report == nil || !maps.Equal(answer.Volumes, map[string]backup.Volume{name: says}) || !maps.Equal(answer.Unread, map[string]backup.Problem{name: unread}) {
		t.Errorf("they say %+v: %v", answer, err)
	}
}

func TestAReportIsBoundedAndMerged(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	r := &backup.Report{Member: long, Problem: &backup.Problem{Message: long, Field: long, Reason: long}, Unread: &backup.Problem{Message: long}}
	for i := range backup.MaxSnapshots + 10 {
		r.Snapshots = append(r.Snapshots, stored(five.Add(time.Duration(i)*time.Second), func(s *backup.Snapshot) { s.Message, s.EtcdVersion = long, long }))
	}
	r.Snapshots = append([]backup.Snapshot{stored(five.Add(time.Nanosecond)), {}, stored(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))}, r.Snapshots...)
	bound(r)
	if len(r.Snapshots) != backup.MaxSnapshots || r.More != 10 || len(r.Problem.Message) > maxMessage || len(r.Unread.Message) > maxMessage || len(r.Snapshots[0].Message) > maxMessage || len(r.Snapshots[0].EtcdVersion) > 64 || !r.Snapshots[0].Slot.Equal(five) {
		t.Errorf("it has %d snapshots and %d more, the first %+v", len(r.Snapshots), r.More, r.Snapshots[0].Slot)
	}
	working := &backup.Report{Member: "b", OnDuty: true, Working: six, Listed: five}
	got := merged([]*backup.Report{{Member: "a", Listed: six, Snapshots: []backup.Snapshot{stored(five)}}, working, {Member: "c"}})
	if got.Member != "b" || !got.OnDuty || !got.Working.Equal(six) || len(got.Snapshots) != 1 || !got.Listed.Equal(six) {
		t.Errorf("it is %+v", got)
	}
	if first := onDutyFirst([]Member{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Answer{Report: got}); first[0].Name != "b" || first[1].Name != "a" {
		t.Errorf("the order is %v", first)
	}
}

// Each member has a store of its own: together they tell what all of them have.
func TestReportsOfVolumesOfMembersAreJoined(t *testing.T) {
	refused := func(s *backup.Snapshot) { s.Reason, s.Verified = "HashDiffers", time.Time{} }
	a := &backup.Report{Member: "a", Own: true, Listed: six, Snapshots: []backup.Snapshot{stored(five, refused)}}
	b := &backup.Report{Member: "b", Own: true, OnDuty: true, Listed: five, Snapshots: []backup.Snapshot{stored(six, unverified), stored(five)}}
	got := merged([]*backup.Report{a, b})
	if len(got.Snapshots) != 2 || !got.Snapshots[0].Slot.Equal(six) || got.Snapshots[1].Reason != "" || got.Snapshots[1].Verified.IsZero() || got.Member != "b" {
		t.Errorf("they say %+v", got.Snapshots)
	}
	if slots := verifiedSlots(b); !slices.EqualFunc(slots, []time.Time{five}, time.Time.Equal) {
		t.Errorf("verified are %v", slots)
	}
}

// A snapshot is there as long as a member that had it does not answer.
func TestWhichMembersKeepASnapshot(t *testing.T) {
	members := []Member{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	kept := func(slots map[string][]time.Time) keepers {
		return keepersOf(perMember(), members, Answer{Kept: slots})
	}
	for name, test := range map[string]struct {
		by     keepers
		before []string
		want   []string
	}{
		"all have it":                  {by: kept(map[string][]time.Time{"a": {six, five}, "b": {five}, "c": {five}}), want: []string{"a", "b", "c"}},
		"one was replaced":             {by: kept(map[string][]time.Time{"a": {five}, "b": {}, "c": {five}}), before: []string{"a", "b", "c"}, want: []string{"a", "c"}},
		"one that had it is silent":    {by: kept(map[string][]time.Time{"a": {five}, "c": {five}}), before: []string{"a", "b"}, want: []string{"a", "b", "c"}},
		"one that had it is no member": {by: kept(map[string][]time.Time{"a": {five}, "b": {}, "c": {}}), before: []string{"a", "d"}, want: []string{"a"}},
		"nobody has it":                {by: kept(map[string][]time.Time{"a": {six}, "b": {}, "c": {}}), before: []string{"a"}},
		"members share a store":        {by: keepersOf(blue, members, Answer{})},
		"members share a store by now": {by: keepersOf(blue, members, Answer{}), before: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.by.of(five, test.before); !slices.Equal(got, test.want) {
				t.Errorf("they are %v", got)
			}
		})
	}
	report := Answer{Report: &backup.Report{Listed: six, Own: true, Snapshots: []backup.Snapshot{stored(six)}}}
	had := object("20260304T050000Z", func(o *controlplanev1.KOKEtcdSnapshot) { o.Status.Members = []string{"b"} })
	silent := kept(map[string][]time.Time{"a": {six}, "c": {six}})
	if got := reconciled(blue, []controlplanev1.KOKEtcdSnapshot{had}, report, silent, six); len(got.Delete) > 0 {
		t.Error("what a silent member has is taken to be gone")
	}
	if got := reconciled(blue, []controlplanev1.KOKEtcdSnapshot{had}, report, kept(map[string][]time.Time{"a": {six}, "b": {six}, "c": {six}}), six); len(got.Delete) != 1 {
		t.Error("what nobody has is taken to be there")
	}
	if got := reconciled(blue, []controlplanev1.KOKEtcdSnapshot{object("20260304T060000Z")}, report, silent, six); len(got.Update) != 1 || !slices.Equal(got.Update[0].Status.Members, []string{"a", "c"}) {
		t.Errorf("it says %+v", got.Update)
	}
}

// Whatever else there is to say, people read that their snapshots do not outlive the host nodes.
func TestPeopleReadThatSnapshotsAreBesideTheData(t *testing.T) {
	own := spec()
	own.Store = controlplanev1.EtcdSnapshotStore{PerMember: &controlplanev1.PerMemberStoreSpec{}}
	for name, seen := range map[string]Seen{
		"good": {Report: &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(six)}}}, "nothing is known": {}, "bad": {Problem: "there is no agent"},
	} {
		with, without := Verdict(own, seen, six), Verdict(spec(), seen, six)
		if with.Message != without.Message+"\n"+besideData || with.Status != without.Status || with.Reason != without.Reason {
			t.Errorf("%s: it says %q", name, with.Message)
		}
	}
}

// What keep does not count fills the volumes: people read what they may delete.
func TestAFullVolumeNamesWhatMembersCannotRead(t *testing.T) {
	own := spec()
	own.Store = controlplanev1.EtcdSnapshotStore{PerMember: &controlplanev1.PerMemberStoreSpec{}}
	const names = "KOKEtcdSnapshots a, b"
	several := func(count int) (all []string) {
		for i := range count {
			all = append(all, string(rune('a'+i)))
		}
		return all
	}
	for name, test := range map[string]struct {
		problem *backup.Problem
		unread  []string
		says    string
	}{
		"nothing is wrong":  {unread: several(2)},
		"something else is": {problem: &backup.Problem{Message: "it gives errors"}, unread: several(2)},
		"members read all":  {problem: &backup.Problem{Message: "it is full", Full: true}},
		"there are two":     {problem: &backup.Problem{Message: "it is full", Full: true}, unread: several(2), says: "it is full\nspec.etcd.backup.keep does not delete snapshots that members cannot read"},
		"there are many":    {problem: &backup.Problem{Message: "it is full", Full: true}, unread: several(12), says: ", j and 2 more"},
	} {
		got := Verdict(own, Seen{Report: &backup.Report{Listed: six, Own: true, Snapshots: []backup.Snapshot{stored(six)}, Problem: test.problem}, Unread: test.unread}, six)
		if named := strings.Contains(got.Message, names); named != (test.says != "") || !strings.Contains(got.Message, test.says) {
			t.Errorf("%s: it says %q", name, got.Message)
		}
	}
	report := &backup.Report{Own: true, Snapshots: []backup.Snapshot{stored(six), stored(five, refused)}}
	if got := unreadOn([]controlplanev1.KOKEtcdSnapshot{object("20260304T050000Z"), object("20260304T060000Z")}, report); !slices.Equal(got, []string{"a"}) {
		t.Errorf("members cannot read %v", got)
	}
	if report.Own = false; unreadOn([]controlplanev1.KOKEtcdSnapshot{object("20260304T050000Z")}, report) != nil {
		t.Error("what is in a bucket may be another tenant's")
	}
}

// Each member has another volume.
func TestEveryMemberIsAskedToDeleteFromItsVolume(t *testing.T) {
	var asked atomic.Int32
	var refuses atomic.Bool
	var members []Member
	for i := range 2 {
		agent := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1); i == 0 && refuses.Load() {
				http.Error(w, "oh", http.StatusInternalServerError)
				return
			}
			w.WriteHeader(http.StatusAccepted)
		}))
		t.Cleanup(agent.Close)
		members = append(members, Member{Name: agent.Certificate().DNSNames[0], Address: agent.Listener.Addr().String()})
	}
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // Both have the same certificate.
	deleted := func(own bool) Answer {
		answer := Answer{Report: &backup.Report{Own: own, Listed: six, Snapshots: []backup.Snapshot{stored(six), stored(five, unverified)}}, NotDeleted: map[time.Time]string{}}
		if own {
			refused(&answer.Snapshots[1])
		}
		answer.request(t.Context(), members, config, nil, []time.Time{five}, six)
		return answer
	}
	for own, want := range map[bool]int32{false: 1, true: 2} {
		answer := deleted(own)
		if got := asked.Swap(0); got != want || len(answer.NotDeleted) > 0 {
			t.Errorf("own %t: %d are asked: %v", own, got, answer.NotDeleted)
		}
	}
	refuses.Store(true)
	says, want := deleted(true).NotDeleted[five], "not every member deletes it: ask the agent of "+members[0].Name+": it answers 500 Internal Server Error: oh"
	if says != want || asked.Load() != 2 {
		t.Errorf("where one of two refuses, %d are asked, and it says %q", asked.Load(), says)
	}
}

// Whoever deletes the volume of a member asks who else keeps a verified snapshot.
func TestWhoKeepsVerifiedSnapshots(t *testing.T) {
	on := func(verified bool, members ...string) controlplanev1.KOKEtcdSnapshot {
		return object("20260304T050000Z", func(o *controlplanev1.KOKEtcdSnapshot) {
			o.Status.Members = members
			if set(o, conditionsv1.SnapshotVerifiedCondition, metav1.ConditionFalse, conditionsv1.SnapshotForeignReason, ""); verified {
				set(o, conditionsv1.SnapshotVerifiedCondition, metav1.ConditionTrue, conditionsv1.SnapshotVerifiedReason, "")
			}
		})
	}
	imported := on(true, "m-4")
	imported.Spec.Source = &controlplanev1.EtcdSnapshotSource{}
	got := verifiedOn([]controlplanev1.KOKEtcdSnapshot{on(true, "m-2", "m-1"), on(false, "m-3"), on(true, "m-1"), imported, on(true)})
	if want := []string{"m-1", "m-2"}; !slices.Equal(got, want) {
		t.Errorf("they are on %v, want %v", got, want)
	}
}
