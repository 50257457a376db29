//go:build attack

package namespaceuser

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// attacker is a user who may write in one namespace.
type attacker struct {
	t         *testing.T
	namespace string
	// client is the attacker's own.
	client client.Client
	ears   []*ear
	// ran is a file that a program of the attacker would make.
	ran string
	// neighbours begin the names of Secrets in the namespace that are another tenant's.
	neighbours []string
	made       int
}

// may is what the attacker may write: Cluster API's kinds as its documents give them to users of a namespace, ours, and what those
// name. No status is among them, and nothing that runs.
var may = []rbacv1.PolicyRule{
	{APIGroups: []string{"controlplane.cluster.x-k8s.io"}, Resources: []string{"kokcontrolplanes", "kokcontrolplanetemplates"}, Verbs: write},
	{APIGroups: []string{"bootstrap.cluster.x-k8s.io"}, Resources: []string{"kokconfigs", "kokconfigtemplates", "koksoftwares"}, Verbs: write},
	{APIGroups: []string{"infrastructure.cluster.x-k8s.io"}, Resources: []string{"idcclusters", "idcclustertemplates", "idchosts", "idcmachines", "idcmachinetemplates"}, Verbs: write},
	{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters", "machines", "machinesets", "machinedeployments"}, Verbs: write},
	{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: write},
	{APIGroups: []string{"apps"}, Resources: []string{"controllerrevisions"}, Verbs: write},
}

var write = []string{"get", "list", "watch", "create", "update", "patch", "delete"}

// attackers are the namespaces of all attackers so far.
var attackers []string

// newAttacker has a namespace of its own for the tries of one test.
func newAttacker(t *testing.T) *attacker {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "attacker-"}}
	administrate(t, namespace)
	attackers = append(attackers, namespace.Name)
	a := &attacker{t: t, namespace: namespace.Name, ran: t.TempDir() + "/ran"}
	named := metav1.ObjectMeta{Namespace: a.namespace, Name: "user"}
	administrate(t, &rbacv1.Role{ObjectMeta: named, Rules: may})
	administrate(t, &rbacv1.RoleBinding{
		ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: named.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: a.namespace}},
	})
	config := rest.CopyConfig(management.config)
	config.Impersonate.UserName = a.namespace
	var err error
	if a.client, err = client.New(config, client.Options{Scheme: scheme.Scheme(), Mapper: management.client.RESTMapper()}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the attacker has a role", func(ctx context.Context) error {
		return a.client.List(ctx, &corev1.SecretList{}, client.InNamespace(a.namespace))
	})
	return a
}

// administrate makes what somebody else than the attacker makes.
func administrate(t *testing.T, object client.Object) {
	t.Helper()
	if err := management.client.Create(t.Context(), object); err != nil {
		t.Fatalf("create %s: %v", object.GetName(), err)
	}
}

// patience is how long a manager may take to act on something.
const patience = 2 * time.Minute

func eventually(t *testing.T, what string, is func(context.Context) error) {
	t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), pollInterval, patience, true, func(ctx context.Context) (bool, error) {
		last = is(ctx)
		return last == nil, nil
	}); err != nil {
		t.Fatalf("wait until %s: %v: %v", what, err, last)
	}
}

// meta is that of an object of the attacker.
func (a *attacker) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: a.namespace, Name: name}
}

// fresh is a name that no object has yet.
func (a *attacker) fresh(prefix string) string {
	a.made++
	return fmt.Sprintf("%s-%d", prefix, a.made)
}

// must makes what a try needs and is permitted.
func (a *attacker) must(object client.Object) {
	a.t.Helper()
	if err := a.client.Create(a.t.Context(), object); err != nil {
		a.t.Fatalf("create %T %s, which is permitted: %v", object, object.GetName(), err)
	}
}

func (a *attacker) secret(name string, kind corev1.SecretType, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: a.meta(name), Type: kind, StringData: data}
}

// single is a control plane of one of each, without volumes.
func single(namespace, name string) *controlplanev1.KOKControlPlane {
	controlPlane := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	spec := &controlPlane.Spec
	spec.Version = "v1.36.3"
	spec.KubeControllerManager.Replicas, spec.KubeScheduler.Replicas = ptr.To[int32](1), ptr.To[int32](1)
	for _, etcd := range []*controlplanev1.EtcdClusterSpec{&spec.Etcd.Data, &spec.Etcd.Events.EtcdClusterSpec} {
		etcd.Replicas = ptr.To[int32](1)
		etcd.Storage.Type = controlplanev1.EtcdStorageEmptyDir
	}
	return controlPlane
}

// clusterOf is the Cluster of a control plane of the same name.
func clusterOf(namespace, name string) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	cluster.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"192.168.0.0/16"}
	cluster.Spec.ClusterNetwork.Services.CIDRBlocks = []string{"10.128.0.0/16"}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: "KOKControlPlane", Name: name,
	}
	return cluster
}

// tenant tries to make a Cluster with a control plane.
func (a *attacker) tenant(edit func(*controlplanev1.KOKControlPlane)) (*controlplanev1.KOKControlPlane, error) {
	a.t.Helper()
	name := a.fresh("blue")
	a.must(clusterOf(a.namespace, name))
	controlPlane := single(a.namespace, name)
	edit(controlPlane)
	return controlPlane, a.client.Create(a.t.Context(), controlPlane)
}

// mayHave reports whether the attacker may have such a control plane; nothing is made.
func (a *attacker) mayHave(edit func(*controlplanev1.KOKControlPlane)) error {
	controlPlane := single(a.namespace, a.fresh("permitted"))
	edit(controlPlane)
	return a.client.Create(a.t.Context(), controlPlane, client.DryRunAll)
}

// lookAgain wakes the manager of an object that would look again after a minute.
func (a *attacker) lookAgain(ctx context.Context, object client.Object) error {
	a.made++
	return a.client.Patch(ctx, object, merge(`{"metadata":{"annotations":{"look":"%d"}}}`, a.made))
}

// told are the messages of an object's conditions, and of what the try says beside.
func (a *attacker) told(ctx context.Context, object client.Object) (string, error) {
	if config, ok := object.(*bootstrapv1.KOKConfig); ok {
		if err := a.lookAgain(ctx, config); err != nil {
			return "", err
		}
	}
	if err := a.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return "", err
	}
	told, ok := object.(interface{ GetConditions() []metav1.Condition })
	if !ok {
		return "", nil
	}
	var messages []string
	for _, condition := range told.GetConditions() {
		messages = append(messages, condition.Reason+": "+condition.Message)
	}
	return strings.Join(messages, "\n"), nil
}
