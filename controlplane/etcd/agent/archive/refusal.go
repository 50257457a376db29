package archive

import (
	"errors"
	"fmt"
)

// Reason is why a snapshot is refused.
type Reason string

const (
	// Truncated says that the end of the object or of the manifest is missing.
	Truncated Reason = "Truncated"
	// Tampered says that bytes are not those that the tenant wrote.
	Tampered Reason = "Tampered"
	// Foreign says that the snapshot is of another tenant.
	Foreign Reason = "Foreign"
	// TooNew says that the snapshot, or its format, needs a newer program.
	TooNew Reason = "TooNew"
	// KeyMissing says that no key that is here opens the object.
	KeyMissing Reason = "KeyMissing"
	// HashDiffers says that what was restored is not what the member had.
	HashDiffers Reason = "HashDiffers"
)

// Refusal is a snapshot that must not be used. Its cause does not pass by itself.
type Refusal struct {
	Reason Reason
	// Message says what is wrong with which object, and what to do.
	Message string
}

// Error implements error.
func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Reason, r.Message) }

// Refuse makes a Refusal.
func Refuse(reason Reason, format string, args ...any) error {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}

// ReasonOf is why a snapshot is refused; empty for every other error.
func ReasonOf(err error) Reason {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal.Reason
	}
	return ""
}

// takeAnother is the way out where a snapshot is lost.
const takeAnother = "take another snapshot, or one of another store"
