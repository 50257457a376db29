package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Keys of the ConfigMap with the record.
const (
	// RecordKey is that of the record of the data etcd.
	RecordKey = "record"
	// EventsKey is that of the time at which the controller last began by itself to found the etcd with the events anew.
	EventsKey = "eventsFoundedAnewAt"
)

// Progress is how far a restore in place has come, as far as a reconcile knows: all but events is about the data etcd. It is a value: a step
// that learns more returns another one.
type Progress struct {
	// Record is the record of the last restore; empty until it is read.
	Record rebuild.Record
	// request identifies the restore that is asked for; empty for none. automatic is what it begins with, if the controller asks by itself.
	request   string
	automatic *rebuild.Ask
	// seed is the member that begins with what automatic asks for; empty for any.
	seed string
	// refusal is why the first member cannot begin, and what a person does; empty while nothing is wrong.
	refusal string
	// superseded is a request of a person that is not later than the restore that the controller began by itself; empty for none.
	superseded string
	// events is when the controller last began by itself to found the etcd with the events anew; zero for never.
	events metav1.Time
	// read is true once the record was read, which only a restore that is not over needs. stored is the ConfigMap with the record; nil before
	// the first restore.
	read   bool
	stored *corev1.ConfigMap
}

// Asked reports whether a restore has to begin or to go on.
func (p *Progress) Asked() bool {
	over := p.Record.Restore == p.request && p.Record.Phase == rebuild.Over
	return p.read && (p.Record.UnderWay() || p.request != "" && !over)
}

// Stops reports whether a component uses the data while a restore is under way. Then nothing of it may run that knows the former
// data.
func (p *Progress) Stops(component string) bool {
	return p.Record.UnderWay() && usesData(component)
}

// usesData reports whether a component uses the data that a restore in place replaces: the data etcd, API servers, which keep objects in
// memory, and all that watches API servers.
func usesData(component string) bool { return component != names.EtcdEvents }

// Founding reports whether the first member of the new etcd may begin, and was not seen yet.
func (p *Progress) Founding() bool { return p.Record.Phase == rebuild.Founding }

// Founded reports whether the first member of the new etcd was seen.
func (p *Progress) Founded(controlPlane *controlplanev1.KOKControlPlane) bool {
	data := etcdclusters.Status(controlPlane, names.EtcdData)
	return ptr.Deref(data.Bootstrapped, false) && data.ClusterID == p.Record.ClusterID
}

// Ever reports whether the data etcd is, or ever was, restored in place.
func (p *Progress) Ever(controlPlane *controlplanev1.KOKControlPlane) bool {
	data := etcdclusters.Status(controlPlane, names.EtcdData)
	return p.Record.Restore != "" || !data.RestoredAt.IsZero()
}

// Status is the status of the data etcd as the record has it; changed is false if status stays as it is. While etcd is founded anew, status
// says what it says of a new control plane, so the steps do what they do for one.
func (p *Progress) Status(controlPlane *controlplanev1.KOKControlPlane) (data controlplanev1.EtcdClusterStatus, changed bool) {
	data = etcdclusters.Status(controlPlane, names.EtcdData)
	at, err := time.Parse(time.RFC3339, p.Record.Restore)
	switch {
	case err != nil:
		return data, false
	case p.Record.Phase == rebuild.Over && data.Name != "":
		data.RestoredAt, data.Restoring = metav1.NewTime(at), nil
		return data, true
	case !p.Record.UnderWay() || data.Name == "" && !p.Founding():
		return data, false
	}
	asks := p.Begins(controlPlane)
	data.Restoring = &controlplanev1.EtcdRestoringStatus{RequestedAt: metav1.NewTime(at), Snapshot: asks.Snapshot, Survivor: asks.Survivor}
	if p.Record.Automatic {
		data.Restoring.Automatic = ptr.To(true)
	}
	if data.Name = etcdclusters.Name(names.EtcdData); p.Founding() && !p.Founded(controlPlane) {
		data.Bootstrapped, data.Members = ptr.To(false), nil
	}
	return data, true
}

// EventsStatus is the status of the etcd with the events when the controller began by itself to found it anew, and status does not say so;
// changed is false if status stays as it is.
func (p *Progress) EventsStatus(controlPlane *controlplanev1.KOKControlPlane) (events controlplanev1.EtcdClusterStatus, changed bool) {
	events = etcdclusters.Status(controlPlane, names.EtcdEvents)
	if known := etcdclusters.EventsFoundedAt(controlPlane); !known.Before(&p.events) {
		return events, false
	}
	events.Name = etcdclusters.Name(names.EtcdEvents)
	events.Restoring = &controlplanev1.EtcdRestoringStatus{RequestedAt: p.events, Automatic: ptr.To(true)}
	return events, true
}

// Begins is what the new etcd begins with. While a restore is under way that is what it began by, whatever is asked for since.
func (p *Progress) Begins(controlPlane *controlplanev1.KOKControlPlane) controlplanev1.EtcdRestoreSpec {
	if !p.Record.UnderWay() || p.Record.Begins == nil {
		return p.asks(controlPlane)
	}
	at, _ := time.Parse(time.RFC3339, p.Record.Restore) // It is a stamp.
	return controlplanev1.EtcdRestoreSpec{Survivor: p.Record.Begins.Survivor, Snapshot: p.Record.Begins.Snapshot, RequestedAt: metav1.NewTime(at)}
}

// asks is what is asked for, by a person or by the controller itself; empty if nobody asks.
func (p *Progress) asks(controlPlane *controlplanev1.KOKControlPlane) controlplanev1.EtcdRestoreSpec {
	switch spec := controlPlane.Spec.Etcd.Restore; {
	case p.automatic != nil:
		at, _ := time.Parse(time.RFC3339, p.request) // It is a stamp.
		return controlplanev1.EtcdRestoreSpec{Survivor: p.automatic.Survivor, Snapshot: p.automatic.Snapshot, RequestedAt: metav1.NewTime(at)}
	case spec != nil:
		return *spec
	}
	return controlplanev1.EtcdRestoreSpec{}
}

// field is the field of spec that a person changes to ask for something else.
func (p *Progress) field() string {
	if p.automatic != nil {
		return "spec.etcd.recovery"
	}
	return "spec.etcd.restore"
}

// Rendered is the reduced spec.etcd.restore for renderings. Once the data etcd was restored in place, its members must know the clusters
// whose data must not start again, even after a person takes the request away. A request that has not begun restarts no pod.
func (p *Progress) Rendered(controlPlane *controlplanev1.KOKControlPlane, reduced *controlplanev1.EtcdRestoreSpec) *controlplanev1.EtcdRestoreSpec {
	switch {
	case p.Ever(controlPlane):
		return &controlplanev1.EtcdRestoreSpec{}
	case p.request != "":
		return nil
	}
	return reduced
}

// Read reads how far a restore in place has come. It asks the API server for the record only if an etcd may have to be founded
// anew, or if the status of the data etcd was lost. It always reads from the cache when the controller last founded the etcd with
// the events anew, because conditions may be written before the rest of status.
func Read(ctx context.Context, of *Facts) (Progress, error) {
	p, cached := Progress{request: requestOf(of.ControlPlane)}, &corev1.ConfigMap{}
	if err := of.Host.Client.Get(ctx, recordKey(of), cached); client.IgnoreNotFound(err) != nil {
		return p, fmt.Errorf("read the record of the last restore in place, ConfigMap %s: %w", recordKey(of), err)
	}
	_, p.events, _ = parse(cached.Data) // What cannot be read is told when the record is needed.
	data := etcdclusters.Status(of.ControlPlane, names.EtcdData)
	open := p.request > rebuild.Stamp(data.RestoredAt.Time) || // Times in UTC, which sort as texts.
		data.Restoring != nil || slices.Contains(unsettled, conditions.GetReason(of.ControlPlane, conditionsv1.EtcdRecoveringCondition))
	lost := data.Name == "" || !ptr.Deref(data.Bootstrapped, false) && conditions.IsTrue(of.ControlPlane, conditionsv1.InitializedCondition)
	if !open && !lost {
		return p, nil
	}
	return p.readRecord(ctx, of)
}

// unsettled are the reasons of EtcdRecovering in which the controller may have begun a restore by itself. The record is written before the
// condition is.
var unsettled = []string{conditionsv1.NeedsDecisionReason, conditionsv1.RestoringReason}

// mayAskByItself reports whether etcd may have to be founded anew, and spec lets the controller do that without a person.
func mayAskByItself(controlPlane *controlplanev1.KOKControlPlane) bool {
	recovery := controlPlane.Spec.Etcd.Recovery
	return (recovery == controlplanev1.EtcdRecoversFromSurvivor || recovery == controlplanev1.EtcdRecoversAutomatically) &&
		conditions.GetReason(controlPlane, conditionsv1.EtcdRecoveringCondition) == conditionsv1.NeedsDecisionReason
}

// mayFoundEvents reports whether the etcd with the events may have to be founded anew, and spec lets the controller do that without a person.
// Its members may prove their loss only after the data etcd began to be restored.
func (p *Progress) mayFoundEvents(controlPlane *controlplanev1.KOKControlPlane) bool {
	return p.read && controlPlane.Spec.Etcd.Recovery == controlplanev1.EtcdRecoversAutomatically &&
		slices.Contains(unsettled, conditions.GetReason(controlPlane, conditionsv1.EtcdRecoveringCondition))
}

// readRecord reads the record of the last restore in place.
func (p Progress) readRecord(ctx context.Context, of *Facts) (Progress, error) {
	config, key := &corev1.ConfigMap{}, recordKey(of)
	// A cache that lacks the record would let a restore that is under way begin again.
	err := of.Host.Live.Get(ctx, key, config)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return p, fmt.Errorf("read the record of the last restore in place, ConfigMap %s: %w", key, err)
	default:
		if p.Record, p.events, err = parse(config.Data); err != nil {
			return p, fmt.Errorf("read the record of the last restore in place, ConfigMap %s: %w: put back what it was", key, err)
		}
		p.stored = config
	}
	p.read = true
	if p.Record.Automatic && p.Record.Begins != nil && p.request <= p.Record.Restore { // Times in UTC, which sort as texts.
		if over := etcdclusters.Status(of.ControlPlane, names.EtcdData).RestoredAt; p.Record.UnderWay() && p.request > rebuild.Stamp(over.Time) {
			p.superseded = p.request
		}
		p.request, p.automatic = p.Record.Restore, p.Record.Begins
	}
	return p, nil
}

func recordKey(of *Facts) client.ObjectKey {
	return client.ObjectKey{Namespace: of.Cluster.Namespace, Name: names.RestoreRecord(of.Cluster.Name)}
}

// parse reads what the ConfigMap with the record has.
func parse(data map[string]string) (record rebuild.Record, events metav1.Time, err error) {
	if at := data[EventsKey]; at != "" {
		if events.Time, err = time.Parse(time.RFC3339, at); err != nil {
			return record, events, err
		}
	}
	if text, has := data[RecordKey]; has || events.IsZero() { // Only the events may have been founded anew.
		err = json.Unmarshal([]byte(text), &record)
	}
	return record, events, err
}

// requestOf identifies the restore in place that a control plane asks for, by its requestedAt; empty for none.
func requestOf(controlPlane *controlplanev1.KOKControlPlane) string {
	if controlPlane.Spec.Etcd.Restore == nil {
		return ""
	}
	return rebuild.Stamp(controlPlane.Spec.Etcd.Restore.RequestedAt.Time)
}

// writeData writes how far a restore of the data etcd has come. It runs before the step that the record is about.
func (p Progress) writeData(ctx context.Context, of *Facts, record rebuild.Record) (Progress, error) {
	raw, err := json.Marshal(record)
	if err != nil {
		return p, err
	}
	if p, err = p.writeRecord(ctx, of, RecordKey, string(raw)); err == nil {
		p.Record = record
	}
	return p, err
}

// writeEvents writes when the controller began by itself to found the etcd with the events anew. It runs before anything stops.
func (p Progress) writeEvents(ctx context.Context, of *Facts, at metav1.Time) (_ Progress, err error) {
	if p, err = p.writeRecord(ctx, of, EventsKey, rebuild.Stamp(at.Time)); err == nil {
		p.events = at
	}
	return p, err
}

// writeRecord writes one key of the ConfigMap with the record.
func (p Progress) writeRecord(ctx context.Context, of *Facts, key, text string) (_ Progress, err error) {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: of.Cluster.Namespace, Name: names.RestoreRecord(of.Cluster.Name), Labels: names.ComponentLabels(of.Cluster, names.EtcdData),
	}, Data: map[string]string{}}
	if p.stored != nil {
		config = p.stored.DeepCopy()
	}
	if of.HostOwner != nil {
		config.OwnerReferences = []metav1.OwnerReference{*of.HostOwner}
	}
	config.Data[key] = text
	if p.stored == nil {
		err = of.Host.Client.Create(ctx, config, client.FieldOwner(names.FieldManager))
	} else {
		unchanged := client.MergeFromWithOptions(p.stored, client.MergeFromWithOptimisticLock{})
		err = of.Host.Client.Patch(ctx, config, unchanged, client.FieldOwner(names.FieldManager))
	}
	if err != nil {
		return p, fmt.Errorf("write the record of a restore in place, ConfigMap %s: %w", client.ObjectKeyFromObject(config), err)
	}
	p.stored = config
	return p, nil
}
