// Package rewriting has API servers write again what a former encryption key encrypted.
//
// Etcd tells what is left to do, and that nothing is: all that an API server encrypts begins with the name of the key, which shows
// without any key. API servers do the work: an update that changes nothing is stored when the stored
// value is of another key than the one that writes now (GuaranteedUpdate of k8s.io/apiserver). The content of objects comes to the
// manager in neither way: it asks API servers for metadata, and looks at the beginning of what is in etcd.
//
// Nothing is recorded of it. A pass through all of etcd in which no value was of another key is the proof, as long as API servers write by
// the new key alone. A manager that starts anew looks again.
package rewriting

import (
	"context"
	"errors"
	"maps"
	"strings"

	"k8s.io/client-go/rest"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

// Etcd reads what API servers stored in an etcd cluster: etcd.EachValue for its members.
type Etcd func(ctx context.Context, from string, do func(key string, value []byte)) (next string, err error)

// Rewriter has the objects of a tenant written again. It is not for use by several at a time.
type Rewriter struct {
	// File is what the name of the new key ends in; API servers write by that key alone.
	File string
	// Encryption is what API servers encrypt.
	Encryption controlplanev1.EncryptionAtRestSpec
	// Etcds are all that have objects of the tenant.
	Etcds []Etcd
	// Connect makes a configuration for clients of the tenant's API, and Guard stands before that.
	Connect func() (*rest.Config, error)
	Guard   *tenantapi.Guard

	// pass is the look at etcd that is under way, and goes on where it was.
	pass *pass
	// last is what the last whole pass found; nil before the first one.
	last map[string]int
	// rewritten is how many objects were written again.
	rewritten int
	done      bool
}

// Progress is how far it has come.
type Progress struct {
	// Done is true after a whole pass that found nothing of another key.
	Done bool
	// Left is how many values were of another key in the last whole pass, by resource; nil before the first one ended.
	Left map[string]int
	// Looked is how many values the present pass has looked at, Rewritten how many objects were written again since the manager began.
	Looked, Rewritten int
}

// Run looks and has objects written until nothing is left, until it comes no further, or until the context ends. The next run goes on.
// The error is why it comes no further; nil for the end of the context.
func (r *Rewriter) Run(ctx context.Context) (Progress, error) {
	err := r.run(ctx)
	if ctx.Err() != nil {
		err = nil
	}
	progress := Progress{Done: r.done, Left: maps.Clone(r.last), Rewritten: r.rewritten}
	if r.pass != nil {
		progress.Looked = r.pass.looked
	}
	return progress, err
}

func (r *Rewriter) run(ctx context.Context) error {
	for before := -1; !r.done; {
		if r.pass == nil {
			r.pass = newPass()
		}
		if err := r.pass.look(ctx, r.Etcds, r.File); err != nil {
			return err
		}
		found := r.pass
		r.pass, r.last = nil, found.left
		if r.done = found.total() == 0; r.done {
			return nil
		}
		if before >= 0 && found.total() >= before {
			return nil // Others wrote it meanwhile, or nothing that the API tells of is left: the next run looks again.
		}
		before = found.total()
		if err := r.rewrite(ctx, found); err != nil {
			return err
		}
	}
	return nil
}

// mostKeys is how many keys of a pass are remembered. The others are for the next pass.
const mostKeys = 20000

// pass is one look at all that is in etcd.
type pass struct {
	// etcd is the cluster that is looked at, next the key to go on from.
	etcd int
	next string
	// looked is how many values were looked at, left how many of them are of another key, by resource.
	looked int
	left   map[string]int
	// objects are namespaces and names of objects with such a value, as "namespace/name", and names alone where they have no namespace:
	// of a key that ends in a/b it is not known whether a is a namespace or a resource.
	objects map[string]bool
}

func newPass() *pass { return &pass{left: map[string]int{}, objects: map[string]bool{}} }

// look goes on to the end of the last etcd.
func (p *pass) look(ctx context.Context, etcds []Etcd, file string) error {
	if len(etcds) == 0 {
		return errors.New("there is no etcd to look at")
	}
	for p.etcd < len(etcds) {
		next, err := etcds[p.etcd](ctx, p.next, func(key string, value []byte) {
			p.looked++
			if pki.IsOfAnotherKey(value, file) {
				p.add(key)
			}
		})
		if p.next = next; err != nil {
			return err
		}
		p.etcd++
	}
	return nil
}

func (p *pass) add(key string) {
	p.left[resourceOf(key)]++
	parts := strings.Split(key, "/")
	if len(p.objects) >= mostKeys || len(parts) < 3 {
		return
	}
	name := parts[len(parts)-1]
	p.objects[name], p.objects[parts[len(parts)-2]+"/"+name] = true, true
}

func (p *pass) total() int {
	total := 0
	for _, count := range p.left {
		total += count
	}
	return total
}

// has reports whether the value of an object may be of another key. An object with its name elsewhere may be taken for it, to no harm.
func (p *pass) has(namespace, name string) bool {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return p.objects[name]
}

// resourceOf is the resource of a key as people know it: "secrets" of /registry/secrets/a/b, "widgets.example.org" of
// /registry/example.org/widgets/a/b.
func resourceOf(key string) string {
	parts := strings.Split(key, "/")
	// The first part is empty, the second one is registry.
	if len(parts) < 4 {
		return "others"
	}
	resource := parts[2]
	if strings.Contains(resource, ".") {
		resource = parts[3] + "." + resource
	}
	if resource == "" || len(resource) > maxResource || strings.Trim(resource, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
		return "others"
	}
	return resource
}

// maxResource bounds names of resources.
const maxResource = 100
