package backups

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
)

// says answers probes by their kind. A probe of another kind has no result yet.
type says map[string]probe.Result

func (s says) Probe(key probe.Key, _ probe.Probe) (probe.Result, bool) {
	result, asked := s[key.Kind]
	return result, asked
}

func (s says) Withdraw(key probe.Key) { delete(s, key.Kind) }

// telling is a control plane whose backup is in a bucket.
type telling struct {
	keeper *Keeper
	facts  *Facts
	answer says
}

func newTelling(t *testing.T, present ...client.Object) *telling {
	t.Helper()
	person, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	controlPlane := blue.DeepCopy()
	controlPlane.Spec.Etcd.Backup = spec()
	controlPlane.Spec.Etcd.Backup.Recipients = []string{person.Recipient().String()}
	controlPlane.Spec.Etcd.Backup.Store.S3.CredentialsRef.Name = "s3"
	cluster := fake.NewClientBuilder().WithObjects(present...).Build()
	access, clock := secrets.Access{Cached: cluster, Live: cluster, Writer: cluster}, clocktesting.NewFakePassiveClock(six)
	store := &pki.Store{Management: access, Host: access}
	keys, err := store.Ensure(t.Context(), pki.Request{
		Cluster: client.ObjectKeyFromObject(blue), UsedBy: func(context.Context) (string, error) { return "", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	answer := says{uidKind: probe.Result{Value: "1-2"}}
	return &telling{
		keeper: &Keeper{Client: cluster, Live: cluster, Prober: answer, Clock: clock},
		facts:  &Facts{ControlPlane: controlPlane, Cluster: client.ObjectKeyFromObject(blue), Keys: keys, UID: &probe.Probe{}},
		answer: answer,
	}
}

func credentials(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: "s3"}, Data: data}
}

var complete = map[string][]byte{"accessKeyID": []byte("a"), "secretAccessKey": []byte("b"), "other": []byte("c")}

func TestMembersAreToldNothingBeforeAllIsThere(t *testing.T) {
	for name, test := range map[string]struct {
		present []client.Object
		edit    func(*telling)
		problem string
		files   []string
	}{
		"no credentials": {problem: "spec.etcd.backup.store.s3.credentialsRef names the Secret s3, which is not in namespace team"},
		"a key is missing": {
			present: []client.Object{credentials(map[string][]byte{"accessKeyID": []byte("a")})}, problem: "spec.etcd.backup.store.s3.credentialsRef names the Secret s3, which has no key secretAccessKey",
		},
		"no UID yet": {
			present: []client.Object{credentials(complete)}, edit: func(tt *telling) { delete(tt.answer, uidKind) },
			problem: "the tenant has not told its UID yet", files: []string{backup.AccessKeyIDFile, backup.SecretAccessKeyFile},
		},
		"nobody to ask for the UID": {
			present: []client.Object{credentials(complete)}, edit: func(tt *telling) { tt.facts.UID = nil },
			problem: "the tenant has not told its UID yet", files: []string{backup.AccessKeyIDFile, backup.SecretAccessKeyFile},
		},
		"a recipient that is none": {
			present: []client.Object{credentials(complete)}, edit: func(tt *telling) { tt.facts.ControlPlane.Spec.Etcd.Backup.Recipients = []string{"nobody"} },
			problem: "spec.etcd.backup.recipients: ",
		},
		"all is there": {
			present: []client.Object{credentials(complete)},
			files:   []string{backup.AccessKeyIDFile, backup.SecretAccessKeyFile, backup.KeysFile, backup.ConfigFile},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt := newTelling(t, test.present...)
			if test.edit != nil {
				test.edit(tt)
			}
			told := tt.keeper.Tell(t.Context(), tt.facts, nil)
			if (told.Problem == "") != (test.problem == "") || !strings.HasPrefix(told.Problem, test.problem) {
				t.Errorf("the problem is %q", told.Problem)
			}
			slices.Sort(test.files)
			if got := slices.Sorted(maps.Keys(told.Files)); !slices.Equal(got, test.files) {
				t.Errorf("the files are %v, want %v", got, test.files)
			}
		})
	}
}

// Sealing the same keys again gives other bytes, and members read the Secret again after each change.
func TestWhatMembersWereToldStaysWhileNothingElseIsToBeTold(t *testing.T) {
	tt := newTelling(t, credentials(complete))
	first := tt.keeper.Tell(t.Context(), tt.facts, nil)
	delete(tt.answer, uidKind)
	again := tt.keeper.Tell(t.Context(), tt.facts, first.Files)
	if again.Problem != "" || !maps.EqualFunc(again.Files, first.Files, slices.Equal) {
		t.Errorf("it tells something else, and of the problem %q", again.Problem)
	}
	broken := maps.Clone(first.Files)
	broken[backup.ConfigFile] = []byte("edited")
	if asks := tt.keeper.Tell(t.Context(), tt.facts, broken); asks.Problem == "" {
		t.Error("a configuration that somebody edited is believed")
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	tt.facts.ControlPlane.Spec.Etcd.Backup.Recipients = []string{other.Recipient().String()}
	if now := tt.keeper.Tell(t.Context(), tt.facts, first.Files); slices.Equal(now.Files[backup.KeysFile], first.Files[backup.KeysFile]) {
		t.Error("keys are sealed for the former recipients")
	}
}

func TestFilesOfTheSecretOfMembers(t *testing.T) {
	before := map[string][]byte{backup.ConfigFile: []byte("old"), backup.SeedFile: []byte("former seed")}
	first := map[string][]byte{backup.SeedFile: []byte("seed"), backup.AccessKeyIDFile: []byte("the seed's")}
	told := map[string][]byte{backup.ConfigFile: []byte("new"), backup.AccessKeyIDFile: []byte("the backup's")}
	private := maps.Clone(told)
	private[backup.S3CAFile], private[backup.SessionTokenFile] = []byte("the backup's"), []byte("the backup's")
	volume := map[string][]byte{backup.SeedFile: []byte("seed")}
	for name, test := range map[string]struct {
		told   Told
		first  map[string][]byte
		before map[string][]byte
		seeded bool
		want   map[string]string
	}{
		"the seed's store gets nothing of the backup's":    {told: Told{Files: private}, first: first, before: before, want: map[string]string{backup.ConfigFile: "new", backup.AccessKeyIDFile: "the seed's", backup.SeedFile: "seed"}},
		"a seed on a volume leaves the backup's":           {told: Told{Files: told}, first: volume, want: map[string]string{backup.ConfigFile: "new", backup.AccessKeyIDFile: "the backup's", backup.SeedFile: "seed"}},
		"credentials of the seed's store count":            {told: Told{Files: told}, first: first, before: before, want: map[string]string{backup.ConfigFile: "new", backup.AccessKeyIDFile: "the seed's", backup.SeedFile: "seed"}},
		"without a backup":                                 {first: first, before: before, want: map[string]string{backup.AccessKeyIDFile: "the seed's", backup.SeedFile: "seed"}},
		"a problem keeps what they were told, but no seed": {told: Told{Problem: "no bucket"}, first: first, before: before, want: map[string]string{backup.ConfigFile: "old"}},
		"a problem, and they were told nothing":            {told: Told{Problem: "no bucket"}, first: first, want: map[string]string{backup.AccessKeyIDFile: "the seed's", backup.SeedFile: "seed"}},
		"a problem, and one begins with a snapshot":        {told: Told{Problem: "no bucket"}, first: first, before: before, seeded: true, want: map[string]string{backup.AccessKeyIDFile: "the seed's", backup.SeedFile: "seed"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.told.Beside(test.first, test.before, test.seeded)
			if !maps.EqualFunc(got, test.want, func(a []byte, b string) bool { return string(a) == b }) {
				t.Errorf("the files are %q", got)
			}
		})
	}
	if len(told) != 2 || len(private) != 4 || len(before) != 2 || len(first) != 2 {
		t.Error("it changes what it was given")
	}
}

func TestSlotsWithoutASnapshot(t *testing.T) {
	report := &backup.Report{Snapshots: []backup.Snapshot{stored(five), stored(five.Add(time.Minute), unverified), stored(five.Add(2*time.Minute), refused)}}
	wanted := []time.Time{five, five.Add(time.Minute), five.Add(2 * time.Minute), six}
	if got := missingSlots(wanted, report); !slices.Equal(got, []time.Time{five.Add(time.Minute), six}) {
		t.Errorf("they are %v", got)
	}
}

func TestObjectsOfSnapshotsAreKept(t *testing.T) {
	types := runtime.NewScheme()
	if err := controlplanev1.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	gone := object("20260304T050000Z")
	gone.UID = "1"
	others := object("20260304T050000Z", func(o *controlplanev1.KOKEtcdSnapshot) { o.Name, o.Spec.ControlPlaneName = "b", "red" })
	management := fake.NewClientBuilder().WithScheme(types).WithStatusSubresource(&gone).WithObjects(&gone, &others).Build()
	answers := says{}
	keeper := &Keeper{Client: management, Live: management, Prober: answers, Clock: clocktesting.NewFakePassiveClock(six)}
	controlPlane := blue.DeepCopy()
	controlPlane.UID = "2"
	facts := &Facts{ControlPlane: controlPlane, Cluster: client.ObjectKey{Namespace: "team", Name: "violet"}, Keys: newTelling(t).facts.Keys}
	list := func() map[string]controlplanev1.KOKEtcdSnapshot {
		found := &controlplanev1.KOKEtcdSnapshotList{}
		if err := management.List(t.Context(), found); err != nil {
			t.Fatal(err)
		}
		named := map[string]controlplanev1.KOKEtcdSnapshot{}
		for _, o := range found.Items {
			named[o.Name] = o
		}
		return named
	}

	if _, asked, err := keeper.Observe(t.Context(), facts); asked || err != nil || len(list()) != 2 {
		t.Errorf("before members were asked it says %t: %v, and keeps %v", asked, err, list())
	}
	// What no member answers says of no snapshot that it is gone.
	said := &backup.Report{Listed: six, Snapshots: []backup.Snapshot{stored(six)}}
	answers[ProbeKind] = probe.Result{Value: Answer{Report: said, Err: "away"}}
	for range 2 { // The first time makes the object, the second one its status.
		if answer, asked, err := keeper.Observe(t.Context(), facts); !asked || err != nil || answer.Err != "away" {
			t.Fatalf("it says %+v, %t: %v", answer, asked, err)
		}
	}
	if kept := list(); len(kept) != 3 {
		t.Errorf("while no member answers it keeps %+v", kept)
	}
	answers[ProbeKind] = probe.Result{Value: Answer{Report: said}}
	if _, _, err := keeper.Observe(t.Context(), facts); err != nil {
		t.Fatal(err)
	}
	kept := list()
	made := kept["blue-20260304t060000z"]
	if _, there := kept["b"]; len(kept) != 2 || !there || made.Status.Revision != 7 || made.Labels["cluster.x-k8s.io/cluster-name"] != "violet" {
		t.Errorf("it keeps %+v", kept)
	}
	if owners := made.OwnerReferences; len(owners) != 1 || owners[0].UID != "2" || !ptr.Deref(owners[0].Controller, false) {
		t.Errorf("its owners are %v", owners)
	}
	if keeper.Withdraw(controlPlane); len(answers) != 0 {
		t.Errorf("members are asked on: %v", answers)
	}
}

// The volume that has a snapshot is looked up when etcd has no quorum, and maybe no agent answers.
func TestItStaysKnownWhichVolumesHaveASnapshot(t *testing.T) {
	types := runtime.NewScheme()
	if err := controlplanev1.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	said := &backup.Report{Listed: six, Own: true, Snapshots: []backup.Snapshot{stored(six)}}
	for name, test := range map[string]struct {
		answer Answer
		want   []string
	}{
		"no agent answers":                {Answer{Report: said, Err: "connection refused"}, []string{"a", "b", "gone"}},
		"no agent answers after an hour":  {Answer{Report: &backup.Report{Listed: six, Own: true}, Err: "connection refused"}, []string{"a", "b", "gone"}},
		"no agent listed its volume yet":  {Answer{Report: said}, []string{"a", "b"}},
		"one agent listed its volume":     {Answer{Report: said, Kept: map[string][]time.Time{"a": {}}}, []string{"b"}},
		"the other one listed its volume": {Answer{Report: said, Kept: map[string][]time.Time{"b": {six}, "c": {six}}}, []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			one := object("20260304T060000Z", func(o *controlplanev1.KOKEtcdSnapshot) { o.Status.Members = []string{"a", "b", "gone"} })
			management := fake.NewClientBuilder().WithScheme(types).WithStatusSubresource(&one).WithObjects(&one).Build()
			keeper := &Keeper{Client: management, Live: management, Prober: says{ProbeKind: probe.Result{Value: test.answer}}, Clock: clocktesting.NewFakePassiveClock(six)}
			facts := &Facts{ControlPlane: perMember(), Cluster: client.ObjectKeyFromObject(blue), Keys: newTelling(t).facts.Keys, Members: []Member{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
			if _, _, err := keeper.Observe(t.Context(), facts); err != nil {
				t.Fatal(err)
			}
			if err := management.Get(t.Context(), client.ObjectKeyFromObject(&one), &one); err != nil || !slices.Equal(one.Status.Members, test.want) {
				t.Errorf("they are %v: %v", one.Status.Members, err)
			}
		})
	}
}
