package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/deletion"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// recordKey is the key of the record in its ConfigMap.
const recordKey = "record"

// restoring is what a reconcile knows of a restore in place.
type restoring struct {
	// request is the restore that is asked for; empty for none.
	request string
	// read is true when the record was read, which is needed only while a restore is not over. stored is the ConfigMap that
	// has it; nil for none.
	read   bool
	record rebuild.Record
	stored *corev1.ConfigMap
	// says is what the restore waits for, for people; empty when none is under way.
	says string
}

// asked reports whether a restore is to be begun or goes on.
func (r *restoring) asked() bool {
	over := r.record.Restore == r.request && r.record.Phase == rebuild.Over
	return r.read && (r.record.UnderWay() || r.request != "" && !over)
}

// stops reports whether nothing may run of a component, for a restore is under way and it uses the data.
func (r *restoring) stops(component string) bool {
	return r.record.UnderWay() && component != names.EtcdEvents
}

// founding reports whether the first member of the new etcd may begin, and was not seen yet.
func (r *restoring) founding() bool { return r.record.Phase == rebuild.Founding }

// readRestore reads how far a restore in place has come, when one is asked for that is not known to be over, or when status, which
// knows, was lost. Nothing is read for other control planes.
func (s *scope) readRestore(ctx context.Context) error {
	s.rebuild.request = requestOf(s.controlPlane)
	data := etcdclusters.Status(s.controlPlane, names.EtcdData)
	open := s.rebuild.request != "" && s.rebuild.request != stamp(data.RestoredAt)
	lost := data.Name == "" || !ptr.Deref(data.Bootstrapped, false) && conditions.IsTrue(s.controlPlane, controlplanev1.InitializedCondition)
	if !open && !lost {
		return nil
	}
	return s.readRecord(ctx)
}

// readRecord reads the record of the last restore in place.
func (s *scope) readRecord(ctx context.Context) error {
	config, key := &corev1.ConfigMap{}, client.ObjectKey{Namespace: s.key.Namespace, Name: names.RestoreRecord(s.key.Name)}
	// A cache that lacks it would let a restore begin that is under way.
	switch err := s.host.Live.Get(ctx, key, config); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("read the record of the last restore in place, ConfigMap %s: %w", key, err)
	default:
		if err := json.Unmarshal([]byte(config.Data[recordKey]), &s.rebuild.record); err != nil {
			return fmt.Errorf("read the record of the last restore in place, ConfigMap %s: %w: put back what it was", key, err)
		}
		s.rebuild.stored = config
	}
	s.rebuild.read = true
	return nil
}

// applyRestore has status and renderings follow the record, before all steps. While etcd is founded anew what follows is as for a
// new control plane. Members of an etcd that was ever restored in place have to know the clusters whose data must not start
// again, whatever becomes of the request.
func (s *scope) applyRestore() {
	record, data := s.rebuild.record, etcdclusters.Status(s.controlPlane, names.EtcdData)
	switch {
	case record.Phase == rebuild.Founding && !s.founded():
		data.Name, data.Bootstrapped, data.Members = etcdclusters.Name(names.EtcdData), ptr.To(false), nil
		etcdclusters.SetStatus(s.controlPlane, data)
	case record.Phase == rebuild.Over && data.Name != "":
		if at, err := time.Parse(time.RFC3339, record.Restore); err == nil {
			data.RestoredAt = metav1.NewTime(at)
			etcdclusters.SetStatus(s.controlPlane, data)
		}
	}
	switch {
	case record.Restore != "" || !data.RestoredAt.IsZero():
		s.input.Spec.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{}
	case s.rebuild.request != "":
		s.input.Spec.Etcd.Restore = nil // It has not begun: no pod restarts for it.
	}
}

// founded reports whether the first member of the new etcd was seen.
func (s *scope) founded() bool {
	data := etcdclusters.Status(s.controlPlane, names.EtcdData)
	return ptr.Deref(data.Bootstrapped, false) && data.ClusterID == s.rebuild.record.ClusterID
}

// requestOf is the restore in place that a control plane asks for; empty for none. It is identified by requestedAt.
func requestOf(controlPlane *controlplanev1.KOKControlPlane) string {
	if controlPlane.Spec.Etcd.Restore == nil {
		return ""
	}
	return stamp(controlPlane.Spec.Etcd.Restore.RequestedAt)
}

// stamp is a time as records have it; empty for none.
func stamp(at metav1.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// restoreInPlace founds the data etcd anew, when a person asks for it: package rebuild decides on each step. What is wrong with
// a request is told, and all goes on as it was.
func (r *Reconciler) restoreInPlace(ctx context.Context, s *scope) flow.Result {
	for s.rebuild.asked() {
		state, err := r.rebuildState(ctx, s)
		if err != nil {
			return flow.Failed(err)
		}
		switch action := rebuild.Decide(state); action.Kind {
		case rebuild.Refuse:
			s.note(errors.New("spec.etcd.restore: " + action.Reason))
			return flow.Done()
		case rebuild.Stop:
			s.rebuild.says = action.Reason
			r.etcdOperator.Forget(client.ObjectKeyFromObject(s.controlPlane))
			if err := deletion.Stop(ctx, s.host, s.key, usersOfData(s.controlPlane)); err != nil {
				return flow.Failed(err)
			}
			return flow.Waiting(action.Reason)
		case rebuild.Wait:
			if s.rebuild.says = action.Reason; s.rebuild.founding() && s.rebuild.request != "" {
				return flow.Done() // The steps after it found etcd.
			}
			return flow.Waiting(action.Reason)
		case rebuild.Write:
			if err := s.writeRecord(ctx, action.Record); err != nil {
				return flow.Failed(err)
			}
			if s.rebuild.founding() {
				s.rebuild.says = "everything that knew the former data has stopped"
				return flow.Waiting(s.rebuild.says) // The record wakes the next reconcile, which renders etcd for it.
			}
		case rebuild.None:
			return flow.Done()
		}
	}
	return flow.Done()
}

// usersOfData are empty objects of the workloads of components that use the data, by component. API servers keep objects in
// memory, and so does what watches them.
func usersOfData(controlPlane *controlplanev1.KOKControlPlane) map[string]client.Object {
	kinds := workloads.Kinds(controlPlane)
	delete(kinds, names.EtcdEvents)
	return kinds
}

// writeRecord writes how far a restore has come, before the step that it is about.
func (s *scope) writeRecord(ctx context.Context, record rebuild.Record) error {
	raw, err := json.Marshal(record)
	if err != nil {
		return err
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.key.Namespace, Name: names.RestoreRecord(s.key.Name), Labels: names.ComponentLabels(s.key, names.EtcdData),
	}}
	if s.rebuild.stored != nil {
		config = s.rebuild.stored.DeepCopy()
	}
	if owner := s.hostOwner(); owner != nil {
		config.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	config.Data = map[string]string{recordKey: string(raw)}
	if s.rebuild.stored == nil {
		err = s.host.Client.Create(ctx, config, client.FieldOwner(names.FieldManager))
	} else {
		unchanged := client.MergeFromWithOptions(s.rebuild.stored, client.MergeFromWithOptimisticLock{})
		err = s.host.Client.Patch(ctx, config, unchanged, client.FieldOwner(names.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("write the record of a restore in place, ConfigMap %s: %w", client.ObjectKeyFromObject(config), err)
	}
	s.rebuild.stored, s.rebuild.record = config, record
	return nil
}
