//go:build envtest

package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	testenvironment "github.com/kube-on-kube/cluster-api-provider-kok/test/envtest"
)

// serviceRange is the API server's.
const serviceRange = "127.250.0.0/16"

// managerNamespace holds the claims of port blocks and the table of versions.
const managerNamespace = testenvironment.VersionsNamespace

var environment *testenvironment.Environment

func TestMain(m *testing.M) {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr), zap.Level(zapcore.DPanicLevel)))
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	// Services get addresses that this machine can listen on: a tenant's API is at its default endpoint.
	environment, err = testenvironment.Start(context.Background(), func(server *envtest.APIServer) {
		server.Configure().Set("service-cluster-ip-range", serviceRange).
			Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		stopOtherHost()
	}()
	if err := prepare(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// prepare makes what an installation of the provider brings.
func prepare(ctx context.Context) error {
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: components.PriorityClassName}, Value: 1000000000},
	} {
		if err := environment.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// gate is what all requests of one program pass. It notes them, and lets them fail.
type gate struct {
	lock     sync.Mutex
	requests []request
	writes   int
	// refuse says which writes, by number, are not sent; refused is how many those were.
	refuse  func(write int) bool
	refused int
	// killAfter is the number of the write after which the program is killed: it is sent, its reply is
	// lost, and nothing passes any more. Zero for none.
	killAfter int
	dead      bool
	// taken is the number of writes that the API server took.
	taken int
	// denied are the requests that the API server forbade.
	denied []request
	// asked is how often an etcd was asked.
	asked int
	// waits is how many requests, but for watches, wait for their replies.
	waits int
}

func (g *gate) ask() {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.asked++
}

func (g *gate) questions() int {
	g.lock.Lock()
	defer g.lock.Unlock()
	return g.asked
}

type request struct {
	method, path, query string
}

// String is how a request is written in a test's messages.
func (r request) String() string { return strings.TrimSuffix(r.method+" "+r.path+"?"+r.query, "?") }

var (
	errNotSent   = errors.New("the test did not let this write pass")
	errReplyLost = errors.New("the test lost the reply to this write")
)

func (r request) writes() bool {
	return r.method != http.MethodGet && !strings.Contains(r.path, "/leases") && !strings.HasSuffix(r.path, "reviews")
}

// wrap is a wrapper of a transport.
func (g *gate) wrap(inner http.RoundTripper) http.RoundTripper {
	return roundTripper(func(sent *http.Request) (*http.Response, error) {
		refused, lost := g.pass(request{sent.Method, sent.URL.Path, sent.URL.RawQuery})
		if refused {
			return nil, errNotSent
		}
		if !sent.URL.Query().Has("watch") {
			g.wait(1)
			defer g.wait(-1)
		}
		response, err := inner.RoundTrip(sent)
		if err == nil && response.StatusCode == http.StatusForbidden {
			g.deny(request{sent.Method, sent.URL.Path, sent.URL.RawQuery})
		}
		if err == nil && response.StatusCode < http.StatusMultipleChoices && (request{method: sent.Method, path: sent.URL.Path}).writes() {
			g.took()
		}
		if lost && err == nil {
			_ = response.Body.Close()
			return nil, errReplyLost
		}
		return response, err
	})
}

func (g *gate) pass(r request) (refused, lost bool) {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.requests = append(g.requests, r)
	if g.dead {
		return true, false
	}
	if !r.writes() {
		return false, false
	}
	g.writes++
	if g.refuse != nil && g.refuse(g.writes) {
		g.refused++
		return true, false
	}
	g.dead = g.writes == g.killAfter
	return false, g.dead
}

func (g *gate) wait(requests int) {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.waits += requests
}

// progress is how many writes there were, and whether no request waits for its reply.
func (g *gate) progress() (writes int, idle bool) {
	g.lock.Lock()
	defer g.lock.Unlock()
	return g.writes, g.waits == 0
}

func (g *gate) deny(r request) {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.denied = append(g.denied, r)
}

func (g *gate) took() {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.taken++
}

func (g *gate) forbidden() []request {
	g.lock.Lock()
	defer g.lock.Unlock()
	return slices.Clone(g.denied)
}

// take gives the requests since it was last called.
func (g *gate) take() []request {
	g.lock.Lock()
	defer g.lock.Unlock()
	requests := g.requests
	g.requests = nil
	return requests
}

// takeWrites gives the writes since it was last called.
func (g *gate) takeWrites() []request {
	var writes []request
	for _, r := range g.take() {
		if r.writes() {
			writes = append(writes, r)
		}
	}
	return writes
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// through is the configuration of clients of which all requests pass the gate.
func (g *gate) through() *rest.Config {
	config := rest.CopyConfig(environment.Config)
	config.QPS = -1
	config.Wrap(g.wrap)
	return config
}

func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}
	if err := environment.Client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// Tests that run in parallel have tenants of one version with the same addons: all tenants here are one cluster inside.

// newTenant creates a Cluster with a control plane, as Cluster API's core leaves them: the control
// plane has the Cluster for its owner.
func newTenant(t *testing.T, namespace, name string, edit func(*controlplanev1.KOKControlPlane)) (*clusterv1.Cluster, *controlplanev1.KOKControlPlane) {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	cluster.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"192.168.0.0/16"}
	// Tenants are shown on the host cluster's own API server: their DNS Service must have an address there.
	cluster.Spec.ClusterNetwork.Services.CIDRBlocks = []string{serviceRange}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: "KOKControlPlane", Name: name + "-control-plane",
	}
	if err := environment.Client.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	controlPlane := &controlplanev1.KOKControlPlane{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: cluster.Spec.ControlPlaneRef.Name,
			Labels:          map[string]string{clusterv1.ClusterNameLabel: name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cluster, clusterv1.GroupVersion.WithKind(clusterv1.ClusterKind))},
		},
		Spec: controlplanev1.KOKControlPlaneSpec{Version: "v1.36.3"},
	}
	// Its namespace inside would never go again: nobody finishes the deletion of namespaces here.
	controlPlane.Spec.Addons.Konnectivity.Mode = controlplanev1.AddonNone
	edit(controlPlane)
	if err := environment.Client.Create(t.Context(), controlPlane); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { forget(t, client.ObjectKeyFromObject(controlPlane)) })
	return cluster, controlPlane
}

// forget takes a control plane away, so that the managers of later tests do not care for it.
func forget(t *testing.T, key client.ObjectKey) {
	t.Helper()
	ctx := context.Background()
	controlPlane := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	freed := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := client.IgnoreNotFound(environment.Client.Patch(ctx, controlPlane, freed)); err != nil {
		t.Error(err)
	}
	if err := client.IgnoreNotFound(environment.Client.Delete(ctx, controlPlane)); err != nil {
		t.Error(err)
	}
}

// single makes a control plane one of each, without volumes.
func single(controlPlane *controlplanev1.KOKControlPlane) {
	spec := &controlPlane.Spec
	spec.KubeControllerManager.Replicas, spec.KubeScheduler.Replicas = ptr.To[int32](1), ptr.To[int32](1)
	for _, etcd := range []*controlplanev1.EtcdClusterSpec{&spec.Etcd.Data, &spec.Etcd.Events.EtcdClusterSpec} {
		etcd.Replicas = ptr.To[int32](1)
		etcd.Storage.Type = controlplanev1.EtcdStorageEmptyDir
	}
}

// small makes a control plane one of each but has an object of every kind: volumes, and a budget.
func small(controlPlane *controlplanev1.KOKControlPlane) {
	lasting(controlPlane)
	controlPlane.Spec.KubeControllerManager.Replicas = ptr.To[int32](2)
}

// lasting makes a control plane one of each, with volumes: pods of etcd can be replaced.
func lasting(controlPlane *controlplanev1.KOKControlPlane) {
	single(controlPlane)
	for _, etcd := range []*controlplanev1.EtcdClusterSpec{&controlPlane.Spec.Etcd.Data, &controlPlane.Spec.Etcd.Events.EtcdClusterSpec} {
		etcd.Storage.Type = controlplanev1.EtcdStoragePersistentVolumeClaim
	}
}

// whole leaves a control plane at its defaults, with all replicas and volumes.
func whole(*controlplanev1.KOKControlPlane) {}
