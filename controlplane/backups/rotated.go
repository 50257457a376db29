package backups

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// rotated is the last rotation of keys. Its end changes the keys that are stored beside snapshots.
type rotated struct {
	// over is when it ended; zero if there was none.
	over time.Time
	// dropping is true while another rotation drops its former key: one snapshot follows both.
	dropping bool
	// keyID names the present encryption key, and keysID all present keys with those who can read them.
	keyID, keysID string
}

func rotatedOf(of *Facts) (rotated, error) {
	r := rotated{}
	if r.over, r.dropping = of.Keys.LastRotated(); r.over.IsZero() {
		return r, nil
	}
	var err error
	if _, _, r.keyID, err = of.Keys.SnapshotKeys(); err != nil {
		return r, err
	}
	bundle, err := pki.EncodeKeys(of.Keys)
	if err != nil {
		return r, err
	}
	r.keysID = pki.KeysID(bundle, of.ControlPlane.Spec.Etcd.Backup.Recipients)
	return r, nil
}

// following is what is left to do until a verified snapshot was taken since the last rotation ended.
type following struct {
	// create asks for the snapshot; nil when it was asked for, cannot be yet, or is not needed.
	create *controlplanev1.KOKEtcdSnapshot
	// missing tells people of it; empty when the snapshot is there, or nobody knows.
	missing string
}

// kubeletWrites is how long kubelet takes at the most to bring changed files of a Secret to pods, and some more.
const kubeletWrites = 3 * time.Minute

// followingOf decides on the snapshot that follows the end of a rotation. It depends on nothing that passes: the end is stored with the keys,
// the name of the object follows from it, and the store tells of its snapshots.
func followingOf(of *Facts, r rotated, objects []controlplanev1.KOKEtcdSnapshot, answer Answer, now time.Time) following {
	if r.over.IsZero() || answer.Err != "" || answer.Report == nil || answer.Listed.IsZero() {
		return following{}
	}
	object := &controlplanev1.KOKEtcdSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: of.ControlPlane.Namespace, Name: of.ControlPlane.Name + "-rotated-" + strings.ToLower(archive.SlotName(r.over))},
		Spec:       controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: of.ControlPlane.Name},
	}
	asked := slices.IndexFunc(objects, func(o controlplanev1.KOKEtcdSnapshot) bool { return o.Name == object.Name })
	isOf := func(s backup.Snapshot) bool {
		after := !s.Taken.Before(r.over) || asked >= 0 && s.Slot.Equal(slotOfObject(&objects[asked]))
		return after && s.Reason == "" && !s.Verified.IsZero() && s.EncryptionKeyID == r.keyID
	}
	if slices.ContainsFunc(answer.Snapshots, isOf) {
		return following{}
	}
	f := following{missing: fmt.Sprintf("no verified snapshot was taken since the rotation of keys ended at %s: ", r.over.UTC().Format(time.RFC3339))}
	switch {
	case asked < 0 && r.dropping:
		f.missing += "it is taken when the last former key is dropped"
		return f
	case asked < 0 && !haveKeys(answer.KeysIDs, r, now):
		f.missing += "it is taken when all members have the present keys"
		return f
	case asked < 0:
		f.create = object
	}
	f.missing += fmt.Sprintf("KOKEtcdSnapshot %s asks for it; if that fails, mend what it says, and take one with kok etcd snapshot %s --namespace %s", object.Name, of.Cluster.Name, of.Cluster.Namespace)
	return f
}

// haveKeys reports whether members store the present keys beside a snapshot. IDs are what those that answered work by. Agents of earlier
// releases do not tell.
func haveKeys(ids []string, r rotated, now time.Time) bool {
	return len(ids) > 0 && !slices.ContainsFunc(ids, func(id string) bool {
		return id != r.keysID && (id != "" || now.Sub(r.over) < kubeletWrites)
	})
}
