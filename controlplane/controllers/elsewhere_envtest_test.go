//go:build envtest

package controllers

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
)

// otherHost is a host cluster that is not the management cluster: an API server without any of our kinds.
type otherHost struct {
	server *envtest.Environment
	stop   func() error
	api    client.Client
	// role is what accounts may do in their namespace.
	role *rbacv1.ClusterRole
}

// theOtherHost is started by the first test that wants it.
var theOtherHost = sync.OnceValues(func() (*otherHost, error) {
	server := &envtest.Environment{}
	server.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "127.252.0.0/16")
	o := &otherHost{server: server}
	var err error
	o.stop, err = interrupt.Guard(func() error {
		if _, err := server.Start(); err != nil {
			return err
		}
		return o.prepare(context.Background())
	}, server.Stop)
	return o, err
})

// prepare makes what a person applies once: host-cluster.yaml of a release.
func (o *otherHost) prepare(ctx context.Context) error {
	var err error
	if o.api, err = client.New(o.server.Config, client.Options{Scheme: environment.Scheme}); err != nil {
		return err
	}
	if err := o.apply(ctx, "host-cluster"); err != nil {
		return err
	}
	o.role = &rbacv1.ClusterRole{}
	return o.api.Get(ctx, client.ObjectKey{Name: "kok-host-cluster-tenants"}, o.role)
}

// apply creates what a folder of config has that is not there, with other names in place of some. Claims are in the
// namespace of the managers of these tests.
func (o *otherHost) apply(ctx context.Context, folder string, names ...string) error {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join("../../config", folder))
	if err != nil {
		return err
	}
	raw, err := resources.AsYaml()
	if err != nil {
		return err
	}
	text := strings.NewReplacer(append(names, "kok-control-plane-system", managerNamespace)...).Replace(string(raw))
	objects, err := utilyaml.ToUnstructured([]byte(text))
	if err != nil {
		return err
	}
	for i := range objects {
		if err := o.api.Create(ctx, &objects[i]); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s %s: %w", objects[i].GetKind(), objects[i].GetName(), err)
		}
	}
	return nil
}

// admit makes what a person applies for a namespace, with an account of this name: host-cluster-namespace.yaml of a release.
func (o *otherHost) admit(t *testing.T, namespace, account string) client.ObjectKey {
	t.Helper()
	// Another account has bindings of its own.
	if err := o.apply(t.Context(), "host-cluster/tenants", "kok-host-cluster-NAMESPACE", account+"-"+namespace, "NAMESPACE", namespace,
		"name: kok-host-cluster\n", "name: "+account+"\n"); err != nil {
		t.Fatal(err)
	}
	return client.ObjectKey{Namespace: namespace, Name: account}
}

// token is a token of an account that lasts an hour, as kubectl create token makes it.
func (o *otherHost) token(t *testing.T, account client.ObjectKey) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	err := o.api.SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: account.Name}}, request)
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// stopOtherHost stops it, if a test started it.
func stopOtherHost() {
	if otherHostStarted {
		if o, err := theOtherHost(); err == nil {
			_ = o.stop()
		}
	}
}

var otherHostStarted bool

// link leads to an API server until it is cut.
type link struct {
	listener net.Listener
	to       string
	lock     sync.Mutex
	conns    []net.Conn
	down     bool
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, to: to}
	t.Cleanup(func() { _ = listener.Close(); l.set(true) })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go l.carry(near)
		}
	}()
	return l
}

func (l *link) carry(near net.Conn) {
	far, err := net.Dial("tcp", l.to)
	if err != nil || !l.keep(near, far) {
		_ = near.Close()
		return
	}
	go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
	_, _ = io.Copy(near, far)
	_ = near.Close()
}

func (l *link) keep(conns ...net.Conn) bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.conns = append(l.conns, conns...)
	return !l.down
}

// set cuts the link, or brings it back.
func (l *link) set(down bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.down = down
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

// elsewhereTest is a tenant in another host cluster, with the link that leads there.
type elsewhereTest struct {
	*tenantTest
	other *otherHost
	link  *link
	// user is who the kubeconfig is of: an account that is admitted to the tenant's namespace.
	user *clientcmdapi.AuthInfo
}

const (
	hostKubeconfig = "host"
	hostAccount    = "kok-host-cluster"
)

func newElsewhereTest(t *testing.T, edits ...func(*controlplanev1.KOKControlPlane)) *elsewhereTest {
	t.Helper()
	otherHostStarted = true
	other, err := theOtherHost()
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(other.server.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := newLoopback()
	tt := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Hosting.KubeconfigRef.Name = hostKubeconfig
		c.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: endpoint, Port: 6443}
		for _, edit := range edits {
			edit(c)
		}
	})
	tt.host.api, tt.host.reachedAt = other.api, endpoint
	t.Cleanup(func() {
		controlPlane := &controlplanev1.KOKControlPlane{}
		if err := environment.Client.Get(context.Background(), tt.key, controlPlane); err == nil && t.Failed() {
			for _, is := range controlPlane.Status.Conditions {
				t.Logf("%s is %s: %s: %s", is.Type, is.Status, is.Reason, is.Message)
			}
		}
	})
	account := other.admit(t, tt.key.Namespace, hostAccount)
	return &elsewhereTest{tenantTest: tt, other: other, link: newLink(t, server.Host), user: &clientcmdapi.AuthInfo{Token: other.token(t, account)}}
}

// writeKubeconfig makes the Secret with a kubeconfig that leads through the link, of another content each time.
func (e *elsewhereTest) writeKubeconfig(note string) {
	e.t.Helper()
	raw, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			"host": {Server: "https://" + e.link.listener.Addr().String(), CertificateAuthorityData: e.other.server.Config.CAData},
		},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"kok": e.user},
		Contexts:       map[string]*clientcmdapi.Context{"host": {Cluster: "host", AuthInfo: "kok"}},
		CurrentContext: "host",
	})
	if err != nil {
		e.t.Fatal(err)
	}
	wanted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.key.Namespace, Name: hostKubeconfig}}
	err = environment.Client.Create(e.t.Context(), wanted)
	if err == nil || apierrors.IsAlreadyExists(err) {
		edit(e.t, client.ObjectKeyFromObject(wanted), wanted, func(s *corev1.Secret) {
			s.Data = map[string][]byte{controlplanev1.KubeconfigKey: append(raw, "# "+note+"\n"...)}
		})
		return
	}
	e.t.Fatal(err)
}

// lookNow has the control plane reconciled at once.
func (e *elsewhereTest) lookNow(note string) {
	edit(e.t, e.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, "note", note)
	})
}

// thereNow are the kinds and names of what is in the host cluster, with their resource versions.
func (e *elsewhereTest) thereNow() map[string]string {
	e.t.Helper()
	found := map[string]string{}
	for _, list := range []client.ObjectList{
		&appsv1.StatefulSetList{}, &appsv1.DaemonSetList{}, &appsv1.DeploymentList{}, &appsv1.ControllerRevisionList{},
		&policyv1.PodDisruptionBudgetList{}, &networkingv1.NetworkPolicyList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{},
		&corev1.PodList{}, &corev1.PersistentVolumeClaimList{},
	} {
		if err := e.other.api.List(e.t.Context(), list, client.MatchingLabels(names.Labels(e.cluster))); err != nil {
			e.t.Fatal(err)
		}
		for _, object := range objectsIn(list) {
			if len(object.GetOwnerReferences()) > 0 {
				e.t.Errorf("%s has owners, which are not there", object.GetName())
			}
			kind := object.GetObjectKind().GroupVersionKind().Kind
			found[kind+" "+object.GetName()] = object.GetResourceVersion()
		}
	}
	return found
}

func (e *elsewhereTest) says(conditionType string, status metav1.ConditionStatus, reason, message string) func() bool {
	return func() bool {
		is := conditions.Get(e.controlPlane(), conditionType)
		return is != nil && is.Status == status && is.Reason == reason && strings.Contains(is.Message, message)
	}
}

// healthyEtcd has every member vote, and the first one lead.
func healthyEtcd(_ context.Context, members map[string]etcd.Address, _ *tls.Config) (*etcd.Health, error) {
	health := &etcd.Health{}
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if members[name].Dial == nil {
			return nil, fmt.Errorf("%s would be dialled at a cluster IP of another cluster", name)
		}
		health.Members = append(health.Members, etcd.Member{
			Name: name, ID: uint64(i) + 1, Answered: true, Follows: true, Listed: true, Started: true, Leader: i == 0,
		})
	}
	return health, nil
}

// A story: its parts follow each other.
func TestAControlPlaneInAnotherHostCluster(t *testing.T) {
	grant(t)
	e := newElsewhereTest(t, small)
	e.host.keepWorking()
	g := &gate{}
	stop := startManagerThatAsks(t, g, healthyEtcd)
	available := conditionsv1.AvailableCondition

	eventually(t, "it says that its Secret is missing",
		e.says(available, metav1.ConditionUnknown, conditionsv1.InvalidHostKubeconfigReason, e.key.Namespace+"/"+hostKubeconfig))
	e.link.set(true)
	e.writeKubeconfig("away")
	e.lookNow("away")
	eventually(t, "it says that the host cluster is away",
		e.says(available, metav1.ConditionUnknown, conditionsv1.HostClusterUnreachableReason, "gives no access"))
	e.link.set(false)
	eventually(t, "it is available", e.available)
	eventually(t, "etcd is founded", func() bool { return etcdclusters.Bootstrapped(e.controlPlane(), names.EtcdData) })
	comesToRest(t, g)

	t.Run("has everything there and only Cluster API's Secrets here", func(t *testing.T) { e.isElsewhere(t) })
	t.Run("is repaired there by what is seen there", func(t *testing.T) {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.key.Namespace, Name: "blue-kube-scheduler"}}
		if err := e.other.api.Delete(t.Context(), deployment); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is there again", func() bool {
			return e.other.api.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment) == nil && deployment.DeletionTimestamp == nil
		})
	})
	t.Run("is cared for with another kubeconfig", func(t *testing.T) {
		former := e.link
		e.link = newLink(e.t, former.to)
		e.writeKubeconfig("another")
		e.lookNow("another")
		former.set(true)
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.key.Namespace, Name: "blue-kube-scheduler"}}
		if err := e.other.api.Delete(t.Context(), deployment); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is there again", func() bool {
			return e.other.api.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment) == nil && deployment.DeletionTimestamp == nil
		})
		eventually(t, "it is available", e.available)
	})
	comesToRest(t, g)
	stop()

	before := e.thereNow()
	e.move()
	g = &gate{}
	stop = startManagerThatAsks(t, g, healthyEtcd)
	t.Run("writes nothing there after a move", func(t *testing.T) {
		eventually(t, "it is available", e.available)
		eventually(t, "etcd was asked", func() bool { return len(etcdclusters.Status(e.controlPlane(), names.EtcdData).Members) == 1 })
		comesToRest(t, g)
		after := e.thereNow()
		for name, version := range before {
			if after[name] != version {
				t.Errorf("%s was written", name)
			}
		}
		if len(after) != len(before) {
			t.Errorf("there were %d objects and are %d", len(before), len(after))
		}
		// The renderings there tell how far the numbers had come.
		if name, content := e.newestSpec(); name != "blue-spec-1" || len(content.WayBack) > 0 {
			t.Errorf("the history begins anew with %s: %+v", name, content)
		}
	})
	t.Run("is deleted when the host cluster is there", func(t *testing.T) { e.goesWithItsHost(t) })
	stop()
	if forbidden := g.forbidden(); len(forbidden) > 0 {
		t.Errorf("the role does not allow %v", forbidden)
	}
}

func (e *elsewhereTest) isElsewhere(t *testing.T) {
	var here, there []string
	for _, object := range e.objects() {
		here = append(here, object.GetObjectKind().GroupVersionKind().Kind+" "+object.GetName())
	}
	slices.Sort(here)
	want := []string{"Secret " + hostKubeconfig, "ControllerRevision blue-spec-1"}
	for _, secret := range []string{"apiserver-lb", "ca", "encryption", "etcd", "etcd-events", "kubeconfig", "proxy", "sa"} {
		want = append(want, "Secret blue-"+secret)
	}
	slices.Sort(want)
	if !slices.Equal(here, want) {
		t.Errorf("here\ngot  %v\nwant %v", here, want)
	}
	for name := range e.thereNow() {
		if !strings.HasPrefix(name, "Pod ") && !strings.HasPrefix(name, "ConfigMap kok-ports-") && !strings.HasPrefix(name, "PersistentVolumeClaim ") {
			there = append(there, name)
		}
	}
	expected := slices.DeleteFunc(objectsOfATenant(), func(name string) bool {
		return slices.Contains(want, name) || strings.HasPrefix(name, "PodDisruptionBudget ") && name != "PodDisruptionBudget blue-kube-controller-manager" ||
			strings.HasPrefix(name, "Service ") && (strings.HasSuffix(name, "-1") || strings.HasSuffix(name, "-2"))
	})
	slices.Sort(there)
	if !slices.Equal(there, expected) {
		t.Errorf("there\ngot  %v\nwant %v", there, expected)
	}
	controlPlane, secret := e.controlPlane(), &corev1.Secret{}
	if err := environment.Client.Get(t.Context(), e.inNamespace(hostKubeconfig), secret); err != nil {
		t.Fatal(err)
	}
	_, blocked := controlPlane.Annotations[clusterctlv1.BlockMoveAnnotation]
	_, taken := secret.Labels[clusterctlv1.ClusterctlMoveLabel]
	for what, is := range map[string]bool{
		"clusterctl move takes it along":                !blocked && conditions.IsTrue(controlPlane, conditionsv1.MovableCondition),
		"clusterctl move takes its Secret along":        taken,
		"its Secret is nobody's but the person's":       len(secret.OwnerReferences) == 0,
		"its endpoint is the one that a person gave it": controlPlane.Spec.ControlPlaneEndpoint.Host == e.host.reachedAt,
	} {
		if !is {
			t.Errorf("it is not true that %s", what)
		}
	}
}

// move does what clusterctl move does: the objects are made anew, with other UIDs and no status, and those here
// go without their finalizers.
func (e *elsewhereTest) move() {
	e.t.Helper()
	cluster, controlPlane := &clusterv1.Cluster{}, e.controlPlane()
	if err := environment.Client.Get(e.t.Context(), e.cluster, cluster); err != nil {
		e.t.Fatal(err)
	}
	for _, object := range []client.Object{controlPlane, cluster} {
		if len(object.GetFinalizers()) > 0 {
			object.SetFinalizers(nil)
			if err := environment.Client.Update(e.t.Context(), object); err != nil {
				e.t.Fatal(err)
			}
		}
		e.delete(object)
	}
	// clusterctl moves no ControllerRevisions, and the garbage collector deletes them with their owner.
	for _, revision := range e.specs() {
		e.delete(&revision)
	}
	moved := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name}, Spec: cluster.Spec}
	if err := environment.Client.Create(e.t.Context(), moved); err != nil {
		e.t.Fatal(err)
	}
	anew := &controlplanev1.KOKControlPlane{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: controlPlane.Namespace, Name: controlPlane.Name, Labels: controlPlane.Labels, Annotations: controlPlane.Annotations,
			Finalizers:      []string{controlplanev1.KOKControlPlaneFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(moved, clusterv1.GroupVersion.WithKind(clusterv1.ClusterKind))},
		},
		Spec: controlPlane.Spec,
	}
	if err := environment.Client.Create(e.t.Context(), anew); err != nil {
		e.t.Fatal(err)
	}
	secrets := &corev1.SecretList{}
	if err := environment.Client.List(e.t.Context(), secrets, client.InNamespace(e.key.Namespace), client.MatchingLabels(names.Labels(e.cluster))); err != nil {
		e.t.Fatal(err)
	}
	for i := range secrets.Items {
		edit(e.t, client.ObjectKeyFromObject(&secrets.Items[i]), &corev1.Secret{}, func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: controlplanev1.GroupVersion.String(), Kind: "KOKControlPlane", Name: anew.Name, UID: anew.UID, Controller: ptr.To(true),
			}}
		})
	}
}

func (e *elsewhereTest) goesWithItsHost(t *testing.T) {
	deleting, kubeconfig := conditionsv1.DeletingCondition, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.key.Namespace, Name: hostKubeconfig}}
	// A Secret that is just gone would leave the connection open for a while.
	edit(t, client.ObjectKeyFromObject(kubeconfig), kubeconfig, func(s *corev1.Secret) { s.Data = nil })
	e.lookNow("without its kubeconfig")
	eventually(t, "it says that its kubeconfig is missing",
		e.says(conditionsv1.AvailableCondition, metav1.ConditionUnknown, conditionsv1.InvalidHostKubeconfigReason, "no data key"))
	e.delete(kubeconfig)
	e.delete(e.controlPlane())
	eventually(t, "the deletion says which Secret it misses", e.says(deleting, metav1.ConditionTrue, clusterv1.DeletingReason, hostKubeconfig))
	if message := conditions.GetMessage(e.controlPlane(), deleting); !strings.Contains(message, controlplanev1.KOKControlPlaneFinalizer) {
		t.Errorf("it names no way out: %s", message)
	}
	if len(e.thereNow()) == 0 {
		t.Fatal("nothing is there any more")
	}
	giveBack := e.withoutReplicaSets(t)
	e.link.set(true)
	e.writeKubeconfig("at the end")
	e.lookNow("at the end")
	eventually(t, "the deletion says that the host cluster is away", e.says(deleting, metav1.ConditionTrue, clusterv1.DeletingReason, "gives no access"))
	e.link.set(false)
	eventually(t, "the deletion says which right it misses", e.says(deleting, metav1.ConditionTrue, clusterv1.DeletingReason, "replicasets.apps is forbidden"))
	giveBack()
	eventually(t, "it is gone", func() bool {
		return apierrors.IsNotFound(environment.Client.Get(t.Context(), e.key, &controlplanev1.KOKControlPlane{}))
	})
	if left := e.thereNow(); len(left) > 0 {
		t.Errorf("there are left %v", slices.Sorted(maps.Keys(left)))
	}
	if left := kindsAndNames(e.objects()); !slices.Equal(left, []string{"Secret " + hostKubeconfig}) {
		t.Errorf("here are left %v", left)
	}
}

// withoutReplicaSets gives the account the rights that an older release gave it, until giveBack is called or the test
// ends: other tests use the account too.
func (e *elsewhereTest) withoutReplicaSets(t *testing.T) (giveBack func()) {
	t.Helper()
	whole := e.other.role.Rules
	older := slices.DeleteFunc(slices.Clone(whole), func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "replicasets") })
	if len(older) != len(whole)-1 {
		t.Fatalf("%d of %d rules are left", len(older), len(whole))
	}
	set := func(ctx context.Context, rules []rbacv1.PolicyRule) {
		none, role := e.other.role.DeepCopy(), e.other.role.DeepCopy()
		none.Rules, role.Rules = nil, rules
		if err := e.other.api.Patch(ctx, role, client.MergeFrom(none)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { set(context.WithoutCancel(t.Context()), whole) })
	set(t.Context(), older)
	return func() { set(t.Context(), whole) }
}

func TestAControlPlaneThatNeverFoundItsHostClusterGoes(t *testing.T) {
	grant(t)
	e := newElsewhereTest(t, small)
	stop := startManager(t, &gate{})
	defer stop()
	eventually(t, "it says that its Secret is missing",
		e.says(conditionsv1.AvailableCondition, metav1.ConditionUnknown, conditionsv1.InvalidHostKubeconfigReason, hostKubeconfig))
	e.delete(e.controlPlane())
	eventually(t, "it is gone", func() bool {
		return apierrors.IsNotFound(environment.Client.Get(t.Context(), e.key, &controlplanev1.KOKControlPlane{}))
	})
}
