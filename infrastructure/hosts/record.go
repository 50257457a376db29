package hosts

import (
	"context"
	"encoding/json"
	"fmt"
)

const (
	// stateDir has our files on a host while it is a machine.
	stateDir = "/var/lib/kok-infrastructure"
	// recordFile is the Record.
	recordFile = stateDir + "/machine.json"
	// originalsDir holds copies of what cloud-init was about to replace.
	originalsDir = stateDir + "/originals"
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
	// TakenOver is the fact that a person allowed in spec.takeOver; empty for a host that was free.
	TakenOver string `json:"takenOver,omitempty"`
}

// InUseError says that a host is in use.
type InUseError struct {
	// Record is the host's, when it names another machine than the one that wants the host; nil otherwise.
	Record *Record
	// Fact shows in another way that the host is in use. spec.takeOver has to repeat it.
	Fact string
}

func (e *InUseError) Error() string {
	if e.Record == nil {
		return "the host is in use: " + e.Fact
	}
	return fmt.Sprintf("the host carries the IDCMachine %s/%s (instance %s), of which this inventory does not know; "+
		"find out which management cluster has it, delete that Machine there, or clean the host, put back what is in %s and remove %s on it",
		e.Record.Namespace, e.Record.Name, e.Record.InstanceID, originalsDir, stateDir)
}

// readRecord returns nil when the host carries no machine.
func (h *Host) readRecord(ctx context.Context) (*Record, error) {
	there, err := h.existing(ctx, recordFile)
	if err != nil || len(there) == 0 {
		return nil, err
	}
	data, err := h.run(ctx, "cat", recordFile)
	if err != nil {
		return nil, err
	}
	record := &Record{}
	if err := json.Unmarshal(data, record); err != nil {
		return nil, fmt.Errorf("read %s on the host: %w; clean the host, put back what is in %s and remove %s on it", recordFile, err, originalsDir, stateDir)
	}
	return record, nil
}

// writeRecord writes the Record into stateDir, which note has made.
func (h *Host) writeRecord(ctx context.Context, record *Record) error {
	data, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	return h.write(ctx, recordFile, append(data, '\n'))
}
