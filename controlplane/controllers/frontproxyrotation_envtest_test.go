//go:build envtest

package controllers

import (
	"bytes"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// publishedCAs is the ConfigMap in which the API servers of a tenant publish CAs of front proxies. package tenant tries a real one.
type publishedCAs struct {
	lock sync.Mutex
	// cas are certificates as PEM, in their order, by data key.
	cas     map[string][]string
	version int
	// late is true while API servers publish nothing.
	late bool
}

const publishedPath = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

// servePublished does what API servers do: each adds its CAs to those that it finds, and takes none away.
func (h *hostCluster) servePublished(w http.ResponseWriter, r *http.Request) {
	p := &h.published
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.cas == nil {
		p.cas = map[string][]string{}
	}
	if !p.late {
		for key, argument := range publishedArguments {
			for _, ca := range h.trustedBy(names.KubeAPIServer, argument) {
				if !slices.Contains(p.cas[key], ca) {
					p.cas[key], p.version = append(p.cas[key], ca), p.version+1
				}
			}
		}
	}
	if r.Method == http.MethodPut {
		raw, _ := io.ReadAll(r.Body)
		written := &corev1.ConfigMap{}
		if _, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(raw, nil, written); err != nil || written.ResourceVersion != strconv.Itoa(p.version) {
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`))
			return
		}
		p.version++
		for key := range publishedArguments {
			p.cas[key] = splitCertificates([]byte(written.Data[key]))
		}
	}
	data := map[string]string{}
	for key := range publishedArguments {
		data[key] = strings.Join(p.cas[key], "")
	}
	w.Header().Set("Content-Type", "application/json")
	answer, _ := runtime.Encode(clientgoscheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.PublishedCAs.Namespace, Name: tenant.PublishedCAs.Name, ResourceVersion: strconv.Itoa(p.version)},
		Data:       data,
	})
	_, _ = w.Write(answer)
}

// publishedArguments are the arguments that name what API servers publish, by its data key.
var publishedArguments = map[string]string{tenant.PublishedFrontProxyCAs: "requestheader-client-ca-file", tenant.PublishedClusterCAs: "client-ca-file"}

// trustedBy are the CAs in the files that pods of a component name by an argument.
func (h *hostCluster) trustedBy(component, argument string) []string {
	pods, secrets := &corev1.PodList{}, &corev1.Secret{}
	ctx := h.t.Context()
	if err := h.api.List(ctx, pods, client.InNamespace(h.namespace), client.MatchingLabels{names.ComponentLabel: component}); err != nil {
		return nil
	}
	if err := h.api.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: "blue-key-material"}, secrets); err != nil {
		return nil
	}
	var all []string
	for i := range pods.Items {
		all = append(all, splitCertificates(secrets.Data[argumentOf(&pods.Items[i], argument)])...)
	}
	return all
}

// argumentOf is the file that an argument of a pod names, without its folder.
func argumentOf(pod *corev1.Pod, name string) string {
	for _, arg := range pod.Spec.Containers[0].Args {
		if file, found := strings.CutPrefix(arg, "--"+name+"="); found {
			return file[strings.LastIndex(file, "/")+1:]
		}
	}
	return ""
}

func splitCertificates(bundle []byte) []string {
	var all []string
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		all = append(all, string(pem.EncodeToMemory(block)))
	}
	return all
}

func (h *hostCluster) publishes() []string {
	h.published.lock.Lock()
	defer h.published.lock.Unlock()
	return slices.Clone(h.published.cas[tenant.PublishedFrontProxyCAs])
}

func (h *hostCluster) publishLate(late bool) {
	h.published.lock.Lock()
	defer h.published.lock.Unlock()
	h.published.late = late
}

// trustsWhatOthersShow fails where an API server shows a certificate to extension API servers that another program does not trust, or where
// a pod mounts a file that is not there.
func (tt *tenantTest) trustsWhatOthersShow() {
	tt.t.Helper()
	pods, err := hostpods.List(tt.t.Context(), environment.Client, tt.cluster)
	if err != nil {
		tt.t.Fatal(err)
	}
	leaves := &corev1.Secret{}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace("blue-kube-apiserver-certs"), leaves); err != nil {
		tt.t.Fatal(err)
	}
	files, trusted := tt.keyMaterial(), map[string][]string{}
	for _, component := range []string{names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler} {
		for i := range pods[component] {
			pod := &pods[component][i]
			if trusted[pod.Name] = splitCertificates(files[argumentOf(pod, "requestheader-client-ca-file")]); len(trusted[pod.Name]) == 0 {
				tt.t.Errorf("pod %s trusts no front proxy", pod.Name)
			}
		}
	}
	if published := tt.host.publishes(); len(published) > 0 {
		trusted["extension-apiserver-authentication"] = published
	}
	for i := range pods[names.KubeAPIServer] {
		shown := argumentOf(&pods[names.KubeAPIServer][i], "proxy-client-cert-file")
		leaf, err := certs.DecodeCertPEM(leaves.Data[shown])
		if err != nil || len(leaves.Data[argumentOf(&pods[names.KubeAPIServer][i], "proxy-client-key-file")]) == 0 {
			tt.t.Fatalf("an API server shows %s: %v", shown, err)
		}
		for who, cas := range trusted {
			if !slices.ContainsFunc(cas, func(ca string) bool {
				signer, err := certs.DecodeCertPEM([]byte(ca))
				return err == nil && leaf.CheckSignatureFrom(signer) == nil
			}) {
				tt.t.Errorf("%s does not trust %s, which an API server shows", who, shown)
			}
		}
	}
}

// oneKindOfKey is why a commit does not run all tests of rotations.
const oneKindOfKey = "it takes half a minute or more, and all kinds rotate together at every commit"

func (tt *tenantTest) prepareAllKeys() {
	tt.t.Helper()
	tt.prepareKinds(controlplanev1.ClusterCAKind, controlplanev1.FrontProxyCAKind, controlplanev1.EncryptionKeyKind, controlplanev1.ServiceAccountKeyKind, controlplanev1.EtcdCAKind, controlplanev1.EtcdEventsCAKind)
}

const frontProxyRotation = "front-proxy-ca.rotation"

// Only who trusts or shows something else restarts, and what is published follows.
func TestTheFrontProxyCARotatesInTwoPhases(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt := beforeRotation(t)
	born := tt.keyMaterial()
	former := splitCertificates(born["front-proxy-ca.crt"])
	tt.host.publishLate(true)

	// Extension API servers that do not trust the new CA yet would refuse API servers.
	tt.prepareKinds(controlplanev1.FrontProxyCAKind)
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparingReason, "front proxy CA (Trusting",
		"waits for ConfigMap kube-system/extension-apiserver-authentication of the tenant (API servers have not added the new CA")
	tt.wasMade(names.KubeAPIServer, 2)

	tt.host.publishLate(false)
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "front proxy CA (Prepared", "spec.keyRotation.completeAfter",
		"extension API servers that read ConfigMap kube-system/extension-apiserver-authentication only when they start")
	made := tt.rotationOf(frontProxyRotation)
	next := splitCertificates(made.Key["tls.crt"])
	if got := tt.host.publishes(); !slices.Equal(got, slices.Concat(former, next)) {
		t.Errorf("%d CAs are published", len(got))
	}
	tt.wasMade(names.KubeAPIServer, 3)
	tt.wasMade(names.KubeControllerManager, 2)
	tt.wasMade(names.KubeScheduler, 2)
	tt.wasMade(names.EtcdData, 1)
	if tt.rotationNow() != nil || tt.rotationOf("encryption.rotation") != nil {
		t.Error("a kind rotates that nobody asked for")
	}

	tt.completeKeys()
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, "front proxy CA (Over")
	if got := tt.host.publishes(); !slices.Equal(got, next) {
		t.Errorf("%d CAs are published", len(got))
	}
	tt.wasMade(names.KubeAPIServer, 4)
	tt.wasMade(names.KubeControllerManager, 3)
	tt.wasMade(names.KubeScheduler, 3)
	tt.wasMade(names.EtcdData, 1)
	tt.keyMaterialHasNone(born["front-proxy-ca.key"], born["front-proxy-ca.crt"])
	if got := tt.keys()["blue-proxy"]; !maps.EqualFunc(got, made.Key, bytes.Equal) {
		t.Error("Cluster API's Secret does not have the new pair alone")
	}
	if got := tt.keyMaterial(); !bytes.Equal(got["front-proxy-ca.crt"], made.Key["tls.crt"]) || !bytes.Equal(got["front-proxy-ca.key"], made.Key["tls.key"]) {
		t.Error("the host cluster's copy does not have the new pair")
	}
}

// A pod that has the former CA would publish it again: it is taken away when there is none.
func TestTheFormerCAIsPublishedUntilNoPodHasIt(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt := beforeRotation(t)
	former := splitCertificates(tt.keyMaterial()["front-proxy-ca.crt"])
	tt.prepareKinds(controlplanev1.FrontProxyCAKind)
	tt.settle()
	tt.completeKeys()
	tt.program.gate.take()
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	if now := tt.rotationOf(frontProxyRotation); now.Phase != rotation.Dropping {
		t.Fatalf("it is %s", now.Phase)
	}
	if got := tt.host.publishes(); !slices.Contains(got, former[0]) {
		t.Error("the former CA was taken away while API servers have it")
	}
	for _, sent := range tt.program.gate.take() {
		if sent.path == publishedPath && sent.writes() {
			t.Errorf("it wrote %s", sent)
		}
	}
	tt.settleKeeping()
	if got := tt.host.publishes(); slices.Contains(got, former[0]) || len(got) != 1 {
		t.Errorf("%d CAs are published", len(got))
	}
}

// API servers, and members of etcd, restart for all kinds as often as for one.
func TestAllKindsRotateTogether(t *testing.T) {
	t.Parallel()
	tt := beforeClusterCARotation(t)
	tt.encrypts(&tenantData{})
	tt.prepareAllKeys()
	tt.settleKeeping()
	tt.isOneCluster()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "service account key (Prepared", "encryption key (Prepared", "cluster CA (Prepared", "front proxy CA (Prepared", "etcd CA (Prepared", "events etcd CA (Prepared")
	tt.wasMade(names.KubeAPIServer, 3)
	tt.wasMade(names.KubeControllerManager, 3)
	tt.wasMade(names.KubeScheduler, 3)
	tt.wasMade(names.EtcdData, 3)
	tt.wasMade(names.EtcdEvents, 3)
	tt.completeKeys("pod-tokens/" + tt.file())
	tt.settleKeeping()
	tt.isOneCluster()
	tt.keysRotatingIs(metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, "service account key (Over", "encryption key (Over", "cluster CA (Over", "front proxy CA (Over")
	tt.wasMade(names.KubeAPIServer, 4)
	tt.wasMade(names.KubeControllerManager, 4)
	tt.wasMade(names.KubeScheduler, 4)
	tt.wasMade(names.EtcdData, 4)
	tt.wasMade(names.EtcdEvents, 4)
}

// A manager that is killed after any write, or whose writes are refused, ends the same, and restarts no pod more often.
func TestARotationOfACASurvivesFaults(t *testing.T) {
	withFaults(t, beforeRotation, func(tt *tenantTest) {
		tt.prepareKinds(controlplanev1.FrontProxyCAKind)
		tt.workThroughFaults()
		made := tt.rotationOf(frontProxyRotation)
		if made == nil || made.Phase != rotation.Prepared {
			tt.t.Fatalf("the rotation is %+v", made)
		}
		tt.wasMade(names.KubeAPIServer, 3)
		tt.keepsThePromises()
		tt.completeKeys()
		tt.workThroughFaults()
		if over := tt.rotationOf(frontProxyRotation); over.Phase != rotation.Over || !bytes.Equal(over.Key["tls.key"], made.Key["tls.key"]) {
			tt.t.Errorf("it is %s, or has another key", over.Phase)
		}
		if got := tt.host.publishes(); !slices.Equal(got, splitCertificates(made.Key["tls.crt"])) {
			tt.t.Errorf("%d CAs are published", len(got))
		}
		tt.wasMade(names.KubeAPIServer, 4)
		tt.wasMade(names.KubeScheduler, 3)
		tt.keepsThePromises()
	})
}
