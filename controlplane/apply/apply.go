// Package apply writes desired objects to a cluster by server-side apply, and only when something
// differs: a settled tenant costs no write. It also repairs fields that others added:
// docs/decisions/rendering.md#apply-only-what-differs.
package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// RenderingAnnotation holds a hash of what was applied: when it is the wanted one, no applied field
// has to be taken away.
const RenderingAnnotation = "kok.cluster.x-k8s.io/rendering"

// Applier applies objects to one cluster.
type Applier struct {
	client client.Client
	live   client.Reader
	// settled remembers the resource version at which an object was last found or made equal to a
	// rendering, so that something a webhook of that cluster always changes back is not fought over.
	settled sync.Map
	// known remembers the UID of each object that was found or made, repaired the resource version at which one was
	// found edited: a cache may show that again for a moment.
	known, repaired sync.Map
}

// Result is what Apply did.
type Result struct {
	// Live is the object as it is now.
	Live client.Object
	// Wrote is true when that took a write.
	Wrote bool
	// Repair is what was repaired; nil when nobody had edited or deleted the object.
	Repair *Repair
}

type settledKey struct {
	tenant client.ObjectKey
	kind   string
	name   types.NamespacedName
}

type settledValue struct{ resourceVersion, rendering string }

// New returns an Applier that reads and writes with a client. The client may read from a cache that keeps only what Trim leaves. live reads
// from the API server.
func New(c client.Client, live client.Reader) *Applier { return &Applier{client: c, live: live} }

// Forget drops what is remembered of a tenant's objects.
func (a *Applier) Forget(tenant client.ObjectKey) {
	for _, memory := range []*sync.Map{&a.settled, &a.known, &a.repaired} {
		memory.Range(func(key, _ any) bool {
			if key.(settledKey).tenant == tenant {
				memory.Delete(key)
			}
			return true
		})
	}
}

// Apply makes the live object have every field of desired, and no spec or data field that another
// manager added.
func (a *Applier) Apply(ctx context.Context, desired client.Object) (Result, error) {
	wanted, err := Prepare(desired, a.client.Scheme())
	if err != nil {
		return Result{}, err
	}
	live := desired.DeepCopyObject().(client.Object)
	key := client.ObjectKeyFromObject(desired)
	memory := settledKey{tenant: names.Tenant(desired), kind: wanted.GetKind(), name: key}
	rendering := wanted.GetAnnotations()[RenderingAnnotation]
	var repair *Repair

	switch err := a.client.Get(ctx, key, live); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return Result{}, fmt.Errorf("read %s %s: %w", wanted.GetKind(), key, err)
	default:
		if last, ok := a.settled.Load(memory); ok && last == (settledValue{live.GetResourceVersion(), rendering}) {
			return Result{Live: live}, nil
		}
		drift, err := a.drift(wanted, live)
		if err != nil {
			return Result{}, err
		}
		if drift == none {
			a.remember(memory, live, rendering)
			return Result{Live: live}, nil
		}
		repair = a.edited(memory, live, drift, rendering)
		if drift == foreignFields {
			if err := a.takeOver(ctx, live); err != nil {
				return Result{}, fmt.Errorf("take over fields that others set on %s %s: %w", wanted.GetKind(), key, err)
			}
		}
	}

	if err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted),
		client.FieldOwner(names.FieldManager), client.ForceOwnership); err != nil {
		return Result{}, fmt.Errorf("apply %s %s: %w", desired.GetObjectKind().GroupVersionKind().Kind, key, err)
	}
	made := desired.DeepCopyObject().(client.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(wanted.Object, made); err != nil {
		return Result{}, fmt.Errorf("read the applied %s %s: %w", wanted.GetKind(), key, err)
	}
	repair = a.count(memory, live, made, repair)
	return Result{Live: made, Wrote: true, Repair: repair}, a.settle(memory, wanted, made, rendering)
}

// remember keeps that an object is equal to a rendering.
func (a *Applier) remember(memory settledKey, live client.Object, rendering string) {
	repairs.WithLabelValues(memory.kind) // Prometheus sees no increase in a series that begins with 1.
	a.known.Store(memory, live.GetUID())
	a.settled.Store(memory, settledValue{live.GetResourceVersion(), rendering})
}

// settle remembers an object as the API server returned it. It forgets one that has fields which others added after it was
// read, so that the next event finds them.
func (a *Applier) settle(memory settledKey, wanted *unstructured.Unstructured, live client.Object, rendering string) error {
	drift, err := a.drift(wanted, live)
	if err != nil {
		return err
	}
	a.remember(memory, live, rendering)
	if drift == foreignFields {
		a.settled.Delete(memory)
	}
	return nil
}

// Prepare turns a typed object into what is sent: without what only the server sets, with the hash
// of the rest in the RenderingAnnotation.
func Prepare(desired client.Object, scheme *runtime.Scheme) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(desired, scheme)
	if err != nil {
		return nil, fmt.Errorf("apply %T %s: %w", desired, client.ObjectKeyFromObject(desired), err)
	}
	wanted, err := toUnstructured(desired)
	if err != nil {
		return nil, err
	}
	wanted.SetGroupVersionKind(gvk)
	return wanted, mark(wanted)
}

// mark gives an object the RenderingAnnotation with the hash of the rest. A Service that asks for an address
// is no other rendering than one that is given it.
func mark(wanted *unstructured.Unstructured) error {
	rest := wanted
	if wanted.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Service") {
		rest = wanted.DeepCopy()
		unstructured.RemoveNestedField(rest.Object, "spec", "clusterIP")
	}
	raw, err := json.Marshal(rest.Object)
	if err != nil {
		return fmt.Errorf("hash %s %s: %w", wanted.GetKind(), client.ObjectKeyFromObject(wanted), err)
	}
	hash := sha256.Sum256(raw)
	annotations := wanted.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[RenderingAnnotation] = hex.EncodeToString(hash[:8])
	wanted.SetAnnotations(annotations)
	return nil
}

func toUnstructured(object client.Object) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("convert %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	delete(fields, "status")
	u := &unstructured.Unstructured{Object: fields}
	for _, path := range [][]string{
		{"metadata", "creationTimestamp"},
		{"spec", "template", "metadata", "creationTimestamp"},
	} {
		unstructured.RemoveNestedField(fields, path...)
	}
	if claims, ok, _ := unstructured.NestedSlice(fields, "spec", "volumeClaimTemplates"); ok {
		for _, claim := range claims {
			delete(claim.(map[string]any), "status")
			unstructured.RemoveNestedField(claim.(map[string]any), "metadata", "creationTimestamp")
		}
		_ = unstructured.SetNestedSlice(fields, claims, "spec", "volumeClaimTemplates")
	}
	return u, nil
}
