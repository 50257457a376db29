package bootstrap

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
)

// Machine describes the machine that a host becomes.
type Machine struct {
	// Claimant is how the machine claims the host. Its InstanceID is cloud-init's instance-id, too.
	ownership.Claimant
	// Namespace and Name are the IDCMachine's. The name is the host's name, and so the Node's.
	Namespace, Name string
	// ProviderID is the Node's.
	ProviderID string
	// PodRanges are the ranges of addresses of pods in the machine's cluster. There may be none.
	PodRanges []string
	// UserData is the bootstrap data, for cloud-init. It may be empty when the host is the machine already.
	UserData []byte
}

func (m *Machine) dataHash() string {
	sum := sha256.Sum256(m.UserData)
	return hex.EncodeToString(sum[:])
}

// record is the beginning of the machine's Record, which cleanup.Note completes.
func (m *Machine) record(takenOver string) *records.Record {
	return &records.Record{Namespace: m.Namespace, Name: m.Name, InstanceID: m.InstanceID, DataHash: m.dataHash(), PodRanges: m.PodRanges, TakenOver: takenOver}
}

// words matches instance IDs and provider IDs, which are written into files as they are.
var words = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]*$`)

// check refuses a machine whose names would change the meaning of a file that they are written into.
func (m *Machine) check() error {
	for field, value := range map[string]string{"instanceID": m.InstanceID, "providerID": m.ProviderID} {
		if !words.MatchString(value) {
			return fmt.Errorf("spec.%s of the IDCMachine, %q, must have letters, digits, '.', '_' and '-' alone; make the machine anew, without one", field, value)
		}
	}
	return nil
}

// metaData is what templates of bootstrap data find as ds.meta_data. It is JSON, which is YAML, too.
func (m *Machine) metaData() ([]byte, error) {
	return json.Marshal(map[string]string{
		"instance-id": m.InstanceID, "local-hostname": m.Name, "provider_id": m.ProviderID,
	})
}
