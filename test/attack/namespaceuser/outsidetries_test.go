//go:build attack

package namespaceuser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// content is what a ControllerRevision stores of a component.
type content = map[string]any

// forged gives a control plane of the attacker a newer rendering of etcd than the manager's.
func (a *attacker) forged(plane *controlplanev1.KOKControlPlane, change func(content)) {
	a.t.Helper()
	forged := &appsv1.ControllerRevision{}
	eventually(a.t, "a rendering is stored", func(ctx context.Context) error {
		return a.client.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: names.Object(plane.Name, names.EtcdData) + "-1"}, forged)
	})
	stored := content{}
	if err := json.Unmarshal(forged.Data.Raw, &stored); err != nil {
		a.t.Fatal(err)
	}
	change(stored)
	raw, err := json.Marshal(stored)
	if err != nil {
		a.t.Fatal(err)
	}
	forged.ObjectMeta = metav1.ObjectMeta{Namespace: a.namespace, Name: names.Object(plane.Name, names.EtcdData) + "-2", Labels: forged.Labels}
	forged.Revision, forged.Data.Raw = 2, raw
	a.must(forged)
}

// storesTheSame is the permitted form of a rendering that the attacker wrote: one that is no other passes.
func storesTheSame(a *attacker) error {
	plane := a.running(nothing)
	a.forged(plane, func(content) {})
	if err := a.lookAgain(a.t.Context(), plane); err != nil {
		return err
	}
	if said := a.outcome(a.t, plane, "pods ready"); !strings.Contains(said, "pods ready") || strings.Contains(said, "is not applied") {
		return fmt.Errorf("the manager does not go on: %s", said)
	}
	return nil
}

// stores is a try of a rendering that the attacker wrote.
func stores(control func(*attacker) error, change func(content), stoppedBy string) try {
	return try{
		control: control,
		attack: func(a *attacker) (client.Object, error) {
			plane := a.running(nothing)
			a.forged(plane, change)
			return plane, a.lookAgain(a.t.Context(), plane)
		},
		stoppedBy: stoppedBy,
	}
}

// item is one object more.
func item(object content) func(content) {
	return func(stored content) { stored["items"] = append(stored["items"].([]any), object) }
}

// field is the StatefulSet with something else at a path.
func field(value any, path ...string) func(content) {
	return func(stored content) {
		for _, object := range stored["items"].([]any) {
			if object := object.(content); object["kind"] == "StatefulSet" {
				if err := unstructured.SetNestedField(object, value, path...); err != nil {
					panic(err)
				}
			}
		}
	}
}

func object(apiVersion, kind, namespace, name string) content {
	return content{"apiVersion": apiVersion, "kind": kind, "metadata": content{"namespace": namespace, "name": name}}
}

// volume is one of pods, with its source.
func volume(source string, of content) []any { return []any{content{"name": "extra", source: of}} }

// pods is the path of a field of pods.
func pods(path ...string) []string { return append([]string{"spec", "template", "spec"}, path...) }

func TestStoredRenderingsReachNoFurtherThanAPatch(t *testing.T) {
	a := newAttacker(t)
	passes := once(storesTheSame)
	manager := management.managers[0].namespace
	binding := object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "of-the-attacker")
	binding["roleRef"] = content{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
	confined := content{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": content{"drop": []any{"ALL"}}}
	port := content{"containerPort": int64(victims.ports), "hostPort": int64(victims.ports)}
	hostPorts := []any{content{"name": "etcd", "image": "a.example/etcd:v1", "securityContext": confined, "ports": []any{port}}}
	owner := []any{content{"apiVersion": "v1", "kind": "Namespace", "name": victim, "uid": "a"}}
	theirData := []any{content{"metadata": content{"name": "kok-data"}, "spec": content{"dataSource": content{
		"kind": "PersistentVolumeClaim", "name": "kok-data-red-etcd-data-0",
	}}}}
	tries := map[string]try{
		"a role for everybody":                        stores(passes, item(binding), "has no such kind"),
		"a ConfigMap of the victim":                   stores(passes, item(object("v1", "ConfigMap", victim, "of-the-attacker")), "metadata.namespace must be"),
		"a claim of ports":                            stores(passes, item(object("v1", "ConfigMap", manager, "kok-ports-20000")), "metadata.namespace must be"),
		"the table of versions":                       stores(passes, item(object("v1", "ConfigMap", manager, "kok-kubernetes-versions")), "metadata.namespace must be"),
		"a Secret of the victim":                      stores(passes, item(object("v1", "Secret", victim, "file")), "has no such kind"),
		"a Secret of the managers":                    stores(passes, item(object("v1", "Secret", manager, "of-the-attacker")), "has no such kind"),
		"a pod":                                       stores(passes, item(object("v1", "Pod", "", "of-the-attacker")), "has no such kind"),
		"a webhook":                                   stores(passes, item(object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "of-the-attacker")), "has no such kind"),
		"a StatefulSet of the victim":                 stores(passes, field(victim, "metadata", "namespace"), "metadata.namespace must be"),
		"a StatefulSet of another name":               stores(passes, field("other", "metadata", "name"), "metadata.name must be"),
		"an owner elsewhere":                          stores(passes, field(owner, "metadata", "ownerReferences"), "no owners and no finalizers"),
		"a finalizer":                                 stores(passes, field([]any{"a.example/never"}, "metadata", "finalizers"), "no owners and no finalizers"),
		"a StatefulSet that passes for the victim's":  stores(passes, field(victim, "metadata", "labels", names.ClusterNamespaceLabel), "must be"),
		"a copy of the victim's data":                 stores(passes, field(theirData, "spec", "volumeClaimTemplates"), "must claim a new volume"),
		"the host's processes":                        stores(passes, field(true, pods("hostPID")...), "hostPID must not be set"),
		"a service account":                           stores(passes, field("manager", pods("serviceAccountName")...), "serviceAccountName must not be set"),
		"a service account's token":                   stores(passes, field(true, pods("automountServiceAccountToken")...), "automountServiceAccountToken must be false"),
		"a folder of the host":                        stores(passes, field(volume("hostPath", content{"path": "/"}), pods("volumes")...), "hostPath"),
		"a token in a volume":                         stores(passes, field(volume("projected", content{"sources": []any{content{"serviceAccountToken": content{"path": "token"}}}}), pods("volumes")...), "cannot be added: a volume must be"),
		"nodes of other kinds":                        stores(passes, field(content{"kubernetes.io/os": "linux"}, pods("nodeSelector")...), "must contain kok.cluster.x-k8s.io/host-node=true"),
		"a node by its name":                          stores(passes, field("control-plane-1", pods("nodeName")...), "nodeName must not be set"),
		"every taint":                                 stores(passes, field([]any{content{"operator": "Exists"}}, pods("tolerations")...), "must be set: without it every taint is tolerated"),
		"root":                                        stores(passes, field(content{"runAsUser": int64(0)}, pods("securityContext")...), "must meet the Pod Security Standard restricted"),
		"a host port of the victim":                   stores(passes, field(hostPorts, pods("containers")...), "the block of the tenant"),
		"the user of the victim":                      stores(passes, asUser(victims.users[0]), "are those of tenants"),
		"the user of the victim on the pod network":   stores(passes, asUser(victims.users[len(victims.users)-1]), "are those of tenants"),
		"the user of the victim, as the one recorded": stores(passes, func(stored content) { stored["user"] = victims.users[0] }, "and its own user is"),
		"the victim's rendering as one's former": stores(passes, func(stored content) {
			stored["former"] = []any{content{"apiVersion": "v1", "kind": "ConfigMap", "namespace": victim, "name": "red-etcd-data-config"}}
			item(object("v1", "ConfigMap", victim, "of-the-attacker"))(stored)
		}, "is not applied"),
	}
	a.attempt(t, tries)
}

// asUser has pods run as a user.
func asUser(user int64) func(content) {
	return func(stored content) {
		for _, path := range []string{"runAsUser", "runAsGroup", "fsGroup"} {
			field(user, pods("securityContext", path)...)(stored)
		}
	}
}

func TestNothingIsMadeOutsideOfTheNamespace(t *testing.T) {
	a := newAttacker(t)
	plain := addsContainer("", "")
	scheduled := func(patch string) edit { return patched(names.KubeScheduler, "Deployment", patch) }
	dns := func(patch string) edit { return patched("coredns", "Deployment", patch) }
	annotated := patched(names.KubeAPIServer, "Service", `{"metadata":{"annotations":{"a.example/a":"b"}}}`)
	theirs := `{"kok.cluster.x-k8s.io/cluster-namespace":"` + victim + `"}`
	permittedDNS := dns(`{"spec":{"template":{"spec":{"priorityClassName":"system-cluster-critical"}}}}`)
	tries := map[string]try{
		"a patch with another namespace":             refused(plain, scheduled(`{"metadata":{"namespace":"`+victim+`"}}`), "metadata.namespace cannot be patched"),
		"a patch with another name":                  refused(plain, scheduled(`{"metadata":{"name":"other"}}`), "metadata.name cannot be patched"),
		"a patch with another kind":                  refused(plain, scheduled(`{"kind":"DaemonSet"}`), "kind"),
		"a patch with an owner":                      refused(plain, scheduled(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"`+victim+`","uid":"a"}]}}`), "metadata.ownerReferences cannot be patched"),
		"a patch with a finalizer":                   refused(plain, scheduled(`{"metadata":{"finalizers":["a.example/never"]}}`), "metadata.finalizers cannot be patched"),
		"a patch that passes for the victim's":       refused(plain, scheduled(`{"metadata":{"labels":`+theirs+`}}`), "cannot be patched"),
		"a patch of pods that pass for the victim's": refused(plain, scheduled(`{"spec":{"template":{"metadata":{"labels":`+theirs+`}}}}`), "cannot be patched"),
		"a patch of the selector":                    refused(plain, scheduled(`{"spec":{"selector":{"matchLabels":`+theirs+`}}}`), "spec.selector"),
		"a patch of a Secret":                        refused(plain, patched(names.KubeScheduler, "Secret", `{"data":{}}`), "Secrets hold keys"),
		"a patch of a Service's addresses":           refused(annotated, patched(names.KubeAPIServer, "Service", `{"spec":{"externalIPs":["192.0.2.1"]}}`), "spec cannot be patched"),
		"a patch of an addon's namespace":            refused(permittedDNS, dns(`{"metadata":{"namespace":"`+victim+`"}}`), "metadata.namespace cannot be patched"),
		"a patch of an addon's kind":                 refused(permittedDNS, dns(`{"kind":"DaemonSet"}`), "kind"),
		"a patch of a kind that no component has":    refused(plain, patched(names.KubeScheduler, "ClusterRoleBinding", `{"metadata":{"labels":{"a":"b"}}}`), "has no ClusterRoleBinding"),
		"a patch of a component that is none":        refused(plain, patched("other", "Deployment", `{"metadata":{"labels":{"a":"b"}}}`), "spec.patches[0].target.component"),
		"a control plane that the victim's Cluster owns": {
			control: func(a *attacker) error { a.running(nothing); return nil },
			attack: func(a *attacker) (client.Object, error) {
				theirs := &clusterv1.Cluster{}
				if err := management.client.Get(a.t.Context(), client.ObjectKey{Namespace: victim, Name: hostNetworkName}, theirs); err != nil {
					return nil, err
				}
				plane := single(a.namespace, hostNetworkName)
				plane.OwnerReferences = owned(theirs, "Cluster")
				plane.Labels = names.Labels(client.ObjectKeyFromObject(theirs))
				a.must(plane)
				other := a.running(nothing) // The manager has seen the first by now.
				return other, a.untouched(plane)
			},
			stoppedBy: untouched,
		},
		"a rendering of the victim's tenant": {
			control: func(a *attacker) error { a.running(nothing); return nil },
			attack: func(a *attacker) (client.Object, error) {
				theirs := &appsv1.ControllerRevision{}
				if err := management.client.Get(a.t.Context(), client.ObjectKey{Namespace: victim, Name: hostNetworkName + "-etcd-data-1"}, theirs); err != nil {
					return nil, err
				}
				theirs.ObjectMeta = metav1.ObjectMeta{Namespace: a.namespace, Name: hostNetworkName + "-etcd-data-9", Labels: theirs.Labels}
				theirs.Revision = 9
				theirs.Data.Raw = []byte(strings.ReplaceAll(string(theirs.Data.Raw), "etcd", "etcd-of-the-attacker"))
				a.must(theirs)
				a.running(nothing)
				return nil, errGone
			},
			stoppedBy: errGone.Error(),
		},
		"a table of versions": {
			control: func(a *attacker) error { return a.mayHave(nothing) },
			attack: func(a *attacker) (client.Object, error) {
				a.must(&corev1.ConfigMap{ObjectMeta: a.meta("kok-kubernetes-versions"), Data: map[string]string{"versions.yaml": "kubernetes: {}"}})
				return a.tenant(func(c *controlplanev1.KOKControlPlane) { c.Spec.Version = "v1.99.0" })
			},
			stoppedBy: "v1.99",
		},
	}
	for name, read := range map[string]client.Object{
		"a Secret of the victim, by asking for it":   &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: victim, Name: "file"}},
		"a Secret of the managers, by asking for it": &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: management.managers[0].namespace, Name: "a"}},
	} {
		tries[name] = try{
			control: func(a *attacker) error {
				return a.client.List(a.t.Context(), &corev1.SecretList{}, client.InNamespace(a.namespace))
			},
			attack: func(a *attacker) (client.Object, error) {
				return read, a.client.Get(a.t.Context(), client.ObjectKeyFromObject(read), read)
			},
			stoppedBy: "is forbidden",
		}
	}
	a.attempt(t, tries)
}

const untouched = "no manager touched it"

// untouched is an error that says what a manager did with an object.
func (a *attacker) untouched(plane *controlplanev1.KOKControlPlane) error {
	if err := management.client.Get(a.t.Context(), client.ObjectKeyFromObject(plane), plane); err != nil {
		return err
	}
	if len(plane.Finalizers) == 0 && plane.Spec.Hosting.Ports.First == 0 {
		return errors.New(untouched)
	}
	return fmt.Errorf("it has the finalizers %v and the ports %d", plane.Finalizers, plane.Spec.Hosting.Ports.First)
}
