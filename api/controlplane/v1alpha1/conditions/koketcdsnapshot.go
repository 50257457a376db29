package conditions

// Conditions of a KOKEtcdSnapshot. One that names a source has none: the member that restores it tries it.
const (
	// SnapshotStoredCondition is true while the snapshot is in its store.
	SnapshotStoredCondition = "Stored"

	// SnapshotVerifiedCondition is true once the snapshot was restored as a trial, and was what its member had.
	SnapshotVerifiedCondition = "Verified"
)

// Reasons of the conditions of a KOKEtcdSnapshot.
const (
	// SnapshotStoredReason of SnapshotStoredCondition: it is in its store.
	SnapshotStoredReason = "Stored"

	// SnapshotTakingReason of SnapshotStoredCondition: it is being taken. The message names members that do not answer.
	SnapshotTakingReason = "Taking"

	// SnapshotNotStoredReason of SnapshotStoredCondition: it could not be taken or stored, or no member takes it. The message names the field
	// that is wrong, where one is, or the members that refuse, or do not answer.
	//
	// Mend what the message names. The next try comes within minutes.
	SnapshotNotStoredReason = "NotStored"

	// SnapshotGoneReason of SnapshotStoredCondition and SnapshotVerifiedCondition: its store had it, and
	// somebody deleted it: a member, because `spec.etcd.backup.keep` keeps newer ones, or a person.
	//
	// Use another snapshot.
	SnapshotGoneReason = "Gone"

	// SnapshotDeletingReason of SnapshotStoredCondition: the object is being deleted, and a member deletes the snapshot in its store first.
	//
	// Nothing for a minute; after that, mend what the message names. With `spec.deletionPolicy` Retain the object goes at once.
	SnapshotDeletingReason = "Deleting"

	// SnapshotDeletionRefusedReason of SnapshotStoredCondition: the object is being deleted, and the snapshot in its store must stay.
	//
	// The message says why, and what to do. With `spec.deletionPolicy` Retain the object goes at once.
	SnapshotDeletionRefusedReason = "DeletionRefused"

	// SnapshotVerifiedReason of SnapshotVerifiedCondition: an etcd started from it.
	SnapshotVerifiedReason = "Verified"

	// SnapshotTruncatedReason of SnapshotStoredCondition and SnapshotVerifiedCondition: the end of it is missing.
	//
	// Use another snapshot, and look who writes to the store.
	SnapshotTruncatedReason = "Truncated"

	// SnapshotTamperedReason of SnapshotStoredCondition and SnapshotVerifiedCondition: its bytes are not those that the tenant wrote.
	//
	// Use another snapshot, and look who writes to the store.
	SnapshotTamperedReason = "Tampered"

	// SnapshotForeignReason of SnapshotStoredCondition and SnapshotVerifiedCondition: it is of another tenant.
	//
	// Give each tenant a prefix, or a claim, of its own.
	SnapshotForeignReason = "Foreign"

	// SnapshotTooNewReason of SnapshotStoredCondition and SnapshotVerifiedCondition: it needs a newer etcd, or a newer release.
	//
	// Upgrade, or use an older snapshot.
	SnapshotTooNewReason = "TooNew"

	// SnapshotKeyMissingReason of SnapshotStoredCondition and SnapshotVerifiedCondition: no key of the tenant opens it.
	//
	// Bring back the Secret with the encryption key that it was taken with.
	SnapshotKeyMissingReason = "KeyMissing"

	// SnapshotHashDiffersReason of SnapshotStoredCondition and SnapshotVerifiedCondition: what was restored is not what the
	// member had.
	//
	// Use another snapshot, and compare the member that it was taken of with the others.
	SnapshotHashDiffersReason = "HashDiffers"
)
