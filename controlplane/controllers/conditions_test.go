package controllers

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/pki"
)

var errRefused = errors.New("connection refused")

// settled is what is seen of a control plane on the host nodes n0, n1 and n2 of which all is well.
func settled() *observation {
	seen := &observation{
		workloads: map[string]*workloadState{}, pods: map[string][]corev1.Pod{},
		etcd: map[string]*operator.Report{}, creationFailures: map[string]string{},
	}
	for component, size := range map[string]int32{
		names.EtcdData: 3, names.EtcdEvents: 3, names.KubeAPIServer: 3, names.KubeControllerManager: 2, names.KubeScheduler: 2,
	} {
		needed := int32(1)
		if component == names.EtcdData || component == names.EtcdEvents {
			needed = 2
			health := &etcd.Health{}
			for i := range size {
				health.Members = append(health.Members, etcd.Member{Name: podName(component, i), Listed: true, Leader: i == 0})
			}
			seen.etcd[component] = &operator.Report{Health: health}
		}
		seen.workloads[component] = &workloadState{observed: true, desired: size, current: size, updated: size, ready: size, available: size, needed: needed}
		for i := range size {
			seen.pods[component] = append(seen.pods[component], readyPod(component, i))
		}
	}
	return seen
}

func podName(component string, i int32) string { return fmt.Sprintf("blue-%s-%d", component, i) }

func readyPod(component string, i int32) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(component, i), Labels: map[string]string{names.VersionLabel: "v1.36.3"}},
		Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("n%d", i)},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// unready makes a pod not ready, and the workload count one less.
func (seen *observation) unready(component string, i int32) *corev1.Pod {
	pod := &seen.pods[component][i]
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	seen.workloads[component].ready--
	seen.workloads[component].available--
	return pod
}

// crash makes a container of a pod end again and again.
func (seen *observation) crash(component string, i int32, last string) {
	seen.unready(component, i).Status.ContainerStatuses = []corev1.ContainerStatus{{
		RestartCount:         4,
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1, Message: "starting\n" + last + "\n"}},
	}}
}

// lose makes the host cluster not hear from a host node: all pods there count as not ready, and the
// controller cannot ask the members there.
func (seen *observation) lose(node string) {
	seen.lostNodes = append(seen.lostNodes, node)
	for component, pods := range seen.pods {
		for i := range pods {
			if pods[i].Spec.NodeName != node {
				continue
			}
			seen.unready(component, int32(i))
			if health := seen.etcd[component]; health != nil {
				health.Members[i] = etcd.Member{Name: podName(component, int32(i)), Listed: true, Err: errRefused}
			}
		}
	}
	for _, health := range seen.etcd {
		answered := false
		for i := range health.Members {
			answered = answered || health.Members[i].Err == nil
		}
		if !answered {
			health.Err = errRefused
		}
	}
}

// silence makes an etcd cluster not answer.
func (seen *observation) silence(component string) {
	health := seen.etcd[component]
	health.Err = errRefused
	for i := range health.Members {
		health.Members[i].Err = errRefused
	}
}

// initializedScope is a reconcile in which every step is done.
func initializedScope() *scope {
	s := &scope{
		key: client.ObjectKey{Namespace: "team", Name: "blue"}, host: &Host{Own: true},
		controlPlane: &controlplanev1.KOKControlPlane{},
	}
	s.controlPlane.Spec.Etcd.Data.Replicas, s.controlPlane.Spec.Etcd.Events.Replicas = ptr.To[int32](3), ptr.To[int32](3)
	s.controlPlane.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	for _, step := range []string{
		stepKeyMaterial, stepVersion, stepPorts, stepEndpoint, stepCertificates, stepKubeconfig, names.EtcdData, names.EtcdEvents,
		names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler, stepTenantObjects, stepAddons,
	} {
		s.outcomes = append(s.outcomes, flow.Outcome{Name: step, Ran: true})
	}
	return s
}

// end makes a step end otherwise, and those after it not run.
func (s *scope) end(step string, result flow.Result) {
	found := false
	for i := range s.outcomes {
		switch {
		case s.outcomes[i].Name == step:
			s.outcomes[i].Result, found = result, true
		case found:
			s.outcomes[i].Ran = false
		}
	}
}

// uninitialized takes back that the tenant's API ever answered.
func (s *scope) uninitialized() { s.controlPlane.Status.Initialization.ControlPlaneInitialized = nil }

type expectation struct {
	status metav1.ConditionStatus
	reason string
	// says are parts of the message in order; none for an empty message.
	says []string
	// never are parts that it must not have.
	never []string
}

func expect(t *testing.T, got metav1.Condition, want expectation) {
	t.Helper()
	if got.Status != want.status || got.Reason != want.reason {
		t.Errorf("%s is %s (%s), want %s (%s): %s", got.Type, got.Status, got.Reason, want.status, want.reason, got.Message)
	}
	if (got.Message == "") != (len(want.says) == 0) {
		t.Errorf("the message is %q", got.Message)
	}
	rest := got.Message
	for _, part := range want.says {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Errorf("the message is %q and does not say %q, or not in order", got.Message, part)
			return
		}
		rest = after
	}
	for _, part := range want.never {
		if strings.Contains(got.Message, part) {
			t.Errorf("the message is %q and says %q", got.Message, part)
		}
	}
}

const heardNothing = "the host cluster does not hear from n1"

func TestEtcdClusterHealthy(t *testing.T) {
	healthy := expectation{status: metav1.ConditionTrue, reason: controlplanev1.HealthyReason}
	unhealthy := func(says ...string) expectation {
		return expectation{status: metav1.ConditionFalse, reason: controlplanev1.UnhealthyReason, says: says}
	}
	unknown := func(says ...string) expectation {
		return expectation{status: metav1.ConditionUnknown, reason: controlplanev1.HealthUnknownReason, says: says}
	}
	for name, test := range map[string]struct {
		seen func(*observation)
		want expectation
	}{
		"both clusters are well": {func(*observation) {}, healthy},
		"nothing exists yet": {func(seen *observation) { *seen = observation{} },
			unhealthy("etcd-data is not created yet", "etcd-events is not created yet")},
		"the first pods start": {func(seen *observation) {
			for i := range int32(3) {
				seen.unready(names.EtcdData, i)
			}
			seen.etcd[names.EtcdData] = nil
		}, unhealthy("etcd-data: pod blue-etcd-data-0 on n0 is starting")},
		"a member is not ready although it answers": {func(seen *observation) { seen.unready(names.EtcdData, 1) },
			unhealthy("etcd-data: pod blue-etcd-data-1 on n1 is starting")},
		"a member does not answer": {func(seen *observation) { seen.etcd[names.EtcdData].Members[1].Err = errRefused },
			unhealthy("etcd-data: member blue-etcd-data-1 does not answer: connection refused")},
		"an alarm is raised": {func(seen *observation) {
			seen.etcd[names.EtcdEvents].Alarms = []string{"NOSPACE on blue-etcd-events-0"}
		},
			unhealthy("etcd-events: alarm NOSPACE on blue-etcd-events-0")},
		"nobody leads": {func(seen *observation) { seen.etcd[names.EtcdData].Members[0].Leader = false },
			unhealthy("etcd-data: no member leads")},
		"an unknown member is listed": {func(seen *observation) { seen.etcd[names.EtcdData].UnknownMembers = []string{"evil (1f)"} },
			unhealthy("etcd-data: unexpected member evil (1f)")},
		"a member is a learner": {func(seen *observation) { seen.etcd[names.EtcdData].Members[2].Learner = true },
			unhealthy("etcd-data: member blue-etcd-data-2 is a learner")},
		"a member is not in the list": {func(seen *observation) { seen.etcd[names.EtcdData].Members[2].Listed = false },
			unhealthy("etcd-data: member blue-etcd-data-2 is not in the member list")},
		"a quorum is lost and a member says so": {func(seen *observation) {
			health := seen.etcd[names.EtcdData]
			health.Err, health.Members[0].Leader = errRefused, false
			health.Members[1].Err, health.Members[2].Err = errRefused, errRefused
		}, unhealthy("etcd-data: the cluster does not answer", "member blue-etcd-data-1 does not answer", "member blue-etcd-data-2 does not answer")},

		"ready members cannot be reached": {func(seen *observation) { seen.silence(names.EtcdData) },
			unknown("etcd-data cannot be asked: nothing answers on the way there")},
		"one cluster cannot be reached and the other is unhealthy": {func(seen *observation) {
			seen.silence(names.EtcdData)
			seen.etcd[names.EtcdEvents].Members[1].Err = errRefused
		}, expectation{status: metav1.ConditionFalse, reason: controlplanev1.UnhealthyReason, never: []string{"etcd-data"},
			says: []string{"etcd-events: member blue-etcd-events-1 does not answer"}}},
		"members that cannot be reached crash, as their host nodes say": {func(seen *observation) {
			seen.silence(names.EtcdData)
			for i := range int32(3) {
				seen.crash(names.EtcdData, i, "disk is full")
			}
		}, unhealthy("etcd-data: pod blue-etcd-data-0 on n0 ended 4 times", "disk is full")},
		"the key material is lost and all pods are ready": {func(seen *observation) { seen.etcd = nil },
			unknown("etcd-data could not be asked without certificates; its pods are ready")},

		"the link to all host nodes is cut": {func(seen *observation) {
			seen.lose("n0")
			seen.lose("n1")
			seen.lose("n2")
		}, expectation{status: metav1.ConditionUnknown, reason: controlplanev1.HealthUnknownReason, never: []string{"starting", "refused"},
			says: []string{"etcd-data cannot be asked: the host cluster does not hear from n0, n1, n2; what runs there goes on", "etcd-events"}}},
		"the link is cut and nobody was asked": {func(seen *observation) {
			seen.lose("n0")
			seen.lose("n1")
			seen.lose("n2")
			seen.etcd = nil
		}, unknown("etcd-data cannot be asked", "etcd-events cannot be asked")},
		// Members that answer are on the same network: it is the member that is away, not the way.
		"one host node is off": {func(seen *observation) { seen.lose("n1") },
			unhealthy("etcd-data: member blue-etcd-data-1 does not answer", "etcd-events: member blue-etcd-events-1 does not answer")},
	} {
		t.Run(name, func(t *testing.T) {
			seen := settled()
			test.seen(seen)
			expect(t, etcdClusterHealthy(seen), test.want)
		})
	}
}

func TestControlPlaneComponentsHealthy(t *testing.T) {
	for name, test := range map[string]struct {
		seen func(*observation)
		want expectation
	}{
		"all are well": {func(*observation) {}, expectation{status: metav1.ConditionTrue, reason: controlplanev1.HealthyReason}},
		"etcd is no part of it": {func(seen *observation) { seen.crash(names.EtcdData, 0, "") },
			expectation{status: metav1.ConditionTrue, reason: controlplanev1.HealthyReason}},
		"a pod crashes": {func(seen *observation) { seen.crash(names.KubeScheduler, 1, "panic: no") },
			expectation{status: metav1.ConditionFalse, reason: controlplanev1.UnhealthyReason,
				says: []string{"kube-scheduler: pod blue-kube-scheduler-1 on n1 ended 4 times, last with Error (exit code 1): panic: no"}}},
		"a pod is not up to date": {func(seen *observation) { seen.workloads[names.KubeAPIServer].updated = 2 },
			expectation{status: metav1.ConditionFalse, reason: controlplanev1.UnhealthyReason, says: []string{"kube-apiserver rolls out: 2 of 3 pods are up to date"}}},
		"the workload was not looked at yet": {func(seen *observation) { seen.workloads[names.KubeScheduler].observed = false },
			expectation{status: metav1.ConditionFalse, reason: controlplanev1.UnhealthyReason, says: []string{"kube-scheduler"}}},
		"pods are not created": {func(seen *observation) {
			seen.pods[names.KubeScheduler] = nil
			seen.workloads[names.KubeScheduler] = &workloadState{observed: true, desired: 2, needed: 1}
			seen.creationFailures[names.KubeScheduler] = "exceeded quota: pods"
		}, expectation{status: metav1.ConditionFalse, reason: controlplanev1.UnhealthyReason, says: []string{"kube-scheduler: exceeded quota: pods"}}},
		"no host node is labelled": {func(seen *observation) {
			seen.pods[names.KubeAPIServer] = nil
			seen.workloads[names.KubeAPIServer] = &workloadState{observed: true, needed: 1}
		}, expectation{status: metav1.ConditionFalse, reason: controlplanev1.UnhealthyReason, says: []string{"no node of the host cluster matches spec.hosting.nodeSelector"}}},

		"a host node is not heard from": {func(seen *observation) { seen.lose("n1") },
			expectation{status: metav1.ConditionUnknown, reason: controlplanev1.HealthUnknownReason, says: []string{heardNothing}, never: []string{"starting"}}},
		"a host node is not heard from, and a pod on another crashes": {func(seen *observation) {
			seen.lose("n1")
			seen.crash(names.KubeAPIServer, 2, "bind: address already in use")
		}, expectation{status: metav1.ConditionFalse, reason: controlplanev1.UnhealthyReason,
			says: []string{"kube-apiserver: pod blue-kube-apiserver-2 on n2 ended", "address already in use"}, never: []string{"n1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := settled()
			test.seen(seen)
			expect(t, componentsHealthy(seen), test.want)
		})
	}
}

func TestAvailable(t *testing.T) {
	yes := expectation{status: metav1.ConditionTrue, reason: controlplanev1.AvailableReason}
	no := func(says ...string) expectation {
		return expectation{status: metav1.ConditionFalse, reason: controlplanev1.NotAvailableReason, says: says}
	}
	unknown := func(says ...string) expectation {
		return expectation{status: metav1.ConditionUnknown, reason: controlplanev1.HealthUnknownReason, says: says}
	}
	for name, test := range map[string]struct {
		is   func(*scope, *observation)
		want expectation
	}{
		"all is well":                      {func(*scope, *observation) {}, yes},
		"one pod of each component is off": {func(_ *scope, seen *observation) { eachComponent(func(c string) { seen.crash(c, 1, "") }) }, yes},
		"a rollout is under way":           {func(_ *scope, seen *observation) { seen.workloads[names.KubeAPIServer].updated = 1 }, yes},
		"nothing began": {func(s *scope, seen *observation) {
			s.uninitialized()
			s.outcomes, *seen = nil, observation{}
		}, no("tenant-objects has not started")},
		"etcd starts": {func(s *scope, seen *observation) {
			s.uninitialized()
			s.end(names.EtcdData, flow.Waiting("etcd-data has 0 of 3 pods ready and needs 2"))
			*seen = observation{}
		}, no("etcd-data has 0 of 3 pods ready and needs 2")},
		"the tenant's API does not answer yet": {func(s *scope, _ *observation) {
			s.uninitialized()
			s.end(stepTenantObjects, flow.Waiting("the tenant's API does not answer at 10.0.0.1:6443"))
		}, no("the tenant's API does not answer at 10.0.0.1:6443")},
		"a port block is held by another": {func(s *scope, seen *observation) {
			s.uninitialized()
			s.end(stepPorts, claimFailed(errors.New("host ports 20000-20019 belong to Cluster a/b")))
			*seen = observation{}
		}, no("ports: host ports 20000-20019 belong to Cluster a/b")},

		"a quorum is lost": {func(_ *scope, seen *observation) {
			seen.crash(names.EtcdData, 0, "disk is full")
			seen.crash(names.EtcdData, 1, "disk is full")
		}, no("etcd-data: pod blue-etcd-data-0 on n0 ended", "etcd-data: pod blue-etcd-data-1")},
		"no scheduler is ready": {func(_ *scope, seen *observation) {
			seen.crash(names.KubeScheduler, 0, "no")
			seen.crash(names.KubeScheduler, 1, "no")
		}, no("kube-scheduler: pod blue-kube-scheduler-0")},
		"a workload was deleted": {func(_ *scope, seen *observation) { delete(seen.workloads, names.KubeAPIServer) }, no("kube-apiserver is not created yet")},
		"key material is lost": {func(s *scope, _ *observation) {
			s.end(stepKeyMaterial, keyMaterialFailed(&pki.LostError{Keys: []pki.LostKey{{What: "cluster CA"}}}))
		}, no("cluster CA")},

		"the key material could not be read": {func(s *scope, _ *observation) { s.end(stepKeyMaterial, flow.Failed(errRefused)) }, unknown("connection refused")},
		"the link to all host nodes is cut": {func(_ *scope, seen *observation) {
			seen.lose("n0")
			seen.lose("n1")
			seen.lose("n2")
		}, unknown("the control plane cannot be observed: the host cluster does not hear from n0, n1, n2; what runs there goes on")},
		"one host node is off": {func(_ *scope, seen *observation) { seen.lose("n1") }, yes},
		"one host node is off, and a member that answered crashes": {func(_ *scope, seen *observation) {
			seen.lose("n1")
			seen.crash(names.EtcdData, 2, "disk is full")
		}, unknown(heardNothing)},
		"one host node is off, and no quorum is left even if its member lives": {func(_ *scope, seen *observation) {
			seen.lose("n1")
			seen.crash(names.EtcdData, 0, "disk is full")
			seen.crash(names.EtcdData, 2, "disk is full")
		}, expectation{status: metav1.ConditionFalse, reason: controlplanev1.NotAvailableReason,
			says: []string{"etcd-data: pod blue-etcd-data-0 on n0 ended", "disk is full"}, never: []string{"on n1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, seen := initializedScope(), settled()
			test.is(s, seen)
			expect(t, available(s, seen), test.want)
		})
	}
}

func eachComponent(do func(component string)) {
	for _, component := range registry.Components.Names() {
		do(component)
	}
}

func TestCertificatesAvailable(t *testing.T) {
	for name, test := range map[string]struct {
		step   string
		result flow.Result
		want   expectation
	}{
		"they are": {want: expectation{status: metav1.ConditionTrue, reason: controlplanev1.AvailableReason}},
		"key material is lost": {step: stepKeyMaterial, result: keyMaterialFailed(fmt.Errorf("ensure: %w", &pki.LostError{Keys: []pki.LostKey{{What: "cluster CA"}}})),
			want: expectation{status: metav1.ConditionFalse, reason: controlplanev1.KeyMaterialLostReason, says: []string{"cluster CA", "restore"}}},
		"key material is invalid": {step: stepKeyMaterial, result: keyMaterialFailed(&pki.InvalidError{DataKey: "tls.key", Problem: "is no PEM private key", Remedy: "put a valid pair into it"}),
			want: expectation{status: metav1.ConditionFalse, reason: controlplanev1.InvalidKeyMaterialReason, says: []string{"tls.key", "is no PEM private key", "put a valid pair into it"}}},
		"key material could not be read": {step: stepKeyMaterial, result: flow.Failed(errRefused),
			want: expectation{status: metav1.ConditionUnknown, reason: controlplanev1.ReconcileFailedReason, says: []string{"connection refused"}}},
		"a certificate could not be written": {step: stepCertificates, result: flow.Failed(errRefused),
			want: expectation{status: metav1.ConditionUnknown, reason: controlplanev1.ReconcileFailedReason, says: []string{"connection refused"}}},
		"the kubeconfig could not be written": {step: stepKubeconfig, result: flow.Failed(errRefused),
			want: expectation{status: metav1.ConditionUnknown, reason: controlplanev1.ReconcileFailedReason, says: []string{"connection refused"}}},
		"Services have no addresses yet": {step: stepEndpoint, result: flow.Waiting("for addresses"),
			want: expectation{status: metav1.ConditionFalse, reason: controlplanev1.WaitingReason, says: []string{"for addresses"}}},
		"a later step waits": {step: names.EtcdData, result: flow.Waiting("for members"),
			want: expectation{status: metav1.ConditionTrue, reason: controlplanev1.AvailableReason}},
	} {
		t.Run(name, func(t *testing.T) {
			s := initializedScope()
			s.end(test.step, test.result)
			expect(t, certificatesAvailable(s), test.want)
		})
	}
}

func TestInitializedNeverTurnsBack(t *testing.T) {
	s := initializedScope()
	s.end(stepTenantObjects, flow.Waiting("the tenant's API does not answer"))
	expect(t, initialized(s), expectation{status: metav1.ConditionTrue, reason: controlplanev1.InitializedReason})
	s.uninitialized()
	expect(t, initialized(s), expectation{status: metav1.ConditionFalse, reason: controlplanev1.NotInitializedReason, says: []string{"the tenant's API does not answer"}})
	s.end(names.EtcdEvents, flow.Failed(errRefused))
	expect(t, initialized(s), expectation{status: metav1.ConditionFalse, reason: controlplanev1.NotInitializedReason, says: []string{"etcd-events: connection refused"}})
}

func TestProgress(t *testing.T) {
	rolling := expectation{status: metav1.ConditionTrue, reason: clusterv1.RollingOutReason, says: []string{"kube-apiserver: 1 of 3 pods are up to date"}}
	up := expectation{status: metav1.ConditionTrue, reason: clusterv1.ScalingUpReason, says: []string{"kube-apiserver: 3 of 4 pods exist"}}
	down := expectation{status: metav1.ConditionTrue, reason: clusterv1.ScalingDownReason, says: []string{"kube-apiserver: 3 pods exist, 2 are wanted"}}
	notRolling := expectation{status: metav1.ConditionFalse, reason: clusterv1.NotRollingOutReason}
	notUp := expectation{status: metav1.ConditionFalse, reason: clusterv1.NotScalingUpReason}
	notDown := expectation{status: metav1.ConditionFalse, reason: clusterv1.NotScalingDownReason}
	for name, test := range map[string]struct {
		seen              func(*observation)
		rolling, up, down expectation
	}{
		"a settled control plane":     {seen: func(*observation) {}, rolling: notRolling, up: notUp, down: notDown},
		"nothing exists":              {seen: func(seen *observation) { *seen = observation{} }, rolling: notRolling, up: notUp, down: notDown},
		"pods are not up to date":     {seen: func(seen *observation) { seen.workloads[names.KubeAPIServer].updated = 1 }, rolling: rolling, up: notUp, down: notDown},
		"a host node joined":          {seen: func(seen *observation) { seen.workloads[names.KubeAPIServer].desired = 4 }, rolling: notRolling, up: up, down: notDown},
		"a host node left":            {seen: func(seen *observation) { seen.workloads[names.KubeAPIServer].desired = 2 }, rolling: notRolling, up: notUp, down: down},
		"pods exist and do not work":  {seen: func(seen *observation) { seen.crash(names.KubeAPIServer, 0, "") }, rolling: notRolling, up: notUp, down: notDown},
		"a host node cannot be heard": {seen: func(seen *observation) { seen.lose("n0") }, rolling: notRolling, up: notUp, down: notDown},
	} {
		t.Run(name, func(t *testing.T) {
			seen := settled()
			test.seen(seen)
			expect(t, rollingOut(seen), test.rolling)
			expect(t, scalingUp(initializedScope(), seen), test.up)
			expect(t, scalingDown(initializedScope(), seen), test.down)
		})
	}
}

func TestReconciledSaysWhatFailsAndWhatWaits(t *testing.T) {
	for name, test := range map[string]struct {
		is   func(*scope)
		want expectation
	}{
		"every step is done": {func(*scope) {}, expectation{status: metav1.ConditionTrue, reason: controlplanev1.ReconciledReason}},
		"a step waits": {func(s *scope) { s.end(names.EtcdData, flow.Waiting("for members")) },
			expectation{status: metav1.ConditionFalse, reason: controlplanev1.WaitingReason, says: []string{"for members"}}},
		"a step failed": {func(s *scope) { s.end(names.EtcdData, flow.Failed(errRefused)) },
			expectation{status: metav1.ConditionFalse, reason: controlplanev1.ReconcileFailedReason, says: []string{"etcd-data: connection refused"}}},
		"one failed and another waits": {func(s *scope) {
			s.outcomes[0].Result, s.outcomes[1].Result = flow.Failed(errRefused), flow.Waiting("for a block")
		}, expectation{status: metav1.ConditionFalse, reason: controlplanev1.ReconcileFailedReason, says: []string{"key-material: connection refused", "for a block"}}},
		"what runs cannot be made any more": {func(s *scope) { s.problem = errors.New("spec.version: v1.20 is not supported") },
			expectation{status: metav1.ConditionFalse, reason: controlplanev1.ReconcileFailedReason, says: []string{"v1.20 is not supported"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := initializedScope()
			test.is(s)
			expect(t, reconciled(s), test.want)
		})
	}
}

func TestMovable(t *testing.T) {
	s := initializedScope()
	if c := movable(s); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "clusterctl move would delete it") {
		t.Errorf("in the management cluster it is %s: %s", c.Status, c.Message)
	}
	s.host.Own = false
	expect(t, movable(s), expectation{status: metav1.ConditionTrue, reason: controlplanev1.HostedElsewhereReason})
}

func TestDeletingSaysWhatIsLeft(t *testing.T) {
	expect(t, notDeleting(), expectation{status: metav1.ConditionFalse, reason: clusterv1.NotDeletingReason})
	controlPlane := &controlplanev1.KOKControlPlane{}
	setDeleting(controlPlane, "still there: Pod blue-etcd-data-0")
	expect(t, *conditions.Get(controlPlane, controlplanev1.DeletingCondition),
		expectation{status: metav1.ConditionTrue, reason: clusterv1.DeletingReason, says: []string{"still there: Pod blue-etcd-data-0"}})
	if !conditions.IsFalse(controlPlane, controlplanev1.AvailableCondition) {
		t.Error("it is available while it is deleted")
	}
}

// Every condition that is set is also one that the controller says it owns: else its patch would lose
// to an older value.
func TestAllConditionsAreSetAndOwned(t *testing.T) {
	s := initializedScope()
	setConditions(s, settled())
	set := map[string]bool{clusterv1.PausedCondition: true}
	for _, c := range s.controlPlane.Status.Conditions {
		set[c.Type] = true
	}
	for _, owned := range ownedConditions {
		if !set[owned] {
			t.Errorf("%s is owned and not set", owned)
		}
		delete(set, owned)
	}
	if len(set) > 0 {
		t.Errorf("%v are set and not owned", set)
	}
}

func TestTenantState(t *testing.T) {
	is := func(conditionType string, status metav1.ConditionStatus) func(*controlplanev1.KOKControlPlane) {
		return func(c *controlplanev1.KOKControlPlane) {
			conditions.Set(c, condition(conditionType, status, "Because"))
		}
	}
	for want, edit := range map[string]func(*controlplanev1.KOKControlPlane){
		"available":   is(controlplanev1.AvailableCondition, metav1.ConditionTrue),
		"unavailable": is(controlplanev1.AvailableCondition, metav1.ConditionFalse),
		"unknown":     is(controlplanev1.AvailableCondition, metav1.ConditionUnknown),
		"paused": func(c *controlplanev1.KOKControlPlane) {
			is(controlplanev1.AvailableCondition, metav1.ConditionTrue)(c)
			is(clusterv1.PausedCondition, metav1.ConditionTrue)(c)
		},
		"deleting": func(c *controlplanev1.KOKControlPlane) {
			is(clusterv1.PausedCondition, metav1.ConditionTrue)(c)
			c.DeletionTimestamp = ptr.To(metav1.Now())
		},
	} {
		controlPlane := &controlplanev1.KOKControlPlane{}
		edit(controlPlane)
		if got := tenantState(controlPlane); got != want {
			t.Errorf("%s is counted as %s", want, got)
		}
	}
	if got := tenantState(&controlplanev1.KOKControlPlane{}); got != "unknown" {
		t.Errorf("a new one is counted as %s", got)
	}
}
