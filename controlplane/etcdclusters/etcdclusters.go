// Package etcdclusters reads what the spec and the status of a control plane say of its two etcd clusters.
package etcdclusters

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Of are the components of the etcd clusters that a control plane has.
func Of(controlPlane *controlplanev1.KOKControlPlane) []string {
	return registry.Components.Of(&controlPlane.Spec).OfCondition(conditionsv1.EtcdClusterHealthyCondition)
}

// Name is the name of an etcd cluster in status.
func Name(component string) string { return etcdcomponent.Named(component).Field }

// Spec is what the spec asks of an etcd cluster.
func Spec(controlPlane *controlplanev1.KOKControlPlane, component string) controlplanev1.EtcdClusterSpec {
	return *etcdcomponent.Named(component).Part(&controlPlane.Spec.Etcd)
}

// Status is what status says of an etcd cluster; empty before anything was observed of it.
func Status(controlPlane *controlplanev1.KOKControlPlane, component string) controlplanev1.EtcdClusterStatus {
	for _, cluster := range controlPlane.Status.Etcd {
		if cluster.Name == Name(component) {
			return cluster
		}
	}
	return controlplanev1.EtcdClusterStatus{}
}

// SetStatus replaces what status says of the etcd cluster of that name, or adds it.
func SetStatus(controlPlane *controlplanev1.KOKControlPlane, status controlplanev1.EtcdClusterStatus) {
	all := &controlPlane.Status.Etcd
	if i := slices.IndexFunc(*all, func(c controlplanev1.EtcdClusterStatus) bool { return c.Name == status.Name }); i >= 0 {
		(*all)[i] = status
		return
	}
	*all = append(*all, status)
}

// Bootstrapped reports whether every first member of an etcd cluster has joined it once; false for other components.
func Bootstrapped(controlPlane *controlplanev1.KOKControlPlane, component string) bool {
	return slices.Contains(etcdcomponent.Components(), component) && ptr.Deref(Status(controlPlane, component).Bootstrapped, false)
}

// Seeded reports whether an etcd cluster begins with a snapshot that its first member restores, or with the data of a survivor, and has
// not been seen since. It has that member alone until it answers, and gains the others then.
func Seeded(controlPlane *controlplanev1.KOKControlPlane, component string) bool {
	return etcdcomponent.Named(component).Restorable() && !Bootstrapped(controlPlane, component) &&
		(controlPlane.Spec.Etcd.Restore != nil || Status(controlPlane, component).Restoring != nil)
}

// Voters is how many members vote, by what etcd said last.
func Voters(controlPlane *controlplanev1.KOKControlPlane, component string) int32 {
	var count int32
	for _, member := range Status(controlPlane, component).Members {
		if member.State == controlplanev1.EtcdMemberVoter {
			count++
		}
	}
	return count
}

// EventsFoundedAt is when the etcd with the events was last founded anew, or is to be: as spec asks, or as status has it, when the controller
// began by itself. It is zero for one that was founded once.
func EventsFoundedAt(controlPlane *controlplanev1.KOKControlPlane) metav1.Time {
	at, status := controlPlane.Spec.Etcd.Events.FoundAnewAt, Status(controlPlane, names.EtcdEvents)
	if at.Before(&status.RestoredAt) {
		at = status.RestoredAt
	}
	if restoring := status.Restoring; restoring != nil && at.Before(&restoring.RequestedAt) {
		at = restoring.RequestedAt
	}
	return at
}

// Founded tells one founding of an etcd cluster from another; empty for the first. The cluster ID is made of it. What spec asks for counts
// once status has it, for a time that is yet to come founds nothing, or if status is lost.
func Founded(controlPlane *controlplanev1.KOKControlPlane, component string) string {
	status := Status(controlPlane, names.EtcdEvents)
	switch {
	case component != names.EtcdEvents:
		return ""
	case status.Name == "":
		return FoundedAt(controlPlane.Spec.Etcd.Events.FoundAnewAt)
	case status.Restoring != nil:
		return FoundedAt(status.Restoring.RequestedAt)
	}
	return FoundedAt(status.RestoredAt)
}

// FoundedAt is Founded of an etcd cluster that was founded anew at a time; zero for one that was founded once.
func FoundedAt(at metav1.Time) string {
	if at.IsZero() {
		return ""
	}
	return "/" + at.UTC().Format(time.RFC3339)
}

// Membership is what the configuration files of an etcd cluster depend on.
func Membership(controlPlane *controlplanev1.KOKControlPlane, component string) etcdcomponent.Membership {
	membership := etcdcomponent.Membership{
		Bootstrapped: Bootstrapped(controlPlane, component) || Seeded(controlPlane, component),
		Founded:      Founded(controlPlane, component),
	}
	for _, member := range Status(controlPlane, component).Members {
		membership.Listed = append(membership.Listed, member.Name)
		if member.State == controlplanev1.EtcdMemberJoining {
			membership.Joining = member.Name
		}
	}
	return membership
}
