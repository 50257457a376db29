//go:build envtest

package controllers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// hostCluster does in one namespace what runs beside the API server in a real host cluster and cannot
// run here: the controllers of workloads (pods, claims, workloads' status), kubelets (pods' status,
// the end of deleted pods), and the garbage collector and the protection of claims (their finalizers).
// It never touches anything of ours, least of all our status. What only real kubelets, etcds and API
// servers show is tested in the lab.
type hostCluster struct {
	t *testing.T
	// api is that of the host cluster.
	api       client.Client
	namespace string
	// stopped are components whose pods do not come into being.
	stopped map[string]bool
	// broken reports whether a pod does not get ready; nil for none.
	broken func(*corev1.Pod) bool
	// wiped are the UIDs of pods of etcd without data: prepare says so, and their etcd fails again and again.
	wiped map[types.UID]bool
	// refuses is why prepare cannot restore the snapshot that a pod of etcd begins with; nil for none, and empty for a pod that begins.
	refuses func(*corev1.Pod) string
	// leaderless are the UIDs of pods of etcd that have their data and no quorum, so that they are not ready.
	leaderless map[types.UID]bool
	// off are host nodes of which nothing is heard: the pods there stay as they are.
	off map[string]bool
	// hosts is the number of host nodes, by which a DaemonSet has pods, prefix what they are called before
	// their number.
	hosts  int32
	prefix string
	// balanced is where Services of type LoadBalancer are reached; empty while nothing cares for them.
	balanced string
	// reachedAt is where a tenant's API is reached; empty for the address of its Service.
	reachedAt string
	fronts    map[string]*httptest.Server
	// clock is that by which tenants' APIs judge certificates; empty for the real one.
	clock atomic.Pointer[clocktesting.FakeClock]
	// replaces lets the pods of DaemonSets and Deployments follow their templates. Otherwise they stay as they
	// were made, and their workloads say that they are up to date.
	replaces bool
	// made counts the pods that were made, by name.
	made map[string]int

	// nodesAsked counts who asked a tenant for its Nodes, refuseNodes refuses them.
	nodesAsked  atomic.Int32
	refuseNodes atomic.Bool

	published publishedCAs
	// own is what the tenant has for itself; nil where it has nothing.
	own *ownTenant

	// watched looks at pods each time promises are kept, unless it is nil.
	watched func()

	endpointsLock sync.Mutex
	// endpoints is the EndpointSlice kubernetes that was written to the tenant.
	endpoints []byte
}

func newHostCluster(t *testing.T, namespace string) *hostCluster {
	t.Helper()
	h := &hostCluster{t: t, api: environment.Client, namespace: namespace, stopped: map[string]bool{}, off: map[string]bool{}, hosts: 3, prefix: "host-", balanced: newLoopback(), fronts: map[string]*httptest.Server{}, made: map[string]int{}}
	t.Cleanup(func() {
		for _, front := range h.fronts {
			front.Close()
		}
	})
	return h
}

// seen is what there is in the namespace. It is read once for all work, as informers do.
type seen struct {
	podList     corev1.PodList
	claimList   corev1.PersistentVolumeClaimList
	sets        appsv1.StatefulSetList
	daemons     appsv1.DaemonSetList
	deployments appsv1.DeploymentList
	replicaSets appsv1.ReplicaSetList
	// pods and claims are those of the lists by name, and those that were made since.
	pods   map[string]*corev1.Pod
	claims map[string]*corev1.PersistentVolumeClaim
}

// lists are those of all that may be deleted and wait for its end.
func (s *seen) lists() []client.ObjectList {
	return []client.ObjectList{&s.podList, &s.claimList, &s.sets, &s.daemons, &s.deployments, &s.replicaSets}
}

func (h *hostCluster) look(ctx context.Context) (*seen, error) {
	s := &seen{pods: map[string]*corev1.Pod{}, claims: map[string]*corev1.PersistentVolumeClaim{}}
	for _, list := range s.lists() {
		if err := h.api.List(ctx, list, client.InNamespace(h.namespace)); err != nil {
			return nil, err
		}
	}
	for i := range s.podList.Items {
		s.pods[s.podList.Items[i].Name] = &s.podList.Items[i]
	}
	for i := range s.claimList.Items {
		s.claims[s.claimList.Items[i].Name] = &s.claimList.Items[i]
	}
	return s, nil
}

// work does all work that there is and tells whether it changed anything.
func (h *hostCluster) work(ctx context.Context) (changed bool, err error) {
	s, err := h.look(ctx)
	if err != nil {
		return false, err
	}
	if changed, err = h.endDeleted(ctx, s); err != nil {
		return false, err
	}
	if changed {
		if s, err = h.look(ctx); err != nil {
			return false, err
		}
	}
	for _, do := range []func(context.Context, *seen) (bool, error){h.balance, h.runWorkloads, h.serveTenants} {
		did, err := do(ctx, s)
		if err != nil {
			return false, err
		}
		changed = changed || did
	}
	return changed, nil
}

func (h *hostCluster) runWorkloads(ctx context.Context, s *seen) (changed bool, err error) {
	for i := range s.sets.Items {
		did, err := h.runSet(ctx, &s.sets.Items[i], s)
		if err != nil {
			return false, err
		}
		changed = changed || did
	}
	for i := range s.daemons.Items {
		set := &s.daemons.Items[i]
		ready, updated, did, err := h.roll(ctx, set, set.Spec.Template, h.hosts, s)
		if err != nil {
			return false, err
		}
		before := set.Status.DeepCopy()
		set.Status.ObservedGeneration, set.Status.DesiredNumberScheduled = set.Generation, h.hosts
		set.Status.CurrentNumberScheduled, set.Status.UpdatedNumberScheduled = ready, updated
		set.Status.NumberReady, set.Status.NumberAvailable = ready, ready
		wrote, err := h.report(ctx, set, equality.Semantic.DeepEqual(before, &set.Status))
		if err != nil {
			return false, err
		}
		changed = changed || did || wrote
	}
	for i := range s.deployments.Items {
		d := &s.deployments.Items[i]
		ready, updated, did, err := h.roll(ctx, d, d.Spec.Template, *d.Spec.Replicas, s)
		if err == nil {
			err = h.end(ctx, d, *d.Spec.Replicas, s)
		}
		if err != nil {
			return false, err
		}
		before := d.Status.DeepCopy()
		d.Status.ObservedGeneration = d.Generation
		d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = ready, updated, ready, ready
		wrote, err := h.report(ctx, d, equality.Semantic.DeepEqual(before, &d.Status))
		if err != nil {
			return false, err
		}
		changed = changed || did || wrote
	}
	return changed, nil
}

func (h *hostCluster) runSet(ctx context.Context, set *appsv1.StatefulSet, s *seen) (changed bool, err error) {
	if set.DeletionTimestamp == nil && !h.stopped[set.Labels[names.ComponentLabel]] {
		if changed, err = h.claim(ctx, set, s); err != nil {
			return false, err
		}
	}
	revision, err := revisionOf(set.Name, set.Spec.Template)
	if err != nil {
		return false, err
	}
	template := set.Spec.Template.DeepCopy()
	template.Labels[appsv1.ControllerRevisionHashLabelKey] = revision
	_, did, err := h.run(ctx, set, *template, *set.Spec.Replicas, s)
	if err != nil {
		return false, err
	}
	stopped, err := h.stopBeyond(ctx, set, s)
	if err != nil {
		return false, err
	}
	before := set.Status.DeepCopy()
	count(set, revision, s)
	wrote, err := h.report(ctx, set, equality.Semantic.DeepEqual(before, &set.Status))
	return changed || did || stopped || wrote, err
}

// revisionOf is another one for another template of pods. One that was there before has the same again.
func revisionOf(workload string, template corev1.PodTemplateSpec) (string, error) {
	raw, err := json.Marshal(template)
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256(raw)
	return fmt.Sprintf("%s-%x", workload, hash[:5]), nil
}

// count sets the status of a StatefulSet by its pods. With its strategy OnDelete a pod has a new revision
// when it was deleted, and the current revision never moves.
func count(set *appsv1.StatefulSet, revision string, s *seen) {
	set.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, UpdateRevision: revision, CurrentRevision: cmp.Or(set.Status.CurrentRevision, revision),
	}
	selected := labels.SelectorFromSet(set.Spec.Selector.MatchLabels)
	for _, pod := range s.pods {
		if !selected.Matches(labels.Set(pod.Labels)) {
			continue
		}
		set.Status.Replicas++
		if hostpods.Ready(pod) {
			set.Status.ReadyReplicas++
			set.Status.AvailableReplicas++
		}
		switch has := pod.Labels[appsv1.ControllerRevisionHashLabelKey]; {
		case pod.DeletionTimestamp != nil:
		case has == revision:
			set.Status.UpdatedReplicas++
		case has == set.Status.CurrentRevision:
			set.Status.CurrentReplicas++
		}
	}
}

// stopBeyond deletes the pods that a StatefulSet has too many.
func (h *hostCluster) stopBeyond(ctx context.Context, set *appsv1.StatefulSet, s *seen) (changed bool, err error) {
	first := firstOrdinal(set)
	for i := int32(0); ; i++ {
		if i >= first && i < first+*set.Spec.Replicas {
			continue
		}
		pod := s.pods[fmt.Sprintf("%s-%d", set.Name, i)]
		switch {
		case pod == nil && i >= first:
			return changed, nil
		case pod == nil:
			continue
		}
		if err := h.remove(ctx, pod, s); err != nil {
			return changed, err
		}
		changed = true
	}
}

// withoutSeed is what a pod of etcd says whose prepare could not restore a snapshot, again and again.
func withoutSeed(why string) []corev1.ContainerStatus {
	message, err := facts.Facts{State: facts.Empty, Seed: why}.Encode()
	if err != nil {
		panic(err)
	}
	failed := &corev1.ContainerStateTerminated{ExitCode: 1, Message: string(message), StartedAt: metav1.Now(), FinishedAt: metav1.Now()}
	return []corev1.ContainerStatus{{
		Name: facts.Container, RestartCount: 3, LastTerminationState: corev1.ContainerState{Terminated: failed},
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
	}}
}

// withoutData is what a pod of etcd says whose volume was wiped.
func withoutData() (prepare, etcd []corev1.ContainerStatus) {
	message, err := facts.Facts{State: facts.Empty}.Encode()
	if err != nil {
		panic(err)
	}
	looked := &corev1.ContainerStateTerminated{Message: string(message), FinishedAt: metav1.Now()}
	failed := &corev1.ContainerStateTerminated{ExitCode: 1, StartedAt: metav1.Now(), FinishedAt: metav1.Now()}
	return []corev1.ContainerStatus{{Name: facts.Container, State: corev1.ContainerState{Terminated: looked}}}, []corev1.ContainerStatus{{
		Name: etcdcomponent.Container, RestartCount: 3, LastTerminationState: corev1.ContainerState{Terminated: failed},
	}}
}

// remove deletes a pod, which may take time to end.
func (h *hostCluster) remove(ctx context.Context, pod *corev1.Pod, s *seen, options ...client.DeleteOption) error {
	err := h.api.Delete(ctx, pod, options...)
	if err == nil {
		err = h.api.Get(ctx, client.ObjectKeyFromObject(pod), pod)
	}
	if apierrors.IsNotFound(err) {
		delete(s.pods, pod.Name)
	}
	return client.IgnoreNotFound(err)
}

// firstOrdinal is the number of a workload's first pod.
func firstOrdinal(workload client.Object) int32 {
	if set, ok := workload.(*appsv1.StatefulSet); ok && set.Spec.Ordinals != nil {
		return set.Spec.Ordinals.Start
	}
	return 0
}

// report writes a workload's status unless it is the same.
func (h *hostCluster) report(ctx context.Context, workload client.Object, same bool) (bool, error) {
	if same || workload.GetDeletionTimestamp() != nil {
		return false, nil
	}
	err := h.api.Status().Update(ctx, workload)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil, err
}

// claim makes the claims of a StatefulSet's pods.
func (h *hostCluster) claim(ctx context.Context, set *appsv1.StatefulSet, s *seen) (changed bool, err error) {
	for _, template := range set.Spec.VolumeClaimTemplates {
		for i := range *set.Spec.Replicas {
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: fmt.Sprintf("%s-%s-%d", template.Name, set.Name, firstOrdinal(set)+i), Labels: template.Labels},
				Spec:       template.Spec,
			}
			if s.claims[claim.Name] != nil {
				continue
			}
			if err := h.api.Create(ctx, claim); err != nil {
				return false, err
			}
			s.claims[claim.Name], changed = claim, true
		}
	}
	return changed, nil
}

// run makes the pods of a workload, ready, and tells how many there are.
func (h *hostCluster) run(ctx context.Context, workload client.Object, template corev1.PodTemplateSpec, count int32, s *seen) (ready int32, changed bool, err error) {
	if workload.GetDeletionTimestamp() != nil || h.stopped[workload.GetLabels()[names.ComponentLabel]] {
		return 0, false, nil
	}
	for i := firstOrdinal(workload); i < firstOrdinal(workload)+count; i++ {
		name := fmt.Sprintf("%s-%d", workload.GetName(), i)
		if s.pods[name] == nil {
			made := h.podOf(name, template, i)
			if err := h.api.Create(ctx, made); err != nil {
				return 0, false, err
			}
			h.made[name]++
			s.pods[name] = made
		}
		pod := s.pods[name]
		if pod.DeletionTimestamp != nil || h.off[pod.Spec.NodeName] {
			continue
		}
		works, refusal := corev1.ConditionTrue, ""
		if h.refuses != nil {
			refusal = h.refuses(pod)
		}
		if refusal != "" || h.broken != nil && h.broken(pod) || h.wiped[pod.UID] || h.leaderless[pod.UID] {
			works = corev1.ConditionFalse
		} else {
			ready++
		}
		if is := hostpods.Condition(pod, corev1.PodReady); is != nil && is.Status == works {
			continue
		}
		changed = true
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, ptr.To(metav1.Now())
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: works}}
		pod.Status.HostIP = fmt.Sprintf("192.0.2.%d", i+1)
		pod.Status.HostIPs = []corev1.HostIP{{IP: pod.Status.HostIP}}
		if h.wiped[pod.UID] {
			pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = withoutData()
		}
		if refusal != "" {
			pod.Status.InitContainerStatuses = withoutSeed(refusal)
		}
		if err := h.api.Status().Update(ctx, pod); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return 0, false, err
		}
	}
	return ready, changed, nil
}

// podOf is a pod as the controllers of workloads make it.
func (h *hostCluster) podOf(name string, template corev1.PodTemplateSpec, number int32) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name, Labels: template.Labels, Annotations: template.Annotations},
		Spec:       *template.Spec.DeepCopy(),
	}
	pod.Spec.NodeName = fmt.Sprintf("%s%d", h.prefix, number)
	// The controller of a StatefulSet adds the volumes of its claims. The volume of the Secret with certificates tells the phase of a
	// rotation.
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name != "kok-certs" })
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = nil
		}
	}
	return pod
}

// end deletes the pods of a workload that is smaller now.
func (h *hostCluster) end(ctx context.Context, workload client.Object, first int32, s *seen) error {
	for i := first; ; i++ {
		pod := s.pods[fmt.Sprintf("%s-%d", workload.GetName(), i)]
		if pod == nil {
			return nil
		}
		if err := h.remove(ctx, pod, s, client.GracePeriodSeconds(0)); err != nil {
			return err
		}
	}
}

// balance gives Services of type LoadBalancer their address.
func (h *hostCluster) balance(ctx context.Context, _ *seen) (changed bool, err error) {
	list := &corev1.ServiceList{}
	if err := h.api.List(ctx, list, client.InNamespace(h.namespace)); err != nil {
		return false, err
	}
	for i := range list.Items {
		service := &list.Items[i]
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		var wanted []corev1.LoadBalancerIngress
		if h.balanced != "" {
			wanted = []corev1.LoadBalancerIngress{{IP: h.balanced, IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
		}
		if equality.Semantic.DeepEqual(service.Status.LoadBalancer.Ingress, wanted) {
			continue
		}
		changed = true
		service.Status.LoadBalancer.Ingress = wanted
		if err := h.api.Status().Update(ctx, service); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return false, err
		}
	}
	return changed, nil
}

var loopbacks atomic.Int32

// newLoopback is an address that this machine can listen on, and that nobody else has.
func newLoopback() string {
	n := loopbacks.Add(1)
	return fmt.Sprintf("127.251.%d.%d", n/250, n%250+1)
}

// endDeleted lets what is deleted go, as kubelets, the garbage collector and the protection of claims do.
func (h *hostCluster) endDeleted(ctx context.Context, s *seen) (changed bool, err error) {
	for _, list := range s.lists() {
		for _, object := range objectsIn(list) {
			pod, isPod := object.(*corev1.Pod)
			if object.GetDeletionTimestamp() == nil || isPod && h.off[pod.Spec.NodeName] {
				continue
			}
			changed = true
			if len(object.GetFinalizers()) > 0 {
				before := object.DeepCopyObject().(client.Object)
				object.SetFinalizers(nil)
				if err := h.api.Patch(ctx, object, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
					return false, err
				}
			}
			if err := h.api.Delete(ctx, object, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				return false, err
			}
		}
	}
	return changed, nil
}

// serveTenants lets a tenant's API answer at the address of its Service while its API server has ready
// pods: with the certificate and the trust that the controller gave to the tenant, and a real
// kube-apiserver, which is the host cluster's own, behind.
func (h *hostCluster) serveTenants(ctx context.Context, s *seen) (changed bool, err error) {
	found := slices.Concat(objectsIn(&s.daemons), objectsIn(&s.deployments))
	found = slices.DeleteFunc(found, func(o client.Object) bool { return o.GetLabels()[names.ComponentLabel] != names.KubeAPIServer })
	for _, workload := range found {
		name := workload.GetName()
		if h.fronts[name] != nil || workloads.StateOf(workload).Ready == 0 {
			continue
		}
		front, err := h.front(ctx, name, workload.GetLabels()[names.ClusterNameLabel])
		if err != nil {
			return false, fmt.Errorf("serve the tenant's API of %s: %w", name, err)
		}
		h.fronts[name] = front
		changed = true
	}
	return changed, nil
}

// serveEndpoints keeps the tenant's EndpointSlice kubernetes: the one of the API server behind is its own,
// and takes no loopback addresses.
func (h *hostCluster) serveEndpoints(w http.ResponseWriter, r *http.Request) {
	h.endpointsLock.Lock()
	defer h.endpointsLock.Unlock()
	if r.Method == http.MethodPatch {
		h.endpoints, _ = io.ReadAll(r.Body)
	}
	w.Header().Set("Content-Type", "application/json")
	if h.endpoints == nil {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
		return
	}
	_, _ = w.Write(h.endpoints)
}

func (h *hostCluster) front(ctx context.Context, name, cluster string) (*httptest.Server, error) {
	service, leaves, material := &corev1.Service{}, &corev1.Secret{}, &corev1.Secret{}
	for secret, object := range map[string]client.Object{
		name: service, names.Certs(cluster, names.KubeAPIServer): leaves, names.KeyMaterial(cluster): material,
	} {
		if err := h.api.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: secret}, object); err != nil {
			return nil, err
		}
	}
	serving, err := tls.X509KeyPair(leaves.Data[kubeapiserver.ServerCert+".crt"], leaves.Data[kubeapiserver.ServerCert+".key"])
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(material.Data["ca.crt"])
	behind, err := url.Parse(environment.Config.Host)
	if err != nil {
		return nil, err
	}
	if behind.Scheme == "" {
		behind = &url.URL{Scheme: "https", Host: environment.Config.Host}
	}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	if proxy.Transport, err = rest.TransportFor(environment.Config); err != nil {
		return nil, err
	}
	address := service.Spec.ClusterIP
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		address = ingress.IP
	}
	address = cmp.Or(h.reachedAt, address)
	listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(int(service.Spec.Ports[0].Port))))
	if err != nil {
		return nil, err
	}
	handler := http.NewServeMux()
	handler.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !h.serveOwn(w, r) {
			proxy.ServeHTTP(w, r)
		}
	})
	handler.HandleFunc("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", h.serveEndpoints)
	handler.HandleFunc(publishedPath, h.servePublished)
	handler.HandleFunc("/api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		if !h.serveOwn(w, r) {
			h.serveNodes(w, r, proxy)
		}
	})
	front := httptest.NewUnstartedServer(handler)
	_ = front.Listener.Close()
	front.Listener = listener
	front.TLS = &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted, Time: h.now}
	if h.own != nil {
		front.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return h.tlsNow() }
	}
	front.StartTLS()
	return front, nil
}

func (h *hostCluster) now() time.Time {
	if fake := h.clock.Load(); fake != nil {
		return fake.Now()
	}
	return time.Now()
}
