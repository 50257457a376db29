// Package records reads and writes the Record, the file on a host that says which machine the host carries and what that
// machine changed. It is written before the first change. Another inventory with the same host finds it, and a clean-up reads
// from it what to undo.
package records

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
)

const (
	// Dir has our files on a host while it is a machine.
	Dir = "/var/lib/kok-infrastructure"
	// File is the Record.
	File = Dir + "/machine.json"
	// OriginalsDir holds copies of what cloud-init was about to replace.
	OriginalsDir = Dir + "/originals"
)

// Record says, on the host, which machine it carries and what that machine changed.
type Record struct {
	// Namespace and Name are the IDCMachine's, InstanceID is its spec.instanceID.
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	InstanceID string `json:"instanceID"`
	// DataHash is the SHA-256 of the bootstrap data in hexadecimal.
	DataHash string `json:"dataHash"`
	// Seeded is true once all that cloud-init reads was written, Started once it was started, Done once
	// it succeeded.
	Seeded  bool `json:"seeded,omitempty"`
	Started bool `json:"started,omitempty"`
	Done    bool `json:"done,omitempty"`
	// Avoided are the sources of software that failed before another one gave the file.
	Avoided []string `json:"avoided,omitempty"`
	// Hostname is the name of the host before it became the machine.
	Hostname string `json:"hostname,omitempty"`
	// Added are files of the bootstrap data that did not exist before. Replaced are those that did, of which there is a copy.
	Added    []string `json:"added,omitempty"`
	Replaced []string `json:"replaced,omitempty"`
	// CloudInit is true when cloud-init knew an instance of the host's own, of which there is a copy.
	CloudInit bool `json:"cloudInit,omitempty"`
	// Users are users of the bootstrap data that did not exist before.
	Users []string `json:"users,omitempty"`
	// Unlocked are users of the bootstrap data that existed before, with a password. cloud-init locks it.
	Unlocked []string `json:"unlocked,omitempty"`
	// Keys are SSH keys, in base64, that the bootstrap data add to files of authorized keys of the host's own.
	Keys map[string][]string `json:"keys,omitempty"`
	// Images are kubelet's images on the host before; nil when they are unknown.
	Images []string `json:"images"`
	// Folders are containerd's that did not exist before, or were empty disks; none on a host that had containerd.
	Folders []string `json:"folders,omitempty"`
	// Mounts are mount points of the host's own in a node's folders, such as a disk for /var/lib/kubelet. A clean-up empties
	// them and leaves them mounted.
	Mounts []string `json:"mounts,omitempty"`
	// PodRanges are the ranges of pods of the machine's cluster. Routes are the routes into these ranges that the host had before; they
	// are the host's own, and a host that was taken over has none. A clean-up removes all others into these ranges. A Record of an older
	// release has neither.
	PodRanges []string `json:"podRanges,omitempty"`
	Routes    []string `json:"routes,omitempty"`
	// TakenOver is the fact that a person allowed in spec.takeOver; empty for a host that was free.
	TakenOver string `json:"takenOver,omitempty"`
}

// Read returns nil when the host carries no machine.
func Read(ctx context.Context, h *hosts.Host) (*Record, error) {
	there, err := h.Existing(ctx, File)
	if err != nil || len(there) == 0 {
		return nil, err
	}
	data, err := h.Run(ctx, "cat", File)
	if err != nil {
		return nil, err
	}
	record := &Record{}
	if err := json.Unmarshal(data, record); err != nil {
		return nil, fmt.Errorf("read %s on the host: %w; clean the host, put back what is in %s and remove %s on it", File, err, OriginalsDir, Dir)
	}
	return record, nil
}

// Write writes the Record into Dir, which must exist.
func (r *Record) Write(ctx context.Context, h *hosts.Host) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return h.Write(ctx, File, append(data, '\n'))
}
