package webhooks

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// validateChange holds the rules that compare two states of a control plane, besides those in CEL.
func validateChange(before, after *controlplanev1.KOKControlPlane, table *versions.Table) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateVersionChange(before, after, table, path.Child("version"))
	errs = append(errs, validateMembersChange(before, after, path.Child("etcd"))...)
	errs = append(errs, validateOwnVolumesChange(before.Spec.Etcd.Backup, after.Spec.Etcd.Backup, path.Child("etcd", "backup", "store", "perMember"))...)
	errs = append(errs, validateRestoreChange(before, after.Spec.Etcd, time.Now(), path.Child("etcd", "restore"))...)
	errs = append(errs, validateFoundAnewChange(before, after.Spec.Etcd.Events, time.Now(), path.Child("etcd", "events", "foundAnewAt"))...)
	errs = append(errs, validateKeyRotationChange(before.Spec.KeyRotation, after.Spec.KeyRotation, time.Now(), path.Child("keyRotation"))...)
	errs = append(errs, validateEtcdVersionChange(before, after, table, path.Child("etcd", "image"))...)
	return append(errs, validateEncryptionChange(before.Spec.EncryptionAtRest, after.Spec.EncryptionAtRest,
		path.Child("encryptionAtRest", "resources"))...)
}

// validateVersionChange allows the next minor only when the one before it has been reached: etcd's
// content and the API servers may be one minor apart, not two.
func validateVersionChange(before, after *controlplanev1.KOKControlPlane, table *versions.Table, path *field.Path) field.ErrorList {
	from, to := before.Spec.Version, after.Spec.Version
	if from == to {
		return nil
	}
	if err := table.ValidateUpgrade(from, to); err != nil {
		return field.ErrorList{field.Invalid(path, to, err.Error())}
	}
	for _, running := range before.Status.Versions {
		if err := table.ValidateUpgrade(running.Version, to); err != nil {
			return field.ErrorList{field.Invalid(path, to,
				fmt.Sprintf("the upgrade to %s is still under way, some components run %s; wait until status.versions holds %s alone", from, running.Version, from))}
		}
	}
	if !versions.SameMinor(from, to) && mayRunAnything(before) {
		return field.ErrorList{field.Invalid(path, to,
			fmt.Sprintf("status.versions is empty, so that an upgrade to %s may still be under way; wait until it holds %s alone or, if the control plane was never made, delete it and create it with %s", from, from, to))}
	}
	return nil
}

// mayRunAnything reports whether a control plane may run while nothing tells at which versions: clusterctl move and
// backups leave status behind. One that has no ports or endpoint yet was never made.
func mayRunAnything(c *controlplanev1.KOKControlPlane) bool {
	isMade := c.Spec.ControlPlaneEndpoint.Host != "" && (c.Spec.Hosting.OnPodNetwork() || c.Spec.Hosting.Ports.First != 0)
	return isMade && !neverBootstrapped(c) && len(c.Status.Versions) == 0
}

// neverBootstrapped reports whether status says that etcd is not bootstrapped yet: then it holds no data. A control plane
// with reason InvalidSpec has no status of etcd: the controller gives that reason only when no etcd member of it exists.
func neverBootstrapped(c *controlplanev1.KOKControlPlane) bool {
	for _, cluster := range c.Status.Etcd {
		if cluster.Name == "data" {
			return !ptr.Deref(cluster.Bootstrapped, false)
		}
	}
	return conditions.GetReason(c, conditionsv1.AvailableCondition) == conditionsv1.InvalidSpecReason
}

// validateMembersChange refuses another number of members until etcd is bootstrapped, because all first members must start with the same
// list of members. It ignores the number for events while the data etcd holds the events: then no etcd for events exists.
func validateMembersChange(before, after *controlplanev1.KOKControlPlane, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, cluster := range []struct {
		name          string
		before, after controlplanev1.EtcdClusterSpec
	}{
		{"data", before.Spec.Etcd.Data, after.Spec.Etcd.Data},
		{"events", before.Spec.Etcd.Events.EtcdClusterSpec, after.Spec.Etcd.Events.EtcdClusterSpec},
	} {
		bootstrapped := slices.ContainsFunc(before.Status.Etcd, func(status controlplanev1.EtcdClusterStatus) bool {
			return status.Name == cluster.name && ptr.Deref(status.Bootstrapped, false)
		})
		if cluster.name == "events" && after.Spec.Etcd.EventsInData() {
			continue
		}
		if from, to := ptr.Deref(cluster.before.Replicas, 0), ptr.Deref(cluster.after.Replicas, 0); from != to && !bootstrapped {
			errs = append(errs, field.Invalid(path.Child(cluster.name, "replicas"), to,
				fmt.Sprintf("the first %d members have not all joined yet; wait until bootstrapped is true in status.etcd", from)))
		}
	}
	return errs
}

// validateEncryptionChange keeps every resource in the list that etcd may hold encrypted.
func validateEncryptionChange(before, after controlplanev1.EncryptionAtRestSpec, path *field.Path) field.ErrorList {
	if before.Mode == controlplanev1.EncryptionNone {
		return nil
	}
	var errs field.ErrorList
	for _, resource := range before.Resources {
		if !slices.Contains(after.Resources, resource) {
			errs = append(errs, field.Invalid(path, after.Resources,
				fmt.Sprintf("must keep %q: what etcd holds of it is encrypted and could not be read any more; resources can only be added", resource)))
		}
	}
	return errs
}
