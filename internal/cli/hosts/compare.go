package hosts

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// differences are the fields in which a host differs from the command line, and the patch that would change them.
type differences struct {
	fields []string
	spec   map[string]any
	labels map[string]any
	// edit is true when a patch is not enough, and a person has to edit a field.
	edit bool
}

func (d *differences) field(name string, has, wanted any) {
	d.fields = append(d.fields, fmt.Sprintf("%s is %v, not %v", name, has, wanted))
}

// compare returns an error that names each field of the existing host that differs from what is wanted, and how to change
// it. Labels and the failure domain count only when the command line has them.
func compare(existing, wanted *infrav1.IDCHost, flags addFlags) error {
	d := &differences{spec: map[string]any{}, labels: map[string]any{}}
	d.server("spec", d.spec, &existing.Spec.SSHServer, &wanted.Spec.SSHServer, flags.target.fingerprints)
	d.bastion(existing.Spec.Bastion, wanted.Spec.Bastion, flags.bastion.fingerprints)
	if wanted.Spec.FailureDomain != "" && existing.Spec.FailureDomain != wanted.Spec.FailureDomain {
		d.field("spec.failureDomain", orNothing(existing.Spec.FailureDomain), wanted.Spec.FailureDomain)
		d.spec["failureDomain"] = wanted.Spec.FailureDomain
	}
	for _, key := range slices.Sorted(maps.Keys(wanted.Labels)) {
		if has := existing.Labels[key]; has != wanted.Labels[key] {
			d.field("the label "+key, orNothing(has), wanted.Labels[key])
			d.labels[key] = wanted.Labels[key]
		}
	}
	if len(d.fields) == 0 {
		return nil
	}
	return fmt.Errorf("IDCHost %s is there with other values: %s; to change it: %s", client.ObjectKeyFromObject(existing), strings.Join(d.fields, ", "), d.way(existing))
}

func orNothing(value string) string {
	if value == "" {
		return "unset"
	}
	return value
}

func (d *differences) server(path string, patch map[string]any, has, wanted *infrav1.SSHServer, fingerprints []string) {
	for _, f := range []struct {
		name        string
		has, wanted any
		patch       any
	}{
		{"address", has.Address, wanted.Address, wanted.Address},
		{"port", has.Port, wanted.Port, wanted.Port},
		{"user", has.User, wanted.User, wanted.User},
		{"keySecretRef", has.KeySecretRef.Name, wanted.KeySecretRef.Name, map[string]any{"name": wanted.KeySecretRef.Name}},
	} {
		if f.has != f.wanted {
			d.field(path+"."+f.name, f.has, f.wanted)
			patch[f.name] = f.patch
		}
	}
	for _, fingerprint := range fingerprints {
		if !slices.ContainsFunc(has.HostKeys, func(line string) bool {
			pinned, err := ssh.Fingerprint(line)
			return err == nil && pinned == fingerprint
		}) {
			d.fields = append(d.fields, path+".hostKeys has no key "+fingerprint)
			d.edit = true
		}
	}
}

func (d *differences) bastion(has, wanted *infrav1.SSHServer, fingerprints []string) {
	switch {
	case has == nil && wanted == nil:
	case wanted == nil:
		d.field("spec.bastion", has.Address, "unset")
		d.spec["bastion"] = nil
	case has == nil:
		d.field("spec.bastion", "unset", wanted.Address)
		d.edit = true
	default:
		patch := map[string]any{}
		d.server("spec.bastion", patch, has, wanted, fingerprints)
		if len(patch) > 0 {
			d.spec["bastion"] = patch
		}
	}
}

// way is the command that changes the host to what is wanted.
func (d *differences) way(host *infrav1.IDCHost) string {
	if d.edit {
		return fmt.Sprintf("kubectl edit idchost %s --namespace %s; spec.hostKeys has lines as in /etc/ssh/ssh_host_*_key.pub", host.Name, host.Namespace)
	}
	patch := map[string]any{}
	if len(d.spec) > 0 {
		patch["spec"] = d.spec
	}
	if len(d.labels) > 0 {
		patch["metadata"] = map[string]any{"labels": d.labels}
	}
	data, err := json.Marshal(patch)
	if err != nil {
		panic(err) // Strings and numbers.
	}
	return fmt.Sprintf("kubectl patch idchost %s --namespace %s --type=merge -p '%s'", host.Name, host.Namespace, data)
}
