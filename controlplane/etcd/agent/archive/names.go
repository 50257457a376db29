package archive

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Names of one snapshot in a store begin with its slot. The object has some random letters, so that two who take the same
// slot never write the same object: the first manifest counts, and there is one of each slot only.
const (
	slotForm          = "20060102T150405Z"
	manifestEnd       = ".json"
	verificationEnd   = ".verified.json"
	objectEnd         = ".zst.age"
	randomHexOfObject = 8
	keysBegin         = "keys-"
	keysEnd           = ".age"
)

var names = regexp.MustCompile(`^([0-9]{8}T[0-9]{6}Z)(\.json|\.verified\.json|-[0-9a-f]{8}\.zst\.age)$`)

// Kind is what an object of a store is.
type Kind int

const (
	// Unknown is something of others.
	Unknown Kind = iota
	// ManifestFile makes a snapshot: what has none is no snapshot.
	ManifestFile
	// VerificationFile says that it was verified.
	VerificationFile
	// ObjectFile is the snapshot itself.
	ObjectFile
)

// ManifestName is that of a slot.
func ManifestName(slot time.Time) string { return slot.UTC().Format(slotForm) + manifestEnd }

// VerificationName is that of a slot.
func VerificationName(slot time.Time) string { return slot.UTC().Format(slotForm) + verificationEnd }

// NewObjectName is a new one of a slot.
func NewObjectName(slot time.Time) string {
	random := make([]byte, randomHexOfObject/2)
	_, _ = rand.Read(random)
	return slot.UTC().Format(slotForm) + "-" + hex.EncodeToString(random) + objectEnd
}

// keysIDs are those of key material.
var keysIDs = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// KeysName is that of the object with a tenant's key material, which is beside its snapshots and belongs to none. To ParseName
// it is something of others, so nothing lists or deletes it.
func KeysName(id string) (string, error) {
	if !keysIDs.MatchString(id) {
		return "", fmt.Errorf("%.80q is no ID of key material: it must be of the form %s", id, keysIDs)
	}
	return keysBegin + id + keysEnd, nil
}

// SlotName is how people name a snapshot.
func SlotName(slot time.Time) string { return slot.UTC().Format(slotForm) }

// ParseSlot reads what SlotName gives.
func ParseSlot(name string) (time.Time, error) { return time.Parse(slotForm, name) }

// ParseName says what the name of an object in a store means.
func ParseName(name string) (slot time.Time, kind Kind) {
	parts := names.FindStringSubmatch(name)
	if parts == nil {
		return time.Time{}, Unknown
	}
	slot, err := ParseSlot(parts[1])
	if err != nil {
		return time.Time{}, Unknown
	}
	switch parts[2] {
	case manifestEnd:
		return slot, ManifestFile
	case verificationEnd:
		return slot, VerificationFile
	}
	return slot, ObjectFile
}

// clockSkew is how far the clocks of host nodes and of people may differ.
const clockSkew = time.Hour

// IsInFuture reports whether a slot is later than now by more than clocks may differ. The member that took its snapshot had a wrong clock.
// Nobody may take such a snapshot for the newest one, because its data are older than its name says.
func IsInFuture(slot, now time.Time) bool { return slot.After(now.Add(clockSkew)) }

// SlotOf is the slot of a time, where there is one every so often.
func SlotOf(t time.Time, every time.Duration) time.Time { return t.UTC().Truncate(every) }

// ParseKeysName is the ID in what KeysName gives.
func ParseKeysName(name string) (id string, ok bool) {
	id, prefixed := strings.CutPrefix(name, keysBegin)
	id, suffixed := strings.CutSuffix(id, keysEnd)
	return id, prefixed && suffixed && keysIDs.MatchString(id)
}
