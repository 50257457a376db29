// Package backup is what the manager and kok-etcd-agent tell each other of snapshots: the files that the manager writes for a
// member, and what the member's agent answers. It knows nothing of etcd's own packages, so that the manager does not grow
// by them.
//
// The files are those of one Secret, which all members mount. They change without a restart: the agent reads them again.
package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Container is the name of the container that takes snapshots, beside etcd. SalvageContainer is that of the one that founds a
// cluster from the data of a survivor, before etcd starts.
const (
	Container        = "backup"
	SalvageContainer = "salvage"
)

// Folders in the pod of a member.
const (
	// ConfigDirectory has the files of the manager's Secret.
	ConfigDirectory = "/etc/kok-backup"
	// StoreDirectory is where the volume with snapshots is mounted.
	StoreDirectory = "/var/lib/kok-snapshots"
	// ScratchDirectory has room for a trial.
	ScratchDirectory = "/var/lib/kok-trial"
	// ProgramDirectory is where prepare leaves this program for the container Container, which runs in etcd's image.
	ProgramDirectory = "/opt/kok"
)

// Files in ConfigDirectory.
const (
	// ConfigFile has a Config.
	ConfigFile = "backup.json"
	// SeedFile has a Seed. It is there until the manager has seen the member with its data.
	SeedFile = "seed.json"
	// FormerFile has a Former. It is there from the first restore in place on.
	FormerFile = "former.json"
	// KeyFile has the key that signs manifests, IdentityFile the tenant's secret key of age.
	KeyFile      = "hmac-key"
	IdentityFile = "identity"
	// Of an S3 store: credentials, by the names that their Secret has, and what vouches for the server.
	AccessKeyIDFile     = "accessKeyID"
	SecretAccessKeyFile = "secretAccessKey"
	SessionTokenFile    = "sessionToken"
	S3CAFile            = "s3-ca.crt"
	// KeysFile has the tenant's key material, encrypted for the recipients that people gave. The agent stores it beside
	// the snapshots, and cannot read it.
	KeysFile = "keys.age"
)

// S3Files are the files of an S3 store.
var S3Files = []string{AccessKeyIDFile, SecretAccessKeyFile, SessionTokenFile, S3CAFile}

// Cluster is the tenant that snapshots are of.
type Cluster struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID is that of the tenant's namespace kube-system; empty until it is known.
	UID string `json:"uid,omitempty"`
}

// Store is where snapshots are: a bucket, or, without S3, the folder StoreDirectory.
type Store struct {
	S3 *S3 `json:"s3,omitempty"`
	// PerMember is true where the folder is on a volume of the member's own: members copy snapshots from each other.
	PerMember bool `json:"perMember,omitempty"`
}

// S3 is a bucket of an S3 server. Its credentials and its CA are files.
type S3 struct {
	Endpoint string `json:"endpoint"`
	Bucket   string `json:"bucket"`
	Prefix   string `json:"prefix"`
	Region   string `json:"region,omitempty"`
}

// Keep is how many verified snapshots stay; see EtcdSnapshotRetention.
type Keep struct {
	Last   int `json:"last"`
	Daily  int `json:"daily"`
	Weekly int `json:"weekly"`
}

// Config is how a tenant is backed up.
type Config struct {
	Cluster Cluster       `json:"cluster"`
	Every   time.Duration `json:"every"`
	Keep    Keep          `json:"keep"`
	// Recipients are public keys of age: those of people, and the tenant's own.
	Recipients []string `json:"recipients"`
	// EncryptionKeyID names the key by which the tenant's API servers encrypt what they store.
	EncryptionKeyID string `json:"encryptionKeyID,omitempty"`
	// KeysID names what is in KeysFile: it differs for other keys, and for other recipients.
	KeysID string `json:"keysID,omitempty"`
	Store  Store  `json:"store"`
}

// Former are clusters whose data must not be started again.
type Former struct {
	// ClusterIDs are those of etcd, as 16 hexadecimal digits.
	ClusterIDs []string `json:"clusterIDs"`
}

// Seed is what a member begins with, as the only member of a new cluster: a snapshot, or what its own data of a former cluster
// have.
type Seed struct {
	// Restore names the restore in place that the seed is of, and is the token of the new cluster. It is empty for a new control
	// plane.
	Restore string `json:"restore,omitempty"`
	// Survivor has the member begin with its own data, in place of a snapshot.
	Survivor bool `json:"survivor,omitempty"`
	// Slot names the snapshot in Store.
	Slot  time.Time `json:"slot,omitzero"`
	Store Store     `json:"store"`
	// Member is the member that this is for, and PeerURL what others dial it at. All others take no notice.
	Member  string `json:"member"`
	PeerURL string `json:"peerURL"`
	// TenantUID and EtcdVersion are what the snapshot has to fit; empty ones are not compared.
	TenantUID   string `json:"tenantUID,omitempty"`
	EtcdVersion string `json:"etcdVersion,omitempty"`
}

// mostWrites is more than any etcd takes within a second.
const mostWrites = 1_000_000

// HighestRevision is above all revisions that an etcd of the tenant had before the restore in place that the seed is of, because
// each of them rose by less than mostWrites within a second since 1970. What a snapshot knows is not enough: it is older than the
// last restore, or is restored a second time. It is 0 for a new control plane, which has no clients that know a revision.
func (s Seed) HighestRevision() int64 {
	requested, err := time.Parse(time.RFC3339, s.Restore)
	if err != nil { // It is empty: DecodeSeed refuses all else.
		return 0
	}
	return max(0, requested.Unix()) * mostWrites
}

// Encode writes a file.
func Encode(file any) ([]byte, error) { return json.Marshal(file) }

// DecodeConfig reads ConfigFile.
func DecodeConfig(file []byte) (Config, error) {
	var c Config
	if err := json.Unmarshal(file, &c); err != nil {
		return Config{}, fmt.Errorf("read %s: %w", ConfigFile, err)
	}
	if c.Every < time.Minute || c.Keep.Last < 1 || len(c.Recipients) == 0 {
		return Config{}, fmt.Errorf("read %s: every, keep.last and recipients are needed", ConfigFile)
	}
	return c, nil
}

// DecodeSeed reads SeedFile.
func DecodeSeed(file []byte) (Seed, error) {
	var s Seed
	if err := json.Unmarshal(file, &s); err != nil {
		return Seed{}, fmt.Errorf("read %s: %w", SeedFile, err)
	}
	switch {
	case s.Member == "" || s.PeerURL == "":
		return Seed{}, errors.New("read " + SeedFile + ": member and peerURL are needed")
	case s.Slot.IsZero() != s.Survivor:
		return Seed{}, errors.New("read " + SeedFile + ": either slot or survivor is needed")
	case s.Survivor && s.Restore == "":
		return Seed{}, errors.New("read " + SeedFile + ": survivor needs restore")
	}
	if _, err := time.Parse(time.RFC3339, s.Restore); s.Restore != "" && err != nil {
		return Seed{}, fmt.Errorf("read %s: restore is no time: %w", SeedFile, err)
	}
	return s, nil
}

// DecodeFormer reads FormerFile.
func DecodeFormer(file []byte) (Former, error) {
	var f Former
	if err := json.Unmarshal(file, &f); err != nil {
		return Former{}, fmt.Errorf("read %s: %w", FormerFile, err)
	}
	return f, nil
}
