package rebuild

import (
	"crypto/sha1" //nolint:gosec // It is etcd's choice, and names something.
	"encoding/binary"
	"fmt"
	"strings"
)

// ClusterID is the ID of a cluster that one member founds, by its peer URL and the cluster's token, in hexadecimal. It is what
// etcd makes of both: https://github.com/etcd-io/etcd/blob/v3.6.8/server/etcdserver/api/membership, computeMemberID and genID.
func ClusterID(peerURL, token string) string {
	var id [8]byte
	binary.BigEndian.PutUint64(id[:], first64([]byte(peerURL+token)))
	return fmt.Sprintf("%016x", first64(id[:]))
}

func first64(of []byte) uint64 {
	sum := sha1.Sum(of) //nolint:gosec // See above.
	return binary.BigEndian.Uint64(sum[:8])
}

// Padded is an ID in 16 digits, for etcd leaves out zeros at the beginning where it logs one; empty for an empty one.
func Padded(id string) string {
	if id == "" {
		return ""
	}
	return strings.Repeat("0", max(0, 16-len(id))) + id
}
