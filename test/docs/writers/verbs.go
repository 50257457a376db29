package writers

import (
	"go/types"
	"maps"
	"slices"
	"strings"
)

const (
	clientPackage = "sigs.k8s.io/controller-runtime/pkg/client"
	clusterAPI    = "sigs.k8s.io/cluster-api/"
	module        = "github.com/kube-on-kube/cluster-api-provider-kok/"
)

// requests are the methods of clients of API servers that write.
var requests = map[string]string{
	"Create": "create", "Update": "update", "Patch": "patch", "Delete": "delete", "DeleteAllOf": "delete", "Apply": "apply",
}

// readers are functions of libraries that take a client and write nothing themselves.
var readers = []string{
	clusterAPI + "util/patch.NewHelper", // Helper.Patch writes.
	clusterAPI + "util.GetClusterByName",
	clusterAPI + "util.GetClusterFromMetadata",
	clusterAPI + "util.GetOwnerCluster",
	clusterAPI + "util.GetOwnerMachine",
	clusterAPI + "util.ClusterToTypedObjectsMapper",
	clusterAPI + "util.ClusterToInfrastructureMapFunc",
}

// action is what one use of a function writes.
type action struct {
	verbs []string
	// kinds are empty where the object among the arguments tells; it is the one at the place object.
	kinds  []string
	object int
	// parts are subresources that are written as well as, or instead of, the object: "" is the object itself.
	parts []string
}

// libraries are functions of which neither name nor arguments tell what they write.
var libraries = map[string][]action{
	clusterAPI + "util/patch.Helper.Patch":                        {{verbs: []string{"patch"}, object: 1, parts: []string{"", "/status"}}},
	clusterAPI + "util/paused.EnsurePausedCondition":              {{verbs: []string{"patch"}, object: 3, parts: []string{"/status"}}},
	"k8s.io/client-go/tools/internal/events.EventRecorder.Eventf": {{verbs: []string{"create", "patch"}, kinds: []string{"Event"}}},
	clusterAPI + "util/flags.GetManagerOptions":                   {{verbs: []string{"create"}, kinds: []string{"TokenReview", "SubjectAccessReview"}}},
	"sigs.k8s.io/controller-runtime.NewManager":                   {{verbs: []string{"create", "update"}, kinds: []string{"Lease"}}},
	module + "infrastructure/hosts/bootstrap.Run":                 {{verbs: []string{"bootstrap"}, kinds: []string{"host"}}},
	module + "infrastructure/hosts/cleanup.Run":                   {{verbs: []string{"clean up"}, kinds: []string{"host"}}},
}

// etcdReads are the requests of etcd's client that write nothing.
var etcdReads = []string{"Status", "MemberList", "AlarmList", "Get", "HashKV"}

// hostWrites are the methods of a host that may change it. Only the folders below infrastructure/hosts use them: what a bootstrap and a
// clean-up do is one write each.
var hostWrites = []string{"Write", "Remove", "Unmount", "Change", "TryChange", "ChangeBy", "ChangeSilently", "Run", "Feed"}

// actionsOf tells what the use of a function writes; none for nothing.
func actionsOf(used types.Object) []action {
	name := fullName(used)
	if known, ok := libraries[name]; ok {
		return known
	}
	function, ok := used.(*types.Func)
	if !ok || used.Pkg() == nil || slices.Contains(readers, name) {
		return nil
	}
	path, signature := used.Pkg().Path(), function.Signature()
	ours := strings.HasPrefix(path+"/", module)
	verb := requests[used.Name()]
	switch {
	case path == module+"infrastructure/hosts" && typeOf(function) == "Host" && slices.Contains(hostWrites, used.Name()):
		return []action{{verbs: []string{"what " + used.Name() + " does"}, kinds: []string{"host"}}}
	case ours && (signature.Recv() == nil || !types.IsInterface(signature.Recv().Type())):
		return nil // Its own body is read.
	case ours && answersOfEtcd(signature) && !slices.Contains(etcdReads, used.Name()):
		return []action{{verbs: []string{used.Name()}, kinds: []string{"etcd"}}}
	case verb != "" && takesObject(signature):
		return []action{{verbs: []string{verb}, object: 1}}
	case strings.HasPrefix(path, "k8s.io/client-go/dynamic") && writesTyped(used.Name()):
		return []action{{verbs: []string{used.Name()}, kinds: []string{"what its resource says"}}}
	case strings.HasPrefix(path, "k8s.io/client-go/kubernetes/typed/") && writesTyped(used.Name()):
		return []action{{verbs: []string{used.Name()}, kinds: []string{strings.TrimSuffix(typeOf(function), "Interface")}}}
	case path == "k8s.io/client-go/rest" && slices.Contains([]string{"Post", "Put", "Patch", "Delete", "Verb"}, used.Name()):
		return []action{{verbs: []string{used.Name()}, kinds: []string{"what its path says"}}}
	case path == "go.etcd.io/etcd/client/v3" && takesContext(signature) && !slices.Contains(etcdReads, used.Name()):
		return []action{{verbs: []string{used.Name()}, kinds: []string{"etcd"}}}
	case !ours && takesWriter(signature):
		return []action{{verbs: []string{"what " + name + " does"}, kinds: []string{"what it is given"}}}
	}
	return nil
}

// writesTyped is true for Create, CreateToken, UpdateStatus and the like of client-go's clients.
func writesTyped(method string) bool {
	return slices.ContainsFunc(append(slices.Collect(maps.Keys(requests)), "Evict", "Bind"), func(verb string) bool { return strings.HasPrefix(method, verb) })
}

// fullName is package.Function, package.Type.Method or package.Variable.
func fullName(used types.Object) string {
	if used.Pkg() == nil {
		return used.Name()
	}
	if function, ok := used.(*types.Func); ok {
		if of := typeOf(function); of != "" {
			return used.Pkg().Path() + "." + of + "." + used.Name()
		}
	}
	return used.Pkg().Path() + "." + used.Name()
}

// typeOf is the name of the type that a method is of; empty for a function.
func typeOf(function *types.Func) string {
	if receiver := function.Signature().Recv(); receiver != nil {
		if named := namedOf(receiver.Type()); named != nil {
			return named.Obj().Name()
		}
	}
	return ""
}

func namedOf(t types.Type) *types.Named {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	named, _ := types.Unalias(t).(*types.Named)
	return named
}

func isNamed(t types.Type, path, name string) bool {
	named := namedOf(t)
	return named != nil && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == path && named.Obj().Name() == name
}

// takesObject is true for func(ctx, client.Object, ...), and for one with an apply configuration.
func takesObject(signature *types.Signature) bool {
	return signature.Params().Len() > 1 && takesContext(signature) && (isNamed(signature.Params().At(1).Type(), clientPackage, "Object") ||
		isNamed(signature.Params().At(1).Type(), "k8s.io/apimachinery/pkg/runtime", "ApplyConfiguration"))
}

func takesContext(signature *types.Signature) bool {
	return signature.Params().Len() > 0 && isNamed(signature.Params().At(0).Type(), "context", "Context")
}

// answersOfEtcd is true for what returns an answer of etcd's client, as methods of it do, and those of an interface that has some of them.
func answersOfEtcd(signature *types.Signature) bool {
	if !takesContext(signature) || signature.Results().Len() == 0 {
		return false
	}
	answer := namedOf(signature.Results().At(0).Type())
	return answer != nil && answer.Obj().Pkg() != nil && answer.Obj().Pkg().Path() == "go.etcd.io/etcd/client/v3"
}

// takesWriter is true for what is given a client that can write.
func takesWriter(signature *types.Signature) bool {
	for parameter := range signature.Params().Variables() {
		if of, ok := parameter.Type().Underlying().(*types.Interface); ok {
			for method := range of.Methods() {
				if requests[method.Name()] != "" && takesObject(method.Signature()) {
					return true
				}
			}
		}
	}
	return false
}

// kindOf is the kind of an object of that type; empty when the type does not tell.
func kindOf(t types.Type) string {
	named := namedOf(t)
	if named == nil || types.IsInterface(named) || slices.Contains([]string{"Unstructured", "PartialObjectMetadata"}, named.Obj().Name()) {
		return ""
	}
	return named.Obj().Name()
}
