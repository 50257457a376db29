package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
)

const (
	// Component is what revisions of spec have in the place of a component, in revision.ComponentLabel.
	Component = "spec"
	// Limit is the number of revisions of spec that are kept.
	Limit = 10

	// maxBytes is how much a revision holds at most. etcd takes no request of more than 1.5 MiB.
	maxBytes = 1 << 20
	// maxNumber is more than any program counts to. A higher number was written by somebody else.
	maxNumber = 1 << 53
)

// Content is what a revision of spec holds. It is immutable: the API server refuses changes of it.
type Content struct {
	// Hash is of Spec. It decides whether a spec is recorded already.
	Hash string `json:"hash"`
	// Version is the Kubernetes version of Spec.
	Version string `json:"version"`
	// Provider is the version of the provider that recorded Spec.
	Provider string `json:"provider"`
	// At is when Spec was written, as far as its managed fields tell, else when it was recorded.
	At metav1.Time `json:"at"`
	// By are the field managers that changed it; none where that is not known.
	By []string `json:"by,omitempty"`
	// Changed are the fields that differ from the revision before.
	Changed []string `json:"changed,omitempty"`
	// WayBack is the JSON patch of the KOKControlPlane that takes these changes back. There is none of the first revision, of a
	// Cluster with a topology, and where only fields changed that are never taken back.
	WayBack []jsonpatch.Operation `json:"wayBack,omitempty"`
	// Spec is the spec without endpoint, ports and replicas. Where it is too large there is none.
	Spec json.RawMessage `json:"spec,omitempty"`
}

// Read gives what a revision of spec holds.
func Read(from *appsv1.ControllerRevision) (*Content, error) {
	content := &Content{}
	if err := json.Unmarshal(from.Data.Raw, content); err != nil {
		return nil, fmt.Errorf("ControllerRevision %s holds no spec that can be read: %w", client.ObjectKeyFromObject(from), err) //nolint:staticcheck // A kind.
	}
	return content, nil
}

// SpecOf is the spec that a revision holds; nil where it is too large to be kept.
func (c *Content) SpecOf() (*controlplanev1.KOKControlPlaneSpec, error) {
	if len(c.Spec) == 0 {
		return nil, nil
	}
	spec := &controlplanev1.KOKControlPlaneSpec{}
	if err := json.Unmarshal(c.Spec, spec); err != nil {
		return nil, fmt.Errorf("read the spec of a revision: %w", err)
	}
	return spec, nil
}

// Input is what a decision depends on.
type Input struct {
	// Cluster is the tenant, and ControlPlane its control plane.
	Cluster      client.ObjectKey
	ControlPlane *controlplanev1.KOKControlPlane
	// Known are the revisions of spec, from the oldest to the newest.
	Known []appsv1.ControllerRevision
	// Named are the revisions of spec that stored renderings name. They count where none are known: after a move, or when
	// somebody deleted them.
	Named []revision.Spec
	// Topology is true where the Cluster has a topology, which would put back what is taken back here.
	Topology bool
	// Provider is the version of the provider.
	Provider string
	// Now is the present time.
	Now time.Time
}

// Decision is what is to be done.
type Decision struct {
	// Spec is the revision that has the present spec.
	Spec revision.Spec
	// Make is that revision, where it is not there yet.
	Make *appsv1.ControllerRevision
	// Delete are the oldest ones, of which there are too many once Make is made.
	Delete []appsv1.ControllerRevision
}

// Decide says which revision the present spec has, and which revisions are to be made and deleted.
func Decide(in Input) (Decision, error) {
	spec, err := recorded(&in.ControlPlane.Spec)
	if err != nil {
		return Decision{}, err
	}
	known := slices.DeleteFunc(slices.Clone(in.Known), func(r appsv1.ControllerRevision) bool {
		return r.Name != Name(in.Cluster.Name, r.Revision) || r.Revision >= maxNumber
	})
	hash := hashOf(spec)
	decision, number, before := Decision{}, in.numberByNames(hash), &Content{}
	if n := len(known); n > 0 {
		newest := &known[n-1]
		// A revision that cannot be read, because somebody else wrote it, counts as one without a spec.
		if content, err := Read(newest); err == nil {
			before = content
		}
		number = newest.Revision + 1
		if before.Hash == hash {
			decision.Spec = revision.Spec{Name: newest.Name, Hash: hash}
			decision.Delete = known[:max(0, n-Limit)]
			return decision, nil
		}
	}
	content, err := in.content(spec, before)
	if err != nil {
		return Decision{}, err
	}
	if decision.Make, err = in.revision(number, content); err != nil {
		return Decision{}, err
	}
	decision.Spec = revision.Spec{Name: decision.Make.Name, Hash: hash}
	decision.Delete = known[:max(0, len(known)+1-Limit)]
	return decision, nil
}

// content is what a revision of the present spec holds, after one before.
func (in *Input) content(spec json.RawMessage, before *Content) (*Content, error) {
	content := &Content{
		Hash: hashOf(spec), Version: in.ControlPlane.Spec.Version, Provider: in.Provider, At: metav1.NewTime(in.Now), Spec: spec,
	}
	changed := []string{""}
	// A spec before that cannot be read counts as missing.
	if former, err := before.SpecOf(); err == nil && former != nil {
		operations, err := difference(before.Spec, spec)
		if err != nil {
			return nil, err
		}
		changed = nil
		for _, operation := range operations {
			changed = append(changed, operation.Path)
			content.Changed = append(content.Changed, Field(operation.Path))
		}
		if !in.Topology {
			if content.WayBack, err = WayBack(&in.ControlPlane.Spec, former); err != nil {
				return nil, err
			}
		}
	}
	by, at := changers(in.ControlPlane.ManagedFields, changed)
	if content.By = by; !at.IsZero() {
		content.At = metav1.NewTime(at)
	}
	return content, nil
}

func (in *Input) revision(number int64, content *Content) (*appsv1.ControllerRevision, error) {
	data, err := json.Marshal(content)
	for _, leaveOut := range []func(){func() { content.WayBack = nil }, func() { content.Spec = nil }, func() { content.Changed = nil }} {
		if err != nil || len(data) <= maxBytes {
			break
		}
		leaveOut()
		data, err = json.Marshal(content)
	}
	if err != nil {
		return nil, fmt.Errorf("record spec: %w", err)
	}
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: Name(in.Cluster.Name, number), Namespace: in.ControlPlane.Namespace, Labels: Labels(in.Cluster),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(in.ControlPlane, controlplanev1.GroupVersion.WithKind("KOKControlPlane"))},
		},
		Revision: number, Data: runtime.RawExtension{Raw: data},
	}, nil
}

// numberByNames is the number of a spec where no revision is known: that of the last one which renderings name, if this is the same,
// else the next one.
func (in *Input) numberByNames(hash string) int64 {
	var last int64
	same := false
	for _, named := range in.Named {
		number := Number(in.Cluster.Name, named.Name)
		if number > 0 && number < maxNumber && number >= last {
			last, same = number, named.Hash == hash
		}
	}
	if same {
		return last
	}
	return last + 1
}

// Name is the name of a revision of spec.
func Name(cluster string, number int64) string {
	return fmt.Sprintf("%s-%d", names.Object(cluster, Component), number)
}

// Number is the number in the name of a revision of spec; 0 for any other name.
func Number(cluster, name string) int64 {
	number, err := strconv.ParseInt(strings.TrimPrefix(name, names.Object(cluster, Component)+"-"), 10, 64)
	if err != nil || Name(cluster, number) != name {
		return 0
	}
	return max(0, number)
}

// Labels are those of revisions of spec.
func Labels(cluster client.ObjectKey) map[string]string {
	labels := names.Labels(cluster)
	labels[revision.ComponentLabel] = Component
	return labels
}

// List reads the revisions of spec of a tenant, from the oldest to the newest.
func List(ctx context.Context, reader client.Reader, cluster client.ObjectKey) ([]appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := reader.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabels(Labels(cluster))); err != nil {
		return nil, fmt.Errorf("list the revisions of spec of cluster %s: %w", cluster, err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	return list.Items, nil
}

// Of are the revisions of a control plane, without those of another one that had its name before.
func Of(controlPlane *controlplanev1.KOKControlPlane, all []appsv1.ControllerRevision) []appsv1.ControllerRevision {
	return slices.DeleteFunc(slices.Clone(all), func(r appsv1.ControllerRevision) bool { return !IsOf(controlPlane, &r) })
}

// IsOf reports whether a revision is a control plane's, or nobody's.
func IsOf(controlPlane *controlplanev1.KOKControlPlane, r *appsv1.ControllerRevision) bool {
	owner := metav1.GetControllerOf(r)
	return owner == nil || owner.UID == controlPlane.UID
}
