//go:build attack

package namespaceuser

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

const pollInterval = 300 * time.Millisecond

// marker is in every Secret of the victim, and nowhere else.
const marker = "SECRET-OF-THE-VICTIM"

// harm is what the attacker got that is not theirs; empty for nothing.
func (a *attacker) harm(t *testing.T, before map[string]string) string {
	t.Helper()
	found := differences(before, elsewhere(t))
	found = append(found, a.leaked(t)...)
	found = append(found, a.privileges(t)...)
	if _, err := os.Stat(a.ran); err == nil {
		found = append(found, "a manager ran a program of the attacker")
	}
	if ended := management.ended(); ended != "" {
		found = append(found, ended)
	}
	return strings.Join(found, "; ")
}

// unwatched are kinds that the API server itself changes all the time, or that are large and no manager may write.
var unwatched = []string{"Event", "Lease", "CustomResourceDefinition", "APIService", "FlowSchema", "PriorityLevelConfiguration", "ComponentStatus", "ServiceCIDR", "IPAddress"}

// kinds are those of all objects that are watched for changes.
func kinds(t *testing.T) []schema.GroupVersionKind {
	t.Helper()
	asked, err := discovery.NewDiscoveryClientForConfig(management.config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := asked.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	var all []schema.GroupVersionKind
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if slices.Contains(resource.Verbs, "list") && !slices.Contains(unwatched, resource.Kind) {
				all = append(all, version.WithKind(resource.Kind))
			}
		}
	}
	return all
}

// list gives all objects of all kinds that are watched.
func list(t *testing.T, options ...client.ListOption) []unstructured.Unstructured {
	t.Helper()
	var all []unstructured.Unstructured
	for _, kind := range kinds(t) {
		found := &unstructured.UnstructuredList{}
		found.SetGroupVersionKind(kind)
		if err := management.client.List(t.Context(), found, options...); err != nil {
			t.Fatalf("list %s: %v", kind.Kind, err)
		}
		all = append(all, found.Items...)
	}
	return all
}

// elsewhere is what people and managers wrote of all that is not in the namespaces of attackers, without the claims of their port blocks. It
// leaves out earlier attackers, too, because managers still work on what those made.
func elsewhere(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, object := range list(t) {
		if slices.Contains(attackers, object.GetNamespace()) || slices.Contains(attackers, object.GetLabels()[names.ClusterNamespaceLabel]) ||
			object.GetKind() == "Namespace" && slices.Contains(attackers, object.GetName()) {
			continue
		}
		key := fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
		unstructured.RemoveNestedField(object.Object, "status")
		object.SetManagedFields(nil)
		object.SetResourceVersion("")
		content, err := json.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		all[key] = string(content)
	}
	return all
}

func differences(before, after map[string]string) []string {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	var found []string
	for key, content := range after {
		if was, there := before[key]; !there {
			found = append(found, key+" was made")
		} else if was != content {
			found = append(found, key+" was changed")
		}
	}
	for key := range before {
		if _, there := after[key]; !there {
			found = append(found, key+" was deleted")
		}
	}
	slices.Sort(found)
	return found
}

// leaked is what of the victim's Secrets and of the managers' tokens is in the attacker's namespace, or came to their servers.
func (a *attacker) leaked(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, object := range list(t, client.InNamespace(a.namespace)) {
		if object.GetNamespace() != a.namespace || a.isNeighbours(object.GetName()) {
			continue
		}
		content, err := json.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		if holds(content, marker) {
			found = append(found, fmt.Sprintf("%s %s has what is in a Secret of the victim", object.GetKind(), object.GetName()))
		}
	}
	for _, ear := range a.ears {
		heard := ear.all()
		if holds(heard, marker) {
			found = append(found, "a server of the attacker was sent what is in a Secret of the victim")
		}
		for _, manager := range management.managers {
			if holds(heard, manager.token) {
				found = append(found, "a server of the attacker was sent the token of the manager of "+manager.name)
			}
		}
	}
	return found
}

func (a *attacker) isNeighbours(name string) bool {
	return slices.ContainsFunc(a.neighbours, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// holds reports whether a text holds another, as it is or in base64, once or twice.
func holds(text []byte, word string) bool {
	for _, form := range encodings(word) {
		if bytes.Contains(text, []byte(form)) {
			return true
		}
		for _, again := range encodings(form) {
			if bytes.Contains(text, []byte(again)) {
				return true
			}
		}
	}
	return false
}

// encodings are a word, and what of base64 depends on it alone, wherever in a longer text it begins.
func encodings(word string) []string {
	forms := []string{word}
	for shift := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("-", shift) + word))
		forms = append(forms, encoded[(shift*8+5)/6:len(encoded)-1])
	}
	return forms
}
