package archive

import (
	"errors"
	"fmt"
	"strings"

	"filippo.io/age"
)

// maxRecipients bounds the header of an object.
const maxRecipients = 20

// ParseRecipients reads the public keys of age that snapshots are encrypted for: the tenant's own and those of people. Only
// keys of age itself are taken, for a person must be able to open a snapshot with age alone.
func ParseRecipients(keys []string) ([]age.Recipient, error) {
	if len(keys) == 0 {
		return nil, errors.New("there is no recipient: without one nobody could read a snapshot; add an age key (age-keygen -y prints the public one)")
	}
	if len(keys) > maxRecipients {
		return nil, fmt.Errorf("there are %d recipients, and %d is the most", len(keys), maxRecipients)
	}
	hybrid := 0
	var all []age.Recipient
	for _, key := range keys {
		if strings.HasPrefix(strings.ToUpper(key), "AGE-SECRET-KEY-") {
			return nil, errors.New("a secret key stands among the recipients: put the public one there (age-keygen -y prints it), and make a new key")
		}
		found, err := age.ParseRecipients(strings.NewReader(key))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("%.80q is no public key of age (age1...)", key)
		}
		if _, ok := found[0].(*age.HybridRecipient); ok {
			hybrid++
		}
		all = append(all, found[0])
	}
	if hybrid != 0 && hybrid != len(all) {
		return nil, errors.New("some recipients are post-quantum keys (age1pq1...) and some are not, which age does not mix: take keys of one kind, the tenant's own included")
	}
	return all, nil
}
