package pki

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
)

// copies is what was read of a tenant's key material; nil is a Secret that does not exist.
type copies struct {
	cluster    client.ObjectKey
	management map[string]*corev1.Secret
	host       *corev1.Secret
	// rotation is the Secret of rotations in the management cluster, rotations what both copies of them tell, by the name of the item.
	rotation  *corev1.Secret
	rotations map[string]*Rotation
	// fromCache is true when at least one Secret came from a cache.
	fromCache bool
}

func (c *copies) managementLocation(it item) Location {
	return Location{ObjectKey: client.ObjectKey{Namespace: c.cluster.Namespace, Name: secret.Name(c.cluster.Name, it.purpose)}}
}

func (c *copies) hostLocation() Location {
	return Location{ObjectKey: client.ObjectKey{Namespace: c.cluster.Namespace, Name: names.KeyMaterial(c.cluster.Name)}, Host: true}
}

// merge takes each key from a copy that has it. missing has the keys that neither copy has. It fails with *InvalidError when
// a copy cannot be used, or when both differ: then a person should go back to the host cluster's copy, with which pods run.
// The program does not do that by itself.
func (c *copies) merge() (values map[string][][]byte, missing []item, err error) {
	values = map[string][][]byte{}
	if err := c.mergeRotations(); err != nil {
		return nil, nil, err
	}
	for _, it := range items {
		management := c.renewed(it, part(c.management[it.name], it.managementKeys))
		host := c.renewed(it, part(c.host, it.hostKeys))
		value, err := c.mergeItem(it, management, host)
		if err == nil {
			value, err = c.asRotated(it, value)
		}
		if err != nil {
			return nil, nil, err
		}
		if value == nil {
			missing = append(missing, it)
			continue
		}
		values[it.name] = value
	}
	return values, missing, nil
}

func (c *copies) mergeItem(it item, management, host [][]byte) ([][]byte, error) {
	for _, copied := range []struct {
		parts    [][]byte
		location Location
		keys     []string
		remedy   string
	}{
		{management, c.managementLocation(it), it.managementKeys, c.restoreManagement(it)},
		{host, c.hostLocation(), it.hostKeys, c.restoreHost(it)},
	} {
		if !complete(copied.parts) {
			continue
		}
		var bad *partError
		if err := it.check(copied.parts); errors.As(err, &bad) {
			return nil, &InvalidError{Location: copied.location, DataKey: copied.keys[bad.part], Problem: bad.problem, Remedy: copied.remedy}
		}
	}
	switch {
	case complete(management) && complete(host):
		if ours, theirs := fingerprint(host), fingerprint(management); ours != theirs {
			return nil, &InvalidError{
				Location: c.managementLocation(it), DataKey: it.managementKeys[publicPart],
				Problem: fmt.Sprintf("the %s (%s) is not the one in %s, data key %q (%s), which the components run with",
					it.name, theirs, c.hostLocation(), it.hostKeys[publicPart], ours),
				Remedy: "replacing key material of a control plane is not supported; " + c.restoreManagement(it),
			}
		}
		return host, nil
	case complete(host):
		return host, c.agrees(it, management, host, c.managementLocation(it), it.managementKeys, c.restoreManagement(it))
	case complete(management):
		return management, c.agrees(it, host, management, c.hostLocation(), it.hostKeys, c.restoreHost(it))
	case empty(management) && empty(host):
		return nil, nil
	}
	return nil, c.halved(it, management)
}

// agrees fails when a partial copy differs from the complete one in what it has, or when it is a
// Secret that a person made.
func (c *copies) agrees(it item, partial, whole [][]byte, at Location, keys []string, remedy string) error {
	if empty(partial) {
		return nil
	}
	for i := range partial {
		if len(partial[i]) > 0 && !bytes.Equal(bytes.TrimSpace(partial[i]), bytes.TrimSpace(whole[i])) {
			return &InvalidError{Location: at, DataKey: keys[i], Problem: fmt.Sprintf("differs from the other copy of the %s, and data of it is missing", it.name), Remedy: remedy}
		}
	}
	if !at.Host && !secrets.Ours(c.management[it.name]) {
		return &InvalidError{Location: at, DataKey: firstEmpty(partial, keys), Problem: "is missing, and the Secret was not made by this controller", Remedy: remedy}
	}
	return nil
}

func (c *copies) halved(it item, management [][]byte) error {
	at, keys, parts := c.managementLocation(it), it.managementKeys, management
	if empty(management) {
		at, keys, parts = c.hostLocation(), it.hostKeys, part(c.host, it.hostKeys)
	}
	return &InvalidError{
		Location: at, DataKey: firstEmpty(parts, keys),
		Problem: fmt.Sprintf("is missing, and no other copy of the %s is whole", it.name),
		Remedy:  "add it, or restore the Secret from a backup",
	}
}

func (c *copies) restoreManagement(it item) string {
	if !complete(part(c.host, it.hostKeys)) {
		return "put a valid pair into it"
	}
	return fmt.Sprintf("to go back, delete %s: it is made again from %s", c.managementLocation(it), c.hostLocation())
}

func (c *copies) restoreHost(it item) string {
	return fmt.Sprintf("to go back, remove data keys %s of it: they are filled again from %s",
		strings.Join(it.hostKeys, ", "), c.managementLocation(it))
}

// part takes the data of some keys from a Secret. A missing key is empty.
func part(secret *corev1.Secret, keys []string) [][]byte {
	parts := make([][]byte, len(keys))
	if secret == nil {
		return parts
	}
	for i, key := range keys {
		parts[i] = secret.Data[key]
	}
	return parts
}

func complete(parts [][]byte) bool {
	for _, part := range parts {
		if len(part) == 0 {
			return false
		}
	}
	return true
}

func empty(parts [][]byte) bool {
	for _, part := range parts {
		if len(part) > 0 {
			return false
		}
	}
	return true
}

func firstEmpty(parts [][]byte, keys []string) string {
	for i, part := range parts {
		if len(part) == 0 {
			return keys[i]
		}
	}
	return keys[0]
}
