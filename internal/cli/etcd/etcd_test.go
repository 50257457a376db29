package etcd

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func of(controlPlane, name, slot string, conditions ...metav1.Condition) controlplanev1.KOKEtcdSnapshot {
	s := controlplanev1.KOKEtcdSnapshot{}
	s.Name, s.Spec.ControlPlaneName, s.Status.Slot, s.Status.Conditions = name, controlPlane, slot, conditions
	return s
}

func condition(name string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: message}
}

// expectTable fails the test unless people see these rows so.
func expectTable(t *testing.T, rows []row, want string) {
	t.Helper()
	var out bytes.Buffer
	if err := printRows(&out, rows, now); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestSnapshotsAreShownTheNewestFirst(t *testing.T) {
	whole := of("blue", "blue-2", "20260304T110000Z", condition(storedCondition, metav1.ConditionTrue, "Stored", ""), condition(verifiedCondition, metav1.ConditionTrue, "Verified", ""))
	whole.Status.TakenAt, whole.Status.Revision, whole.Status.StoredBytes = metav1.NewTime(now.Add(-time.Hour)), 4711, 3<<20
	rows := rowsOf([]controlplanev1.KOKEtcdSnapshot{
		of("blue", "blue-1", "20260304T100000Z", condition(storedCondition, metav1.ConditionTrue, "Stored", ""),
			condition(verifiedCondition, metav1.ConditionFalse, "HashDiffers", "it is not what\x1b[31m the member had")),
		of("green", "green-1", "20260304T120000Z"),
		whole,
		of("blue", "blue-new", ""),
	}, "blue", now)
	expectTable(t, rows, `NAME       SLOT               TAKEN   VERIFIED   REVISION   SIZE     REASON
blue-new   -                  -       unknown    -          -        -
blue-2     20260304T110000Z   60m     yes        4711       3.0MiB   -
blue-1     20260304T100000Z   -       no         -          -        HashDiffers

blue-1: it is not what [31m the member had
`)
}

// A host node with a wrong clock took the one that is a day ahead. Clocks may differ by minutes.
func TestASnapshotInTheFutureIsNotShownAsTheNewest(t *testing.T) {
	verified := condition(verifiedCondition, metav1.ConditionTrue, "Verified", "")
	ahead, skewed := of("blue", "blue-ahead", "20260305T120000Z", verified), of("blue", "blue-skewed", "20260304T121000Z", verified)
	ahead.Status.TakenAt, skewed.Status.TakenAt = metav1.NewTime(now.Add(24*time.Hour)), metav1.NewTime(now.Add(10*time.Minute))
	refused := of("blue", "blue-refused", "20260306T120000Z", condition(verifiedCondition, metav1.ConditionFalse, "HashDiffers", "it differs"))
	rows := rowsOf([]controlplanev1.KOKEtcdSnapshot{
		ahead, of("blue", "blue-1", "20260304T100000Z", verified), refused, skewed, of("blue", "blue-new", ""),
	}, "blue", now)
	expectTable(t, rows, `NAME           SLOT               TAKEN    VERIFIED   REVISION   SIZE   REASON
blue-new       -                  -        unknown    -          -      -
blue-skewed    20260304T121000Z   in 10m   yes        -          -      -
blue-1         20260304T100000Z   -        yes        -          -      -
blue-refused   20260306T120000Z   -        no         -          -      HashDiffers
blue-ahead     20260305T120000Z   in 24h   yes        -          -      InFuture

blue-refused: it differs

blue-ahead: it is in the future: the clock of its host node was wrong, so its data are older than its name says; restore it if no other one will do
`)
}

func TestPeopleSeeWhichMembersKeepASnapshot(t *testing.T) {
	kept := of("blue", "blue-2", "20260304T110000Z", condition(verifiedCondition, metav1.ConditionTrue, "Verified", ""))
	kept.Status.Members = []string{"blue-etcd-0", "blue-etcd-2"}
	rows := rowsOf([]controlplanev1.KOKEtcdSnapshot{kept, of("blue", "blue-1", "20260304T100000Z")}, "blue", now)
	expectTable(t, rows, `NAME     SLOT               TAKEN   VERIFIED   REVISION   SIZE   REASON   MEMBERS
blue-2   20260304T110000Z   -       yes        -          -      -        blue-etcd-0,blue-etcd-2
blue-1   20260304T100000Z   -       unknown    -          -      -        -
`)
}

func TestSizesForPeople(t *testing.T) {
	for n, want := range map[int64]string{1: "1B", 1023: "1023B", 1024: "1.0KiB", 150 << 20: "150MiB", 5 << 40: "5.0TiB", 5 << 50: "5120TiB"} {
		if got := bytesOf(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

func TestWhatASnapshotWaitsFor(t *testing.T) {
	stored := condition(storedCondition, metav1.ConditionTrue, "Stored", "")
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		left       string
		refused    bool
	}{
		"nobody saw it yet":          {nil, "the controller and a member of etcd take it", false},
		"it is on trial":             {[]metav1.Condition{stored}, "it is stored, and restored as a trial now", false},
		"it is verified":             {[]metav1.Condition{stored, condition(verifiedCondition, metav1.ConditionTrue, "Verified", "")}, "", false},
		"the bucket is not there":    {[]metav1.Condition{condition(storedCondition, metav1.ConditionFalse, "StoreProblem", "there is no bucket b")}, "Stored: StoreProblem: there is no bucket b", false},
		"the database is damaged":    {[]metav1.Condition{stored, condition(verifiedCondition, metav1.ConditionFalse, "HashDiffers", "it differs")}, "Verified: HashDiffers: it differs", true},
		"nobody can see it":          {[]metav1.Condition{condition(storedCondition, metav1.ConditionUnknown, "AgentAway", "no answer")}, "Stored is not known: AgentAway: no answer", false},
		"what is verified was there": {[]metav1.Condition{condition(storedCondition, metav1.ConditionFalse, "Gone", "gone"), condition(verifiedCondition, metav1.ConditionTrue, "Verified", "")}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := of("blue", "blue-1", "", test.conditions...)
			if left, refused := waitsFor(&s); left != test.left || refused != test.refused {
				t.Errorf("it waits for %q, %t", left, refused)
			}
		})
	}
}

func TestFlagsThatCannotWork(t *testing.T) {
	key := client.ObjectKey{Namespace: "team", Name: "blue"}
	for says, f := range map[string]restoreFlags{
		"name a snapshot by --slot":                 {},
		"--claim needs --keys-file":                 {claim: "snapshots", slot: "20260304T050000Z"},
		"--claim needs --slot":                      {claim: "snapshots", keysFile: "keys", dryRun: true},
		`--slot "yesterday" is no name`:             {slot: "yesterday"},
		`--slot "20261304T050000Z" is no name of a`: {slot: "20261304T050000Z"},
	} {
		if err := f.check(key); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
	f := restoreFlags{latest: true}
	if err := f.check(key); err != nil || f.s3.Prefix != "team/blue" {
		t.Errorf("the prefix is %s, %v", f.s3.Prefix, err)
	}
}

func TestFilesThatHaveNoSecretKey(t *testing.T) {
	for says, content := range map[string]string{
		"has no secret key of age": "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p\n",
		"is encrypted; decrypt it": "age-encryption.org/v1\n-> scrypt",
		"has more than":            strings.Repeat("#", maxIdentities+1),
		// A line that is nearly a key is not told.
		"it is the file that age-keygen wrote": "AGE-SECRET-KEY-1HUSHHUSH\n",
	} {
		file := filepath.Join(t.TempDir(), "key.txt")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readIdentities(file)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "--identity-file: ") || strings.Contains(err.Error(), "HUSH") {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}

func TestKeysAreTriedTheNewestFirst(t *testing.T) {
	at := func(name string, minutes int) store.Object {
		return store.Object{Name: name, Modified: now.Add(time.Duration(minutes) * time.Minute)}
	}
	all := []store.Object{at("keys-aaaaaaaa.age", 1), at("keys-bbbbbbbb.age", 3), at("keys-cccccccc.age", 2), at("keys-.age", 9), at("20260304T050000Z.json", 9), at("keys-bbbbbbbb.age.old", 9)}
	if names := keysOf(all); !slices.Equal(names, []string{"keys-bbbbbbbb.age", "keys-cccccccc.age", "keys-aaaaaaaa.age"}) {
		t.Errorf("they are %v", names)
	}
	if names := keysOf(all[4:]); len(names) > 0 {
		t.Errorf("they are %v", names)
	}
}

// An error of a store names a flag, and must not look like one of the API server.
func TestErrorsOfAStoreNameFlags(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	err := flagged(fmt.Errorf("list it: %w", &store.Problem{Field: "s3.endpoint", Message: "look whether it can be reached from host nodes", Err: refused}))
	if want := "list it: --s3-endpoint: look whether it can be reached from this machine: dial: refused"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	var network net.Error
	if errors.As(err, &network) {
		t.Error("it looks like an error of a client of Kubernetes")
	}
	if err := flagged(store.ErrNotFound); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
