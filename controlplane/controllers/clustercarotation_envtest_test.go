//go:build envtest

package controllers

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

const clusterCARotation = "ca.rotation"

// ownTenant is what a tenant has for itself where a test rotates its cluster CA: other tenants have the API server behind in common.
type ownTenant struct {
	lock sync.Mutex
	// objects are what was written, by its path.
	objects map[string][]byte
	// nodes are Nodes by name; false for one whose pod of kok-node-keys is not ready.
	nodes map[string]bool
	// pods are those of users.
	pods []corev1.Pod
}

// owned are the beginnings of paths of objects that the tenant has for itself.
var owned = []string{
	"/api/v1/namespaces/kube-public/configmaps/cluster-info", "/api/v1/namespaces/kube-system/configmaps/kok-node-keys",
	"/api/v1/namespaces/kube-system/serviceaccounts/kok-node-keys", nodeKeysPath,
}

const nodeKeysPath = "/apis/apps/v1/namespaces/kube-system/daemonsets/kok-node-keys"

// serveOwn answers for the tenant, and reports whether it did.
func (h *hostCluster) serveOwn(w http.ResponseWriter, r *http.Request) bool {
	own := h.own
	if own == nil {
		return false
	}
	own.lock.Lock()
	defer own.lock.Unlock()
	switch path := r.URL.Path; {
	case slices.ContainsFunc(owned, func(begins string) bool { return strings.HasPrefix(path, begins) }):
		own.serveObject(w, r)
	case path == "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt":
		answer(w, &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"ca.crt": strings.Join(h.trustedBy(names.KubeControllerManager, "root-ca-file"), "")}})
	case path == "/api/v1/namespaces/kube-system/configmaps" && r.Method == http.MethodGet:
		list := &corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}}
		for _, raw := range own.objects {
			object := corev1.ConfigMap{}
			if json.Unmarshal(raw, &object) == nil && object.Kind == "ConfigMap" && strings.HasPrefix(object.Name, "kok-node-keys") {
				list.Items = append(list.Items, object)
			}
		}
		answer(w, list)
	case path == "/api/v1/nodes":
		list := &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
		for name := range own.nodes {
			list.Items = append(list.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}}})
		}
		answer(w, list)
	case path == "/api/v1/namespaces/kube-system/pods":
		answer(w, own.podsOfNodes())
	case path == "/api/v1/pods":
		answer(w, &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: own.pods})
	default:
		return false
	}
	return true
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

func (o *ownTenant) serveObject(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPatch:
		o.objects[r.URL.Path], _ = io.ReadAll(r.Body)
	case http.MethodDelete:
		delete(o.objects, r.URL.Path)
		answer(w, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	raw := o.objects[r.URL.Path]
	if raw == nil {
		w.WriteHeader(http.StatusNotFound)
		raw = []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
	_, _ = w.Write(raw)
}

// podsOfNodes are the pods of the DaemonSet kok-node-keys, as it is now.
func (o *ownTenant) podsOfNodes() *corev1.PodList {
	set, list := &appsv1.DaemonSet{}, &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	if json.Unmarshal(o.objects[nodeKeysPath], set) != nil {
		return list
	}
	for name, ready := range o.nodes {
		pod := corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: corev1.PodSpec{NodeName: name}}
		pod.Namespace, pod.Name = metav1.NamespaceSystem, "kok-node-keys-"+name
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "kok-node-keys", Controller: ptr.To(true)}}
		if ready {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		list.Items = append(list.Items, pod)
	}
	return list
}

// nodeIsReady says whether a node has what its phase wants.
func (o *ownTenant) nodeIsReady(name string, ready bool) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.nodes[name] = ready
}

// toldNodes is what kok-node-keys is told: the number of CAs that nodes trust, and whether they need certificates by the new one; zero without it.
func (o *ownTenant) toldNodes() (trusted int, signer bool) {
	o.lock.Lock()
	defer o.lock.Unlock()
	set := &appsv1.DaemonSet{}
	if json.Unmarshal(o.objects[nodeKeysPath], set) != nil {
		return 0, false
	}
	for _, volume := range set.Spec.Template.Spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		files := &corev1.ConfigMap{}
		_ = json.Unmarshal(o.objects["/api/v1/namespaces/kube-system/configmaps/"+volume.ConfigMap.Name], files)
		return len(splitCertificates([]byte(files.Data["trusted.crt"]))), files.Data["signer.crt"] != ""
	}
	return 0, false
}

// beforeClusterCARotation is a tenant with a node.
func beforeClusterCARotation(t *testing.T) *tenantTest {
	t.Helper()
	tt := newRollingTenantTest(t, lasting)
	tt.program.NodeKeysImage = "registry.k8s.io/kok-node-keys:1"
	tt.host.own = &ownTenant{objects: map[string][]byte{}, nodes: map[string]bool{"worker": true}}
	tt.settle()
	return tt
}

// tlsNow has a tenant's API served as its API servers do now: with the certificate and the trust of the first one.
func (h *hostCluster) tlsNow() (*tls.Config, error) {
	files, leaves := map[string][]byte{}, &corev1.Secret{}
	pod, err := h.firstAPIServer(files, leaves)
	if err != nil {
		return nil, err
	}
	certificate := argumentOf(pod, "tls-cert-file")
	serving, err := tls.X509KeyPair(leaves.Data[certificate], leaves.Data[argumentOf(pod, "tls-private-key-file")])
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(files[argumentOf(pod, "client-ca-file")])
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted}, nil
}

func (h *hostCluster) firstAPIServer(files map[string][]byte, leaves *corev1.Secret) (*corev1.Pod, error) {
	ctx, pods, material := h.t.Context(), &corev1.PodList{}, &corev1.Secret{}
	if err := h.api.List(ctx, pods, client.InNamespace(h.namespace), client.MatchingLabels{names.ComponentLabel: names.KubeAPIServer}); err != nil {
		return nil, err
	}
	if err := h.api.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: "blue-key-material"}, material); err != nil {
		return nil, err
	}
	if err := h.api.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: "blue-kube-apiserver-certs"}, leaves); err != nil {
		return nil, err
	}
	if len(pods.Items) == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	maps.Copy(files, material.Data)
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return &pods.Items[0], nil
}

// isOneCluster fails where a program of the control plane shows a certificate, as client or server, that another one refuses, where what is
// handed out does not trust what an API server shows, or where a pod mounts a file that is not there.
func (tt *tenantTest) isOneCluster() {
	tt.t.Helper()
	ctx, material := tt.t.Context(), tt.keyMaterial()
	pods, err := hostpods.List(ctx, environment.Client, tt.cluster)
	if err != nil {
		tt.t.Fatal(err)
	}
	shown, clients, trusts := map[string][]byte{}, map[string][]byte{}, map[string][]byte{}
	for _, component := range []string{names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler} {
		leaves := &corev1.Secret{}
		if err := environment.Client.Get(ctx, tt.inNamespace("blue-"+component+"-certs"), leaves); err != nil {
			tt.t.Fatal(err)
		}
		for i := range pods[component] {
			pod := &pods[component][i]
			for _, volume := range pod.Spec.Volumes {
				if volume.Name != "kok-rotated-certs" && volume.Name != "kok-key-material" {
					continue
				}
				has := leaves.Data
				if volume.Name == "kok-key-material" {
					has = material
				}
				for _, item := range volume.Secret.Items {
					if len(has[item.Key]) == 0 {
						tt.t.Errorf("pod %s mounts %s, which is not there", pod.Name, item.Key)
					}
				}
			}
			if component == names.KubeAPIServer {
				shown[pod.Name] = leaves.Data[argumentOf(pod, "tls-cert-file")]
				trusts[pod.Name] = material[argumentOf(pod, "client-ca-file")]
				clients[pod.Name+" at kubelets"] = leaves.Data[argumentOf(pod, "kubelet-client-certificate")]
				continue
			}
			config, err := clientcmd.Load(leaves.Data[argumentOf(pod, "kubeconfig")])
			if err != nil || len(config.Clusters) != 1 {
				tt.t.Fatalf("pod %s has the kubeconfig %s: %v", pod.Name, argumentOf(pod, "kubeconfig"), err)
			}
			for _, cluster := range config.Clusters {
				trusts[pod.Name] = material[base(cluster.CertificateAuthority)]
			}
			for _, user := range config.AuthInfos {
				clients[pod.Name] = leaves.Data[base(user.ClientCertificate)]
			}
		}
	}
	kubeconfig := &corev1.Secret{}
	if err := environment.Client.Get(ctx, tt.inNamespace("blue-kubeconfig"), kubeconfig); err != nil {
		tt.t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig.Data["value"])
	if err != nil {
		tt.t.Fatal(err)
	}
	trusts["the kubeconfig"], clients["the kubeconfig"] = config.CAData, config.CertData
	for server, leaf := range shown {
		for who, cas := range trusts {
			if !strings.Contains(who, "kube-apiserver") && !vouchesFor(cas, leaf) {
				tt.t.Errorf("%s refuses what %s shows", who, server)
			}
		}
	}
	for who, leaf := range clients {
		for server, cas := range trusts {
			if strings.Contains(server, "kube-apiserver") && !vouchesFor(cas, leaf) {
				tt.t.Errorf("%s refuses what %s shows", server, who)
			}
		}
	}
}

func base(path string) string { return path[strings.LastIndex(path, "/")+1:] }

func (tt *tenantTest) settleAsOneCluster() {
	tt.t.Helper()
	for range manyRounds {
		tt.program.gate.take()
		if err := tt.reconcile(); err != nil {
			tt.t.Fatal(err)
		}
		wrote := len(tt.program.gate.takeWrites()) > 0
		tt.isOneCluster()
		worked, err := tt.host.work(tt.t.Context())
		if err != nil {
			tt.t.Fatal(err)
		}
		tt.isOneCluster()
		if !wrote && !worked {
			return
		}
	}
	tt.t.Fatal("it does not come to rest")
}

// Nodes trust the new CA before anybody shows a certificate by it. Servers show the former one until a person asks for the end.
func TestTheClusterCARotatesInTwoPhases(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt := beforeClusterCARotation(t)
	own, born := tt.host.own, tt.keyMaterial()
	own.nodeIsReady("worker", false)
	tt.prepareKinds(controlplanev1.ClusterCAKind)
	tt.settleAsOneCluster()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparingReason, "cluster CA (Trusting", "waits for Node worker (pod kok-node-keys-worker: it is not ready yet)")
	tt.wasMade(names.KubeAPIServer, 2)
	if trusted, signer := own.toldNodes(); trusted != 2 || signer {
		t.Errorf("nodes are told to trust %d CAs, and it is %t that they need another certificate", trusted, signer)
	}

	own.nodeIsReady("worker", true)
	old := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: tenant.RootCAsName}}}},
		}}}}},
	}
	own.pods = []corev1.Pod{old}
	tt.settleAsOneCluster()
	made := tt.rotationOf(clusterCARotation)
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "cluster CA (Prepared", "is needed by pods/", "/default/Pod/old", "spec.keyRotation.completeAfter",
		"kubeconfigs and client certificates that were handed out")
	tt.wasMade(names.KubeAPIServer, 3)
	tt.wasMade(names.KubeControllerManager, 3)
	tt.wasMade(names.KubeScheduler, 3)
	tt.wasMade(names.EtcdData, 1)
	if trusted, signer := own.toldNodes(); trusted != 2 || !signer {
		t.Errorf("nodes are told to trust %d CAs, and it is %t that they need another certificate", trusted, signer)
	}
	for pod, leaf := range tt.shownByAPIServers() {
		if !vouchesFor(born["ca.crt"], leaf) {
			t.Errorf("%s shows a certificate that those refuse who trust the former CA alone", pod)
		}
	}
	if got := splitCertificates(tt.keys()["blue-ca"]["trusted.crt"]); len(got) != 2 {
		t.Errorf("joining machines are told of %d CAs", len(got))
	}

	tt.completeKeys()
	tt.settleAsOneCluster()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "/default/Pod/old; to drop it all the same, add these names to spec.keyRotation.completeAnyway")
	own.lock.Lock()
	own.pods = nil
	own.lock.Unlock()
	tt.settleAsOneCluster()
	tt.keysRotatingIs(metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, "cluster CA (Over")
	tt.wasMade(names.KubeAPIServer, 4)
	tt.wasMade(names.KubeControllerManager, 4)
	tt.wasMade(names.EtcdData, 1)
	for pod, leaf := range tt.shownByAPIServers() {
		if !vouchesFor(made.Key["tls.crt"], leaf) {
			t.Errorf("%s shows a certificate by the former CA", pod)
		}
	}
	tt.keyMaterialHasNone(born["ca.key"], born["ca.crt"])
	if got := tt.keys()["blue-ca"]; !maps.EqualFunc(got, made.Key, bytes.Equal) {
		t.Errorf("Cluster API's Secret does not have the new pair alone: %v", slices.Collect(maps.Keys(got)))
	}
	own.lock.Lock()
	defer own.lock.Unlock()
	for path := range own.objects {
		if strings.Contains(path, "kok-node-keys") {
			t.Errorf("%s is left", path)
		}
	}
}

func (tt *tenantTest) shownByAPIServers() map[string][]byte {
	tt.t.Helper()
	pods, err := hostpods.List(tt.t.Context(), environment.Client, tt.cluster)
	if err != nil {
		tt.t.Fatal(err)
	}
	leaves := &corev1.Secret{}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace("blue-kube-apiserver-certs"), leaves); err != nil {
		tt.t.Fatal(err)
	}
	shown := map[string][]byte{}
	for i := range pods[names.KubeAPIServer] {
		pod := &pods[names.KubeAPIServer][i]
		if shown[pod.Name] = leaves.Data[argumentOf(pod, "tls-cert-file")]; len(shown[pod.Name]) == 0 {
			tt.t.Errorf("%s shows nothing", pod.Name)
		}
	}
	return shown
}

// A manager that is killed after any write, or whose writes are refused, ends the same, and restarts no pod more often.
func TestARotationOfTheClusterCASurvivesFaults(t *testing.T) {
	withFaults(t, beforeClusterCARotation, func(tt *tenantTest) {
		tt.prepareKinds(controlplanev1.ClusterCAKind)
		tt.workThroughFaults()
		made := tt.rotationOf(clusterCARotation)
		if made == nil || made.Phase != rotation.Prepared {
			tt.t.Fatalf("the rotation is %+v", made)
		}
		tt.wasMade(names.KubeAPIServer, 3)
		tt.isOneCluster()
		tt.completeKeys()
		tt.workThroughFaults()
		if over := tt.rotationOf(clusterCARotation); over.Phase != rotation.Over || !bytes.Equal(over.Key["tls.key"], made.Key["tls.key"]) {
			tt.t.Errorf("it is %s, or has another key", over.Phase)
		}
		tt.wasMade(names.KubeAPIServer, 4)
		tt.isOneCluster()
	})
}

// Without the program for nodes no rotation begins, because nodes would refuse API servers.
func TestTheClusterCADoesNotRotateWithoutTheProgramForNodes(t *testing.T) {
	t.Parallel()
	tt := newRollingTenantTest(t, lasting)
	tt.settle()
	tt.prepareKinds(controlplanev1.ClusterCAKind)
	tt.settle()
	tt.keysRotatingIs(metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, "cluster CA: has not begun: the manager's flag --node-keys-image does not name the image")
	if tt.rotationOf(clusterCARotation) != nil {
		t.Error("it began")
	}
}
