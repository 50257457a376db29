package pki

import (
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Location says where a Secret is, for messages to people.
type Location struct {
	client.ObjectKey
	// Host is true for the host cluster, false for the management cluster.
	Host bool
}

// String is "Secret <namespace>/<name> in the <management|host> cluster".
func (l Location) String() string {
	where := "management"
	if l.Host {
		where = "host"
	}
	return fmt.Sprintf("Secret %s in the %s cluster", l.ObjectKey, where)
}

// LostKey is key material that is missing in both places.
type LostKey struct {
	// What it is, for example "cluster CA".
	What string
	// Management is the Secret in the management cluster.
	Management Location
	// Host is the copy in the host cluster, HostDataKeys the keys in its data.
	Host         Location
	HostDataKeys []string
}

// LostError says that key material is missing in both places although something uses it. Nothing was
// changed.
type LostError struct {
	// UsedBy is what uses it.
	UsedBy string
	Keys   []LostKey
}

// Error names the Secrets and the way to restore them.
func (e *LostError) Error() string {
	lost := make([]string, 0, len(e.Keys))
	for _, key := range e.Keys {
		lost = append(lost, fmt.Sprintf("%s (%s; data keys %s of %s)",
			key.What, key.Management, strings.Join(key.HostDataKeys, ", "), key.Host))
	}
	return "key material is missing in both of its places while " + e.UsedBy + " uses it: " +
		strings.Join(lost, "; ") +
		"; running pods are left alone; for each key, restore one of its two Secrets from a backup: the other is made from it"
}

// InvalidError says that a Secret holds something that cannot be used, or that two copies of one
// key differ. Nothing was changed.
type InvalidError struct {
	// Location is the Secret at fault.
	Location Location
	// DataKey is the key in its data.
	DataKey string
	// Problem says what is wrong.
	Problem string
	// Remedy says what a person can do.
	Remedy string
}

// Error names the Secret, the data key, the problem and the way out.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s, data key %q: %s; %s", e.Location, e.DataKey, e.Problem, e.Remedy)
}
