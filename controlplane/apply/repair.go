package apply

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// repairs are counted in host clusters alone.
var repairs = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "kok_repairs_total",
	Help: "Objects in host clusters that were put back after somebody edited or deleted them, by their kind.",
}, []string{"kind"})

func init() { metrics.Registry.MustRegister(repairs) }

// Repair is an object that was put back.
type Repair struct {
	// Object is the object as it is now.
	Object corev1.ObjectReference
	// Deleted is true when it was missing; else it was edited.
	Deleted bool
	// Editors are the field managers that edited it; none where the API server names nobody, as for a removed field.
	Editors []string
}

// maxEditors bounds how many field managers a message names.
const maxEditors = 3

// String says what was repaired, for people.
func (r Repair) String() string {
	what := fmt.Sprintf("%s %s", r.Object.Kind, r.Object.Name)
	switch {
	case r.Deleted:
		return what + " was deleted and is made again"
	case len(r.Editors) == 0:
		return what + " was edited and is put back; the API server does not tell by whom"
	}
	named := r.Editors[:min(len(r.Editors), maxEditors)]
	return fmt.Sprintf("%s was edited by %q and is put back", what, strings.Join(named, ", "))
}

// edited is the repair of a live object that differs from what is wanted; nil when the rendering that was applied is
// another one, so that it is not somebody else who made the difference, or when a late cache shows the edit again.
func (a *Applier) edited(memory settledKey, live client.Object, drift drift, rendering string) *Repair {
	if drift != foreignFields && live.GetAnnotations()[RenderingAnnotation] != rendering {
		return nil
	}
	if last, ok := a.repaired.Load(memory); ok && last == live.GetResourceVersion() {
		return nil
	}
	return &Repair{Editors: editors(live.GetManagedFields())}
}

// count finishes and counts the repair of an object that was written. An object that this process knew under another UID was deleted. A
// deletion before the process started looks like an object that is made for the first time.
func (a *Applier) count(memory settledKey, before, made client.Object, repair *Repair) *Repair {
	if repair != nil {
		a.repaired.Store(memory, before.GetResourceVersion())
	}
	if uid, ok := a.known.Load(memory); ok && uid.(types.UID) != made.GetUID() {
		repair = &Repair{Deleted: true}
	}
	if repair == nil {
		return nil
	}
	repair.Object = corev1.ObjectReference{
		APIVersion: made.GetObjectKind().GroupVersionKind().GroupVersion().String(), Kind: memory.kind,
		Namespace: made.GetNamespace(), Name: made.GetName(), UID: made.GetUID(),
	}
	repairs.WithLabelValues(memory.kind).Inc()
	return repair
}

// Dismiss drops what is remembered of an object that the manager itself deletes: when it is wanted again, that is no repair.
func (a *Applier) Dismiss(kind string, object client.Object) {
	memory := settledKey{tenant: names.Tenant(object), kind: kind, name: client.ObjectKeyFromObject(object)}
	for _, of := range []interface{ Delete(any) }{&a.settled, &a.known, &a.repaired} {
		of.Delete(memory)
	}
}

// editors are the managers that own content, or else labels, which others have no business with.
func editors(entries []metav1.ManagedFieldsEntry) []string {
	var content, labels []string
	for _, entry := range entries {
		if foreign, err := ownsContent(entry); err == nil && foreign {
			content = append(content, entry.Manager)
		} else if entry.Manager != names.FieldManager && ownsLabels(entry) {
			labels = append(labels, entry.Manager)
		}
	}
	if len(content) == 0 {
		content = labels
	}
	slices.Sort(content)
	return slices.Compact(content)
}

func ownsLabels(entry metav1.ManagedFieldsEntry) bool {
	if entry.Subresource != "" || entry.FieldsV1 == nil {
		return false
	}
	var fields struct {
		Metadata map[string]json.RawMessage `json:"f:metadata"`
	}
	if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
		return false
	}
	return fields.Metadata["f:labels"] != nil
}
