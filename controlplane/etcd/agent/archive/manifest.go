package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Cluster is the tenant that a snapshot is of.
type Cluster struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID is that of the tenant's namespace kube-system, which a cluster keeps for its life. It is empty for a tenant that was
	// not ready yet.
	UID string `json:"uid,omitempty"`
}

// Sum is the size and the hash of bytes.
type Sum struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Manifest is what a snapshot is of, and how it is recognized.
type Manifest struct {
	Cluster Cluster `json:"cluster"`
	// Member is the name of the member that the snapshot was taken of.
	Member string `json:"member,omitempty"`
	// Slot is the time that the snapshot is for and Taken when it was taken, both in UTC.
	Slot  time.Time `json:"slot"`
	Taken time.Time `json:"taken"`
	// EtcdVersion is that of the member. StorageVersion is the minor of etcd that the database is for, such as "3.6".
	EtcdVersion    string `json:"etcdVersion"`
	StorageVersion string `json:"storageVersion"`
	// Revision is one that the snapshot has, with all before it. It may have some after it, too: writes went on.
	Revision int64 `json:"revision"`
	// CompactRevision and HashKV are what the member said of Revision. etcd says -1 where nothing was compacted.
	CompactRevision int64  `json:"compactRevision"`
	HashKV          uint32 `json:"hashKV"`
	// EncryptionKeyID names the key by which the tenant's API servers encrypt what they store. It is empty where they do not.
	EncryptionKeyID string `json:"encryptionKeyID,omitempty"`
	// Object is the name of the object in the store. Encrypted is what is stored there, and Plain what etcd sent.
	Object    string `json:"object"`
	Encrypted Sum    `json:"encrypted"`
	Plain     Sum    `json:"plain"`
}

// Verification says that a snapshot was restored as a trial, and that it was what its member had.
type Verification struct {
	// Manifest is the SHA-256 of the file of the manifest.
	Manifest string    `json:"manifest"`
	Verified time.Time `json:"verified"`
	// EtcdVersion is that of the etcd that started from it.
	EtcdVersion string `json:"etcdVersion"`
	// Revision is the last one of the snapshot.
	Revision int64 `json:"revision"`
}

// Expected is what a manifest has to be of.
type Expected struct {
	// UID is the tenant's. An empty one is not compared.
	UID string
	// EtcdVersion is that of the etcd that shall start from the snapshot. An empty one is not compared.
	EtcdVersion string
}

// Sign gives the file of a manifest.
func (k Key) Sign(m Manifest) ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("write a manifest: %w", err)
	}
	return k.sign(useManifest, m)
}

// Read gives the manifest of a file, which has a name for messages.
func (k Key) Read(name string, file []byte) (Manifest, error) {
	var m Manifest
	if err := k.open(useManifest, name, file, &m); err != nil {
		return Manifest{}, err
	}
	if err := m.check(); err != nil {
		return Manifest{}, Refuse(Tampered, "the manifest %s makes no sense (%v): %s", name, err, takeAnother)
	}
	return m, nil
}

// SignVerification gives the file of a verification.
func (k Key) SignVerification(v Verification) ([]byte, error) { return k.sign(useVerification, v) }

// ReadVerification gives the verification of a file. It has to be of the manifest whose file is given.
func (k Key) ReadVerification(name string, file, manifest []byte) (Verification, error) {
	var v Verification
	if err := k.open(useVerification, name, file, &v); err != nil {
		return Verification{}, err
	}
	if v.Manifest != HashOf(manifest) {
		return Verification{}, Refuse(Tampered, "the verification %s is of another manifest: verify the snapshot again", name)
	}
	return v, nil
}

// HashOf is the SHA-256 of a file in hexadecimal.
func HashOf(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

// Meets refuses a manifest that is of another tenant, or for a newer etcd.
func (m Manifest) Meets(e Expected) error {
	if e.UID != "" && m.Cluster.UID != e.UID {
		return Refuse(Foreign, "snapshot %s is of the tenant %s/%s with the UID %q, and %q is expected: name a snapshot of this tenant", m.Object, m.Cluster.Namespace, m.Cluster.Name, m.Cluster.UID, e.UID)
	}
	if e.EtcdVersion == "" {
		return nil
	}
	target := e.EtcdVersion
	newer, err := NewerMinor(m.StorageVersion, target)
	if err != nil {
		return err
	}
	if newer {
		return Refuse(TooNew, "snapshot %s has storage version %s, and etcd is %s: restore it with etcd %s or newer", m.Object, m.StorageVersion, target, m.StorageVersion)
	}
	return nil
}

// The forms of the fields of a manifest: people are shown them, and some name files.
var (
	hexSum     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	minor      = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,3}$`)
	version    = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,4}[-+.0-9A-Za-z]{0,40}$`)
	name       = regexp.MustCompile(`^[-.0-9a-z]{0,253}$`)
	printable  = regexp.MustCompile(`^[-.:_/+=0-9A-Za-z]{0,253}$`)
	objectName = regexp.MustCompile(`^[0-9A-Za-z][-.0-9A-Za-z]{0,127}$`)
)

func (m Manifest) check() error {
	for field, text := range map[string]struct {
		value string
		form  *regexp.Regexp
	}{
		"cluster.namespace": {m.Cluster.Namespace, name}, "cluster.name": {m.Cluster.Name, name}, "cluster.uid": {m.Cluster.UID, printable},
		"member": {m.Member, printable}, "etcdVersion": {m.EtcdVersion, version}, "storageVersion": {m.StorageVersion, minor},
		"encryptionKeyID": {m.EncryptionKeyID, printable}, "object": {m.Object, objectName},
		"encrypted.sha256": {m.Encrypted.SHA256, hexSum}, "plain.sha256": {m.Plain.SHA256, hexSum},
	} {
		if !text.form.MatchString(text.value) {
			return fmt.Errorf("%s is not of the form %s", field, text.form)
		}
	}
	switch {
	case m.Slot.IsZero() || m.Taken.IsZero():
		return errors.New("a time is missing")
	case m.Revision < 1 || m.CompactRevision > m.Revision:
		return fmt.Errorf("revision %d and compact revision %d contradict each other", m.Revision, m.CompactRevision)
	case m.Plain.Bytes <= trailer || m.Encrypted.Bytes <= 0:
		return errors.New("a size is missing")
	}
	return nil
}

// MinorOf is the minor of a version of etcd: 3.6 of 3.6.14.
func MinorOf(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + "." + parts[1]
}

// NewerMinor reports whether a version is of a newer minor than another one.
func NewerMinor(version, than string) (bool, error) {
	a, err := numbers(version)
	if err != nil {
		return false, err
	}
	b, err := numbers(than)
	if err != nil {
		return false, err
	}
	return a[0] > b[0] || a[0] == b[0] && a[1] > b[1], nil
}

func numbers(version string) (n [2]int, err error) {
	parts := strings.Split(MinorOf(version), ".")
	if len(parts) != len(n) {
		return n, fmt.Errorf("%q is no version of etcd", version)
	}
	for i, part := range parts {
		if n[i], err = strconv.Atoi(part); err != nil {
			return n, fmt.Errorf("%q is no version of etcd", version)
		}
	}
	return n, nil
}
