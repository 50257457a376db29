package rewriting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

const (
	// readTimeout bounds a request for what the tenant's API serves. writeTimeout bounds the write of one object: it is shorter than a run,
	// so that no object takes up every run, and longer than API servers and webhooks take.
	readTimeout  = 10 * time.Second
	writeTimeout = 40 * time.Second
	// registration is the API group of APIServices, each of which says who serves a version.
	registration = "apiregistration.k8s.io"
)

// api is the tenant's API. It reads the kinds of a version once, when it needs them.
type api struct {
	rest rest.Interface
	// groups are all that are served. kinds are by version, for the versions that api has read.
	groups []group
	kinds  map[schema.GroupVersion]kinds
}

// kinds are the kinds of a version, or why they are not known.
type kinds struct {
	all []kind
	err error
}

type group struct {
	name     string
	versions []schema.GroupVersion
}

// connect asks which groups there are.
func (r *Rewriter) connect(ctx context.Context) (*api, error) {
	config, err := r.Connect()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	config.Wrap(bounded)
	tenant, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the tenant: %w", err)
	}
	a := &api{rest: tenant, kinds: map[schema.GroupVersion]kinds{}}
	served := &metav1.APIGroupList{}
	if err := a.read(ctx, served, "apis"); err != nil {
		return nil, fmt.Errorf("read the API groups of the tenant: %w", err)
	}
	a.groups = append(a.groups, group{versions: []schema.GroupVersion{{Version: "v1"}}})
	for _, found := range served.Groups {
		var versions []string
		for _, version := range found.Versions {
			versions = append(versions, version.GroupVersion)
		}
		a.groups = append(a.groups, group{found.Name, usable(found.PreferredVersion.GroupVersion, versions)})
	}
	return a, nil
}

// target is an object of a kind.
type target struct {
	kind            *kind
	namespace, name string
}

// targets are the objects that an API server may have stored at a key. There are several where groups share what they store, or where the
// key does not tell the group. Objects that do not exist cannot be written, and a write changes no other object. The error says why some
// targets may be missing.
func (a *api) targets(ctx context.Context, key string) ([]target, error) {
	var targets []target
	var failed []error
	for _, group := range a.groups {
		if !mayHold(group.name, key) {
			continue
		}
		seen := map[string]bool{}
		for _, version := range group.versions {
			kinds := a.kindsOf(ctx, version)
			failed = append(failed, kinds.err)
			for i := range kinds.all {
				kind := &kinds.all[i]
				namespace, name, found := kind.object(key)
				if found && !seen[kind.Resource] {
					seen[kind.Resource] = true
					targets = append(targets, target{kind, namespace, name})
				}
			}
		}
	}
	return targets, errors.Join(failed...)
}

// kindsOf are the kinds of a version that can be written again.
func (a *api) kindsOf(ctx context.Context, version schema.GroupVersion) kinds {
	known, asked := a.kinds[version]
	if !asked {
		known.all, known.err = a.readKinds(ctx, version)
		a.kinds[version] = known
	}
	return known
}

// readKinds reads the kinds that kube-apiserver itself serves. A version that an extension API server of the tenant serves has no kinds: that server stores its
// objects in another place, and gets no request.
func (a *api) readKinds(ctx context.Context, version schema.GroupVersion) ([]kind, error) {
	own, err := a.isOwn(ctx, version)
	if err != nil || !own {
		return nil, err
	}
	served := &metav1.APIResourceList{}
	if err := a.read(ctx, served, pathOf(version)...); err != nil {
		return nil, fmt.Errorf("read the kinds of %s of the tenant: %w", version, err)
	}
	var kinds []kind
	for _, resource := range served.APIResources {
		// The name of a subresource has a slash.
		if slices.Contains(resource.Verbs, "patch") && isName(resource.Name) && isName(resource.Kind) {
			kinds = append(kinds, kind{version.WithResource(resource.Name), resource.Kind, resource.Namespaced})
		}
	}
	return kinds, nil
}

// isOwn reports whether kube-apiserver itself serves a version.
func (a *api) isOwn(ctx context.Context, version schema.GroupVersion) (bool, error) {
	if version.Group == registration {
		return true, nil // It has no APIService.
	}
	service := struct {
		Spec struct {
			Service *struct{} `json:"service"`
		} `json:"spec"`
	}{}
	err := a.read(ctx, &service, "apis", registration, "v1", "apiservices", version.Version+"."+version.Group)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read who serves %s in the tenant: %w", version, err)
	}
	return service.Spec.Service == nil, nil
}

// read reads JSON.
func (a *api) read(ctx context.Context, into any, path ...string) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, err := a.rest.Get().AbsPath(path...).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

func pathOf(version schema.GroupVersion) []string {
	if version.Group == "" {
		return []string{"api", version.Version}
	}
	return []string{"apis", version.Group, version.Version}
}

// written is what became of the objects of a key.
type written struct {
	// settled is true if the API says that nothing is left to do. byWrite is true if it took a write.
	settled, byWrite bool
	// unserved is true if no API has such objects.
	unserved bool
	err      error
}

// write has API servers write again what they stored at a key.
func (a *api) write(ctx context.Context, key string) written {
	targets, err := a.targets(ctx, key)
	w := written{unserved: len(targets) == 0 && err == nil, err: err}
	for _, target := range targets {
		err := a.writeAgain(ctx, target)
		switch {
		case err == nil:
			w.settled, w.byWrite = true, true
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			w.settled = true // Somebody else wrote it, or it is gone: the next pass tells.
		default:
			w.err = errors.Join(w.err, err)
		}
	}
	w.settled = w.settled && w.err == nil
	return w
}

// writeAgain updates an object without a change. The API server stores it when what is stored is of another key.
func (a *api) writeAgain(ctx context.Context, t target) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: t.name}}
	object.SetGroupVersionKind(t.kind.GroupVersion().WithKind(t.kind.name))
	tenant := writes.Tell(&patcher{rest: a.rest, kind: t.kind}, writes.Tenant)
	if err := tenant.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{}`))); err != nil {
		return fmt.Errorf("write %s %s again: %w", t.kind.name, client.ObjectKeyFromObject(object), err)
	}
	return nil
}
