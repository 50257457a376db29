package space

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// mostOfVolume is the part of a volume, in per cent, that a database may come to: to write it anew copies it, and etcd's log and snapshots
// are beside both.
const mostOfVolume = 45

// OverQuota says of an etcd whose database may become too large for its volume what is wrong, and what to do; empty where it is not. The
// sizes may be nil, which is not too large. path is the field of the etcd, such as spec.etcd.data.
func OverQuota(quota, volume *resource.Quantity, path string) string {
	if quota == nil || volume == nil || volume.Sign() <= 0 || quota.Value() <= part(volume.Value()) {
		return ""
	}
	return fmt.Sprintf("%s.quotaBackendSize, %s, is more than %d %% of %s.storage.size, %s: a database that large has no room to be written anew; set %s.storage.size to %s, or the quota to %s",
		path, quota, mostOfVolume, path, volume, path, gibi(quota.Value()), resource.NewQuantity(part(volume.Value())>>20<<20, resource.BinarySI))
}

// part is how large a database may be on a volume, in bytes.
func part(volume int64) int64 { return volume/100*mostOfVolume + volume%100*mostOfVolume/100 }

// gibi is a volume for a database, in whole GiB, counted from whole GiB of the database.
func gibi(quota int64) string {
	const one = 1 << 30
	rounded := (quota-1)/one + 1
	return fmt.Sprintf("%dGi", (rounded*100-1)/mostOfVolume+1)
}
