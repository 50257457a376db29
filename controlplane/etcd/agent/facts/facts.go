// Package facts is what kok-etcd-agent and the manager tell each other of the data directory of an etcd member. It knows
// nothing of etcd's own packages, so that the manager does not grow by them.
package facts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// Container is the name of the init container that looks at the data directory before etcd starts.
const Container = "prepare"

// StartAnyway is the variable of that container by which a person, in a patch of the control plane, has etcd start where
// prepare would hold it.
const StartAnyway = "KOK_ETCD_START_ANYWAY"

// State is what a data directory is good for.
type State string

const (
	// Empty is a directory without the data of a member: etcd founds a cluster or joins one, as its configuration says.
	Empty State = "Empty"
	// Present is a directory from which etcd goes on.
	Present State = "Present"
	// Unreadable is a directory from which etcd must not, or cannot, go on. Reason says why.
	Unreadable State = "Unreadable"
	// NoSpace is a directory that would be Empty or Present if its file system had more room.
	NoSpace State = "NoSpace"
)

// Reason is why a directory is Unreadable.
type Reason string

const (
	// LogDamaged says that bytes of the log are not those that etcd wrote, or are missing in its middle. etcd does not start.
	LogDamaged Reason = "LogDamaged"
	// LogTooShort says that the log ends before what was already committed or applied. etcd takes the end for a write that
	// a loss of power cut off, and starts without entries that the member acknowledged. It then passes over new entries that
	// get the same indexes.
	LogTooShort Reason = "LogTooShort"
	// DatabaseDamaged says that pages or records of the database are not as they must be. etcd does not start. A changed byte
	// of a value is not among them: neither etcd nor this look finds it.
	DatabaseDamaged Reason = "DatabaseDamaged"
	// DatabaseTooOld says that the log begins after what the database has applied. etcd does not start.
	DatabaseTooOld Reason = "DatabaseTooOld"
	// LogMissing says that there is a database with data, and no log. etcd takes the directory for an empty one, and founds
	// or joins a cluster on top of the data where its configuration lets it.
	LogMissing Reason = "LogMissing"
	// DatabaseMissing says that there is a log, and no database. etcd does not start.
	DatabaseMissing Reason = "DatabaseMissing"
	// NotPermitted says that the user that etcd runs as may not read or write what it has to.
	NotPermitted Reason = "NotPermitted"
	// InUse says that another program has the database open, most probably etcd.
	InUse Reason = "InUse"
	// DiskFails says that the disk gives errors.
	DiskFails Reason = "DiskFails"
	// NotFinished says that reading took longer than it may.
	NotFinished Reason = "NotFinished"
	// Unknown says that the look itself failed.
	Unknown Reason = "Unknown"
)

// Reasons by which Facts.Seed begins, beside those of package archive.
const (
	// SeedNotVerified is the reason of a snapshot that nobody restored as a trial.
	SeedNotVerified = "NotVerified"
	// SeedNotFound is the reason of a snapshot that is not in the store.
	SeedNotFound = "NotFound"
)

// Facts are the facts of one data directory. Those that could not be read are zero.
type Facts struct {
	State  State  `json:"state"`
	Reason Reason `json:"reason,omitempty"`
	// Message says for people what is wrong, on which file, and what to do.
	Message string `json:"message,omitempty"`

	// ClusterID and MemberID are in hexadecimal, as etcd writes them.
	ClusterID string `json:"clusterID,omitempty"`
	MemberID  string `json:"memberID,omitempty"`
	// Term and Index are those of the last entry of the log: of two members, the one with the higher term, then the higher
	// index, knows more.
	Term  uint64 `json:"term,omitempty"`
	Index uint64 `json:"index,omitempty"`
	// Commit is the highest index that the member wrote down as committed. It may know of more.
	Commit uint64 `json:"commit,omitempty"`
	// Applied is the index of the last entry that the database has, Revision its highest revision. Each entry of the log
	// after Applied adds one revision at most.
	Applied  uint64 `json:"applied,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	// StorageVersion is the minor of etcd that the database is for, such as "3.6"; empty until etcd wrote it down.
	StorageVersion string `json:"storageVersion,omitempty"`
	// TornTail is true when the log ends in the middle of a write, which etcd cuts off when it starts. Nothing that was
	// acknowledged is in it.
	TornTail bool `json:"tornTail,omitempty"`
	// Checked is true when every page of the database was looked at. It is false where the time did not suffice.
	Checked bool `json:"checked,omitempty"`
	// DatabaseBytes is the size of the database's file.
	DatabaseBytes int64 `json:"databaseBytes,omitempty"`
	// FreeBytes is the room on the file system, NeedBytes the room that etcd needs to start and to go on writing.
	FreeBytes int64 `json:"freeBytes"`
	NeedBytes int64 `json:"needBytes"`
	// Seed says why the directory lacks what the member should begin with: a snapshot or its own former data. The directory is Empty then. A
	// reason of package archive, SeedNotVerified or SeedNotFound comes first if there is one.
	Seed string `json:"seed,omitempty"`
}

// Damaged reports whether the data themselves are bad, for good. Every other reason may pass: a member whose disk is not
// permitted, or in use, has lost nothing.
func (f Facts) Damaged() bool {
	switch f.Reason {
	case LogDamaged, LogTooShort, DatabaseDamaged, DatabaseTooOld, LogMissing, DatabaseMissing:
		return f.State == Unreadable
	}
	return false
}

// Unnoticed reports whether etcd may start from data that are bad: it refuses all other damage by itself.
func (f Facts) Unnoticed() bool {
	return f.State == Unreadable && (f.Reason == LogTooShort || f.Reason == LogMissing)
}

// String is one line for people.
func (f Facts) String() string {
	var b strings.Builder
	b.WriteString(string(f.State))
	if f.Reason != "" {
		fmt.Fprintf(&b, " (%s)", f.Reason)
	}
	if f.Message != "" {
		b.WriteString(": " + f.Message)
	}
	if f.MemberID != "" {
		fmt.Fprintf(&b, "; member %s of cluster %s, revision %d, log up to term %d and index %d, applied up to %d", f.MemberID, f.ClusterID, f.Revision, f.Term, f.Index, f.Applied)
	}
	if f.Seed != "" {
		b.WriteString("; what it shall begin with is not there: " + f.Seed)
	}
	if f.State == Present && !f.Checked {
		b.WriteString("; not every page of the database was checked")
	}
	return b.String()
}

// MaxBytes bounds the message. kubelet cuts off what is longer than 4096 bytes, or than 12 KiB divided by the number of
// containers of the pod: https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/.
const MaxBytes = 1024

// maxSeed bounds Seed in bytes.
const maxSeed = 300

// Encode gives the facts as kubelet keeps them: JSON in one line, of at most MaxBytes. A message that is too long is cut off,
// and after it what is said of the seed.
func (f Facts) Encode() ([]byte, error) {
	f.Message, f.Seed = printable(f.Message), bounded(f.Seed)
	for {
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(f); err != nil {
			return nil, fmt.Errorf("write facts of a data directory: %w", err)
		}
		excess := b.Len() - MaxBytes
		switch {
		case excess <= 0:
			return b.Bytes(), nil
		case f.Message == "" && f.Seed != "":
			f.Seed = errortext.Short(f.Seed, len(f.Seed)-min(excess, len(f.Seed)/2+1))
			continue
		case f.Message == "":
			return nil, fmt.Errorf("facts of a data directory have %d bytes, and %d is the most", b.Len(), MaxBytes)
		}
		// A quotation mark has two bytes in JSON: what is too long there may be longer than the message.
		f.Message = errortext.Short(f.Message, len(f.Message)-min(excess, len(f.Message)/2+1))
	}
}

// printable has a space for all that is no letter, digit or sign.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// bounded is what may be said of a seed.
func bounded(text string) string {
	return errortext.Short(printable(text), maxSeed)
}

// Decode reads what Encode wrote. What a newer agent says beside is left out; a state that is not known is an error.
func Decode(message string) (Facts, error) {
	if len(message) > MaxBytes {
		return Facts{}, fmt.Errorf("read facts of a data directory: they have %d bytes, and %d is the most", len(message), MaxBytes)
	}
	var f Facts
	if err := json.Unmarshal([]byte(message), &f); err != nil {
		return Facts{}, fmt.Errorf("read facts of a data directory: %w", err)
	}
	switch f.State {
	case Empty, Present, NoSpace:
		if f.Reason != "" {
			return Facts{}, fmt.Errorf("read facts of a data directory: the state is %s, for which there is no reason", f.State)
		}
	case Unreadable:
		if f.Reason == "" {
			return Facts{}, errors.New("read facts of a data directory: it is unreadable, and there is no reason")
		}
	default:
		return Facts{}, fmt.Errorf("read facts of a data directory: the state %q is not known", f.State)
	}
	for name, field := range map[string]struct {
		value string
		form  *regexp.Regexp
	}{"reason": {string(f.Reason), word}, "clusterID": {f.ClusterID, id}, "memberID": {f.MemberID, id}, "storageVersion": {f.StorageVersion, minor}} {
		if field.value != "" && !field.form.MatchString(field.value) {
			return Facts{}, fmt.Errorf("read facts of a data directory: %s is not of the form %s", name, field.form)
		}
	}
	f.Message, f.Seed = printable(f.Message), bounded(f.Seed)
	return f, nil
}

// The forms of the fields of facts that the manager shows to people. A reason may be any word: an agent that is newer than the manager may
// have more of them.
var (
	word  = regexp.MustCompile(`^[A-Za-z]{1,40}$`)
	id    = regexp.MustCompile(`^[0-9a-f]{1,16}$`)
	minor = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,3}$`)
)
