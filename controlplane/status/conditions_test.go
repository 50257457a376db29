package status

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
	clistatus "github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/status"
)

var (
	errRefused = errors.New("connection refused")
	errLost    = &pki.LostError{Keys: []pki.LostKey{{What: "cluster CA"}}}
)

// settled is what is observed of a control plane of which all is well.
func settled() *Observation {
	return &Observation{
		Workloads: statustest.Workloads(), Pods: statustest.Pods(), Etcd: statustest.Etcd(), CreationFailures: map[string]string{},
	}
}

// unready makes a pod not ready, and the workload count one less.
func (seen *Observation) unready(component string, i int32) *corev1.Pod {
	pod := &seen.Pods[component][i]
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	seen.Workloads[component].Ready--
	seen.Workloads[component].Available--
	return pod
}

// crash makes a container of a pod end again and again.
func (seen *Observation) crash(component string, i int32, last string) {
	seen.unready(component, i).Status.ContainerStatuses = []corev1.ContainerStatus{{
		RestartCount:         4,
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1, Message: "starting\n" + last + "\n"}},
	}}
}

// lose makes the host cluster not hear from a host node: all pods there count as not ready, and the
// controller cannot observe the members there.
func (seen *Observation) lose(node string) {
	seen.LostNodes = append(seen.LostNodes, node)
	for component, pods := range seen.Pods {
		for i := range pods {
			if pods[i].Spec.NodeName != node {
				continue
			}
			seen.unready(component, int32(i))
			if health := seen.Etcd[component]; health != nil {
				health.Members[i] = etcd.Member{Name: statustest.PodName(component, int32(i)), Listed: true, Err: errRefused}
			}
		}
	}
	for _, health := range seen.Etcd {
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
func (seen *Observation) silence(component string) {
	health := seen.Etcd[component]
	health.Err = errRefused
	for i := range health.Members {
		health.Members[i].Err = errRefused
	}
}

// settledInput is of a reconcile in which every step is done.
func settledInput() *Input {
	return &Input{Cluster: statustest.Cluster, OwnHost: true, ControlPlane: statustest.ControlPlane(), Outcomes: statustest.Outcomes()}
}

// end makes a step end otherwise, and those after it not run.
func (in *Input) end(step string, result flow.Result) { statustest.End(in.Outcomes, step, result) }

// uninitialized takes back that the tenant's API ever answered.
func (in *Input) uninitialized() { in.ControlPlane.Status.Initialization.ControlPlaneInitialized = nil }

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
	healthy := expectation{status: metav1.ConditionTrue, reason: conditionsv1.HealthyReason}
	unhealthy := func(says ...string) expectation {
		return expectation{status: metav1.ConditionFalse, reason: conditionsv1.UnhealthyReason, says: says}
	}
	unknown := func(says ...string) expectation {
		return expectation{status: metav1.ConditionUnknown, reason: conditionsv1.HealthUnknownReason, says: says}
	}
	for name, test := range map[string]struct {
		seen func(*Observation)
		want expectation
	}{
		"both clusters are well": {func(*Observation) {}, healthy},
		"nothing exists yet": {func(seen *Observation) { *seen = Observation{} },
			unhealthy("etcd-data is not created yet", "etcd-events is not created yet")},
		"the first pods start": {func(seen *Observation) {
			for i := range int32(3) {
				seen.unready(names.EtcdData, i)
			}
			seen.Etcd[names.EtcdData] = nil
		}, unhealthy("etcd-data: pod blue-etcd-data-0 on n0 is starting")},
		"a member is not ready although it answers": {func(seen *Observation) { seen.unready(names.EtcdData, 1) },
			unhealthy("etcd-data: pod blue-etcd-data-1 on n1 is starting")},
		"a member does not answer": {func(seen *Observation) { seen.Etcd[names.EtcdData].Members[1].Err = errRefused },
			unhealthy("etcd-data: member blue-etcd-data-1 does not answer: connection refused")},
		"an alarm is raised": {func(seen *Observation) {
			seen.Etcd[names.EtcdEvents].Alarms = []string{"NOSPACE on blue-etcd-events-0"}
		},
			unhealthy("etcd-events: alarm NOSPACE on blue-etcd-events-0")},
		"it gets room": {func(seen *Observation) {
			seen.Etcd[names.EtcdEvents].Alarms = []string{"NOSPACE on blue-etcd-events-0"}
			seen.Etcd[names.EtcdEvents].Space = "it is full: old versions of all keys are dropped"
		}, expectation{status: metav1.ConditionFalse, reason: conditionsv1.SpaceExhaustedReason,
			says: []string{"etcd-events: alarm NOSPACE on blue-etcd-events-0\netcd-events: it is full: old versions of all keys are dropped"}}},
		"nobody leads": {func(seen *Observation) { seen.Etcd[names.EtcdData].Members[0].Leader = false },
			unhealthy("etcd-data: no member leads")},
		"an unknown member is listed": {func(seen *Observation) {
			seen.Etcd[names.EtcdData].UnknownMembers = []etcd.UnknownMember{{Name: "evil", ID: 0x1f}}
		},
			unhealthy(`etcd-data: unexpected member "evil" (1f)`)},
		"a member is a learner": {func(seen *Observation) { seen.Etcd[names.EtcdData].Members[2].Learner = true },
			unhealthy("etcd-data: member blue-etcd-data-2 is a learner")},
		"a member is not in the list": {func(seen *Observation) { seen.Etcd[names.EtcdData].Members[2].Listed = false },
			unhealthy("etcd-data: member blue-etcd-data-2 is not in the member list")},
		"a quorum is lost and a member says so": {func(seen *Observation) {
			health := seen.Etcd[names.EtcdData]
			health.Err, health.Members[0].Leader = errRefused, false
			health.Members[1].Err, health.Members[2].Err = errRefused, errRefused
		}, unhealthy("etcd-data: the cluster does not answer", "member blue-etcd-data-1 does not answer", "member blue-etcd-data-2 does not answer")},

		"ready members cannot be reached": {func(seen *Observation) { seen.silence(names.EtcdData) },
			unknown("etcd-data cannot be observed: nothing answers on the way there")},
		"one cluster cannot be reached and the other is unhealthy": {func(seen *Observation) {
			seen.silence(names.EtcdData)
			seen.Etcd[names.EtcdEvents].Members[1].Err = errRefused
		}, expectation{status: metav1.ConditionFalse, reason: conditionsv1.UnhealthyReason, never: []string{"etcd-data"},
			says: []string{"etcd-events: member blue-etcd-events-1 does not answer"}}},
		"members that cannot be reached crash, as their host nodes say": {func(seen *Observation) {
			seen.silence(names.EtcdData)
			for i := range int32(3) {
				seen.crash(names.EtcdData, i, "disk is full")
			}
		}, unhealthy("etcd-data: pod blue-etcd-data-0 on n0 ended 4 times", "disk is full")},
		"the key material is lost and all pods are ready": {func(seen *Observation) { seen.Etcd = nil },
			unknown("etcd-data cannot be observed without certificates; its pods are ready")},

		"the link to all host nodes is cut": {func(seen *Observation) {
			seen.lose("n0")
			seen.lose("n1")
			seen.lose("n2")
		}, expectation{status: metav1.ConditionUnknown, reason: conditionsv1.HealthUnknownReason, never: []string{"starting", "refused"},
			says: []string{"etcd-data cannot be observed: the host cluster does not hear from n0, n1, n2; what runs there goes on", "etcd-events"}}},
		"the link is cut and etcd was not observed": {func(seen *Observation) {
			seen.lose("n0")
			seen.lose("n1")
			seen.lose("n2")
			seen.Etcd = nil
		}, unknown("etcd-data cannot be observed", "etcd-events cannot be observed")},
		// Members that answer are on the same network: it is the member that is away, not the way.
		"one host node is off": {func(seen *Observation) { seen.lose("n1") },
			unhealthy("etcd-data: member blue-etcd-data-1 does not answer", "etcd-events: member blue-etcd-events-1 does not answer")},
	} {
		t.Run(name, func(t *testing.T) {
			seen := settled()
			test.seen(seen)
			expect(t, etcdClusterHealthy(settledInput(), seen), test.want)
		})
	}
}

func TestAnEtcdThatMayBecomeTooLargeForItsVolumeIsHealthyAndTold(t *testing.T) {
	in := settledInput()
	in.ControlPlane.Spec.Etcd.Events.QuotaBackendSize, in.ControlPlane.Spec.Etcd.Events.Storage.Size = ptr.To(resource.MustParse("6Gi")), ptr.To(resource.MustParse("8Gi"))
	expect(t, etcdClusterHealthy(in, settled()), expectation{
		status: metav1.ConditionTrue, reason: conditionsv1.HealthyReason, never: []string{"etcd-data"},
		says: []string{"etcd-events: spec.etcd.events.quotaBackendSize, 6Gi, is more than 45 % of spec.etcd.events.storage.size, 8Gi", "14Gi"},
	})
	in.ControlPlane.Spec.Etcd.Events.Mode = controlplanev1.EtcdEventsInData
	expect(t, etcdClusterHealthy(in, settled()), expectation{status: metav1.ConditionTrue, reason: conditionsv1.HealthyReason})
}

func TestEtcdRecovering(t *testing.T) {
	recovers := func(component, says string, needsDecision bool) func(*Observation) {
		return func(seen *Observation) {
			seen.Etcd[component].Recovery, seen.Etcd[component].NeedsDecision = says, needsDecision
		}
	}
	both := func(data, events func(*Observation)) func(*Observation) {
		return func(seen *Observation) {
			data(seen)
			events(seen)
		}
	}
	data, events := recovers(names.EtcdData, "its volume is gone", false), recovers(names.EtcdEvents, "it waits", false)
	dataDecides, eventsDecides := recovers(names.EtcdData, "its disk is full", true), recovers(names.EtcdEvents, "it was tried twice", true)
	not := expectation{status: metav1.ConditionFalse, reason: conditionsv1.NotRecoveringReason}
	recovering := func(reason string, says ...string) expectation {
		return expectation{status: metav1.ConditionTrue, reason: reason, says: says}
	}
	for name, test := range map[string]struct {
		seen func(*Observation)
		want expectation
	}{
		"both clusters are well":              {func(*Observation) {}, not},
		"nothing was observed":                {func(seen *Observation) { *seen = Observation{} }, not},
		"one member is away and none is lost": {func(seen *Observation) { seen.lose("n1") }, not},
		"etcd-events does not answer": {func(seen *Observation) { seen.silence(names.EtcdEvents) },
			expectation{status: metav1.ConditionUnknown, reason: conditionsv1.HealthUnknownReason, says: []string{"etcd-events does not answer"}}},
		"etcd-events does not answer, and one of etcd-data is lost": {both(data, func(seen *Observation) { seen.silence(names.EtcdEvents) }),
			recovering(conditionsv1.RecoveringReason, "etcd-data: its volume is gone")},
		"nobody knows whether one is lost": {func(seen *Observation) {
			seen.Etcd[names.EtcdData].Recovery, seen.Etcd[names.EtcdData].FactsMissing = "volumes may not be read", true
		}, expectation{status: metav1.ConditionUnknown, reason: conditionsv1.HealthUnknownReason, says: []string{"etcd-data: volumes may not be read"}}},
		"one of etcd-data is lost":           {data, recovering(conditionsv1.RecoveringReason, "etcd-data: its volume is gone")},
		"one of etcd-events is lost":         {events, recovering(conditionsv1.RecoveringReason, "etcd-events: it waits")},
		"one of each is lost":                {both(data, events), recovering(conditionsv1.RecoveringReason, "etcd-data: its volume is gone\netcd-events: it waits")},
		"a person decides about etcd-data":   {dataDecides, recovering(conditionsv1.NeedsDecisionReason, "etcd-data: its disk is full")},
		"a person decides about etcd-events": {eventsDecides, recovering(conditionsv1.NeedsDecisionReason, "etcd-events: it was tried twice")},
		"a person decides about the first":   {both(dataDecides, events), recovering(conditionsv1.NeedsDecisionReason, "etcd-data: its disk is full\netcd-events: it waits")},
		"a person decides about the last":    {both(data, eventsDecides), recovering(conditionsv1.NeedsDecisionReason, "etcd-data: its volume is gone\netcd-events: it was tried twice")},
	} {
		t.Run(name, func(t *testing.T) {
			seen := settled()
			test.seen(seen)
			got := etcdRecovering(&Input{}, seen)
			if got.Type != conditionsv1.EtcdRecoveringCondition {
				t.Errorf("the condition is %s", got.Type)
			}
			expect(t, got, test.want)
		})
	}
}

func TestControlPlaneComponentsHealthy(t *testing.T) {
	for name, test := range map[string]struct {
		seen func(*Observation)
		want expectation
	}{
		"all are well": {func(*Observation) {}, expectation{status: metav1.ConditionTrue, reason: conditionsv1.HealthyReason}},
		"etcd is no part of it": {func(seen *Observation) { seen.crash(names.EtcdData, 0, "") },
			expectation{status: metav1.ConditionTrue, reason: conditionsv1.HealthyReason}},
		"a pod crashes": {func(seen *Observation) { seen.crash(names.KubeScheduler, 1, "panic: no") },
			expectation{status: metav1.ConditionFalse, reason: conditionsv1.UnhealthyReason,
				says: []string{"kube-scheduler: pod blue-kube-scheduler-1 on n1 ended 4 times, last with Error (exit code 1): panic: no"}}},
		"a pod is not up to date": {func(seen *Observation) { seen.Workloads[names.KubeAPIServer].Updated = 2 },
			expectation{status: metav1.ConditionFalse, reason: conditionsv1.UnhealthyReason, says: []string{"kube-apiserver rolls out: 2 of 3 pods are up to date"}}},
		"the workload was not looked at yet": {func(seen *Observation) { seen.Workloads[names.KubeScheduler].Observed = false },
			expectation{status: metav1.ConditionFalse, reason: conditionsv1.UnhealthyReason, says: []string{"kube-scheduler"}}},
		"pods are not created": {func(seen *Observation) {
			seen.Pods[names.KubeScheduler] = nil
			seen.Workloads[names.KubeScheduler] = &workloads.State{Observed: true, Desired: 2, Needed: 1}
			seen.CreationFailures[names.KubeScheduler] = "exceeded quota: pods"
		}, expectation{status: metav1.ConditionFalse, reason: conditionsv1.UnhealthyReason, says: []string{"kube-scheduler: exceeded quota: pods"}}},
		"no host node is labelled": {func(seen *Observation) {
			seen.Pods[names.KubeAPIServer] = nil
			seen.Workloads[names.KubeAPIServer] = &workloads.State{Observed: true, Needed: 1}
		}, expectation{status: metav1.ConditionFalse, reason: conditionsv1.UnhealthyReason, says: []string{"no node of the host cluster matches spec.hosting.nodeSelector"}}},

		"a host node is not heard from": {func(seen *Observation) { seen.lose("n1") },
			expectation{status: metav1.ConditionUnknown, reason: conditionsv1.HealthUnknownReason, says: []string{heardNothing}, never: []string{"starting"}}},
		"a host node is not heard from, and a pod on another crashes": {func(seen *Observation) {
			seen.lose("n1")
			seen.crash(names.KubeAPIServer, 2, "bind: address already in use")
		}, expectation{status: metav1.ConditionFalse, reason: conditionsv1.UnhealthyReason,
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
	yes := expectation{status: metav1.ConditionTrue, reason: conditionsv1.AvailableReason}
	no := func(says ...string) expectation {
		return expectation{status: metav1.ConditionFalse, reason: conditionsv1.NotAvailableReason, says: says}
	}
	unknown := func(says ...string) expectation {
		return expectation{status: metav1.ConditionUnknown, reason: conditionsv1.HealthUnknownReason, says: says}
	}
	for name, test := range map[string]struct {
		is   func(*Input, *Observation)
		want expectation
	}{
		"all is well":                      {func(*Input, *Observation) {}, yes},
		"one pod of each component is off": {func(_ *Input, seen *Observation) { eachComponent(func(c string) { seen.crash(c, 1, "") }) }, yes},
		"a rollout is under way":           {func(_ *Input, seen *Observation) { seen.Workloads[names.KubeAPIServer].Updated = 1 }, yes},
		"nothing began": {func(in *Input, seen *Observation) {
			in.uninitialized()
			in.Outcomes, *seen = nil, Observation{}
		}, no("tenant-objects has not started")},
		"etcd starts": {func(in *Input, seen *Observation) {
			in.uninitialized()
			in.end(names.EtcdData, flow.Waiting("etcd-data has 0 of 3 pods ready and needs 2"))
			*seen = Observation{}
		}, no("etcd-data has 0 of 3 pods ready and needs 2")},
		"the tenant's API does not answer yet": {func(in *Input, _ *Observation) {
			in.uninitialized()
			in.end(names.StepTenantObjects, flow.Waiting("the tenant's API does not answer at 10.0.0.1:6443"))
		}, no("the tenant's API does not answer at 10.0.0.1:6443")},
		"a port block is held by another": {func(in *Input, seen *Observation) {
			in.uninitialized()
			in.end(names.StepPorts, flow.Blocked(conditionsv1.ReconcileFailedReason, errors.New("host ports 20000-20019 belong to Cluster a/b")))
			*seen = Observation{}
		}, no("ports: host ports 20000-20019 belong to Cluster a/b")},

		"a quorum is lost": {func(_ *Input, seen *Observation) {
			seen.crash(names.EtcdData, 0, "disk is full")
			seen.crash(names.EtcdData, 1, "disk is full")
		}, no("etcd-data: pod blue-etcd-data-0 on n0 ended", "etcd-data: pod blue-etcd-data-1")},
		"no scheduler is ready": {func(_ *Input, seen *Observation) {
			seen.crash(names.KubeScheduler, 0, "no")
			seen.crash(names.KubeScheduler, 1, "no")
		}, no("kube-scheduler: pod blue-kube-scheduler-0")},
		"a workload was deleted": {func(_ *Input, seen *Observation) { delete(seen.Workloads, names.KubeAPIServer) }, no("kube-apiserver is not created yet")},
		"key material is lost": {func(in *Input, _ *Observation) {
			in.end(names.StepKeyMaterial, flow.Blocked(conditionsv1.KeyMaterialLostReason, errLost))
		}, no("cluster CA")},

		"the key material could not be read": {func(in *Input, _ *Observation) { in.end(names.StepKeyMaterial, flow.Failed(errRefused)) }, unknown("connection refused")},
		"the link to all host nodes is cut": {func(_ *Input, seen *Observation) {
			seen.lose("n0")
			seen.lose("n1")
			seen.lose("n2")
		}, unknown("the control plane cannot be observed: the host cluster does not hear from n0, n1, n2; what runs there goes on")},
		"one host node is off": {func(_ *Input, seen *Observation) { seen.lose("n1") }, yes},
		"one host node is off, and a member that answered crashes": {func(_ *Input, seen *Observation) {
			seen.lose("n1")
			seen.crash(names.EtcdData, 2, "disk is full")
		}, unknown(heardNothing)},
		"one host node is off, and no quorum is left even if its member lives": {func(_ *Input, seen *Observation) {
			seen.lose("n1")
			seen.crash(names.EtcdData, 0, "disk is full")
			seen.crash(names.EtcdData, 2, "disk is full")
		}, expectation{status: metav1.ConditionFalse, reason: conditionsv1.NotAvailableReason,
			says: []string{"etcd-data: pod blue-etcd-data-0 on n0 ended", "disk is full"}, never: []string{"on n1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			in, seen := settledInput(), settled()
			test.is(in, seen)
			expect(t, available(in, seen), test.want)
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
		"they are": {want: expectation{status: metav1.ConditionTrue, reason: conditionsv1.AvailableReason}},
		"key material is lost": {step: names.StepKeyMaterial, result: flow.Blocked(conditionsv1.KeyMaterialLostReason, errLost),
			want: expectation{status: metav1.ConditionFalse, reason: conditionsv1.KeyMaterialLostReason, says: []string{"cluster CA", "restore"}}},
		"key material is invalid": {step: names.StepKeyMaterial, result: flow.Blocked(conditionsv1.InvalidKeyMaterialReason, &pki.InvalidError{DataKey: "tlin.Cluster", Problem: "is no PEM private key", Remedy: "put a valid pair into it"}),
			want: expectation{status: metav1.ConditionFalse, reason: conditionsv1.InvalidKeyMaterialReason, says: []string{"tlin.Cluster", "is no PEM private key", "put a valid pair into it"}}},
		"key material could not be read": {step: names.StepKeyMaterial, result: flow.Failed(errRefused),
			want: expectation{status: metav1.ConditionUnknown, reason: conditionsv1.ReconcileFailedReason, says: []string{"connection refused"}}},
		"a certificate could not be written": {step: names.StepCertificates, result: flow.Failed(errRefused),
			want: expectation{status: metav1.ConditionUnknown, reason: conditionsv1.ReconcileFailedReason, says: []string{"connection refused"}}},
		"the kubeconfig could not be written": {step: names.StepKubeconfig, result: flow.Failed(errRefused),
			want: expectation{status: metav1.ConditionUnknown, reason: conditionsv1.ReconcileFailedReason, says: []string{"connection refused"}}},
		"Services have no addresses yet": {step: names.StepEndpoint, result: flow.Waiting("for addresses"),
			want: expectation{status: metav1.ConditionFalse, reason: conditionsv1.WaitingReason, says: []string{"for addresses"}}},
		"a later step waits": {step: names.EtcdData, result: flow.Waiting("for members"),
			want: expectation{status: metav1.ConditionTrue, reason: conditionsv1.AvailableReason}},
	} {
		t.Run(name, func(t *testing.T) {
			in := settledInput()
			in.end(test.step, test.result)
			expect(t, certificatesAvailable(in), test.want)
		})
	}
}

func TestInitializedNeverTurnsBack(t *testing.T) {
	in := settledInput()
	in.end(names.StepTenantObjects, flow.Waiting("the tenant's API does not answer"))
	expect(t, initialized(in), expectation{status: metav1.ConditionTrue, reason: conditionsv1.InitializedReason})
	in.uninitialized()
	expect(t, initialized(in), expectation{status: metav1.ConditionFalse, reason: conditionsv1.NotInitializedReason, says: []string{"the tenant's API does not answer"}})
	in.end(names.EtcdEvents, flow.Failed(errRefused))
	expect(t, initialized(in), expectation{status: metav1.ConditionFalse, reason: conditionsv1.NotInitializedReason, says: []string{"etcd-events: connection refused"}})
}

func TestProgress(t *testing.T) {
	rolling := expectation{status: metav1.ConditionTrue, reason: clusterv1.RollingOutReason, says: []string{"kube-apiserver: 1 of 3 pods are up to date"}}
	up := expectation{status: metav1.ConditionTrue, reason: clusterv1.ScalingUpReason, says: []string{"kube-apiserver: 3 of 4 pods exist"}}
	down := expectation{status: metav1.ConditionTrue, reason: clusterv1.ScalingDownReason, says: []string{"kube-apiserver: 3 pods exist, 2 are wanted"}}
	notRolling := expectation{status: metav1.ConditionFalse, reason: clusterv1.NotRollingOutReason}
	notUp := expectation{status: metav1.ConditionFalse, reason: clusterv1.NotScalingUpReason}
	notDown := expectation{status: metav1.ConditionFalse, reason: clusterv1.NotScalingDownReason}
	for name, test := range map[string]struct {
		seen              func(*Observation)
		rolling, up, down expectation
	}{
		"a settled control plane":     {seen: func(*Observation) {}, rolling: notRolling, up: notUp, down: notDown},
		"nothing exists":              {seen: func(seen *Observation) { *seen = Observation{} }, rolling: notRolling, up: notUp, down: notDown},
		"pods are not up to date":     {seen: func(seen *Observation) { seen.Workloads[names.KubeAPIServer].Updated = 1 }, rolling: rolling, up: notUp, down: notDown},
		"a host node joined":          {seen: func(seen *Observation) { seen.Workloads[names.KubeAPIServer].Desired = 4 }, rolling: notRolling, up: up, down: notDown},
		"a host node left":            {seen: func(seen *Observation) { seen.Workloads[names.KubeAPIServer].Desired = 2 }, rolling: notRolling, up: notUp, down: down},
		"pods exist and do not work":  {seen: func(seen *Observation) { seen.crash(names.KubeAPIServer, 0, "") }, rolling: notRolling, up: notUp, down: notDown},
		"a host node cannot be heard": {seen: func(seen *Observation) { seen.lose("n0") }, rolling: notRolling, up: notUp, down: notDown},
	} {
		t.Run(name, func(t *testing.T) {
			seen := settled()
			test.seen(seen)
			expect(t, rollingOut(seen), test.rolling)
			expect(t, scalingUp(settledInput(), seen), test.up)
			expect(t, scalingDown(settledInput(), seen), test.down)
		})
	}
}

func TestReconciledSaysWhatFailsAndWhatWaits(t *testing.T) {
	for name, test := range map[string]struct {
		is   func(*Input)
		want expectation
	}{
		"every step is done": {func(*Input) {}, expectation{status: metav1.ConditionTrue, reason: conditionsv1.ReconciledReason}},
		"a step waits": {func(in *Input) { in.end(names.EtcdData, flow.Waiting("for members")) },
			expectation{status: metav1.ConditionFalse, reason: conditionsv1.WaitingReason, says: []string{"for members"}}},
		"a step failed": {func(in *Input) { in.end(names.EtcdData, flow.Failed(errRefused)) },
			expectation{status: metav1.ConditionFalse, reason: conditionsv1.ReconcileFailedReason, says: []string{"etcd-data: connection refused"}}},
		"one failed and another waits": {func(in *Input) {
			in.Outcomes[0].Result, in.Outcomes[1].Result = flow.Failed(errRefused), flow.Waiting("for a block")
		}, expectation{status: metav1.ConditionFalse, reason: conditionsv1.ReconcileFailedReason, says: []string{"key-material: connection refused", "for a block"}}},
		"what runs cannot be made any more": {func(in *Input) { in.Problem = errors.New("spec.version: v1.20 is not supported") },
			expectation{status: metav1.ConditionFalse, reason: conditionsv1.ReconcileFailedReason, says: []string{"v1.20 is not supported"}}},
	} {
		t.Run(name, func(t *testing.T) {
			in := settledInput()
			test.is(in)
			expect(t, reconciled(in), test.want)
		})
	}
}

func TestMovable(t *testing.T) {
	in := settledInput()
	if c := movable(in); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "clusterctl move would delete it") {
		t.Errorf("in the management cluster it is %s: %s", c.Status, c.Message)
	}
	in.OwnHost = false
	expect(t, movable(in), expectation{status: metav1.ConditionTrue, reason: conditionsv1.HostedElsewhereReason})
}

func TestDeletingSaysWhatIsLeft(t *testing.T) {
	expect(t, notDeleting(), expectation{status: metav1.ConditionFalse, reason: clusterv1.NotDeletingReason})
	controlPlane := &controlplanev1.KOKControlPlane{}
	Deleting(controlPlane, "still there: Pod blue-etcd-data-0")
	expect(t, *conditions.Get(controlPlane, conditionsv1.DeletingCondition),
		expectation{status: metav1.ConditionTrue, reason: clusterv1.DeletingReason, says: []string{"still there: Pod blue-etcd-data-0"}})
	if !conditions.IsFalse(controlPlane, conditionsv1.AvailableCondition) {
		t.Error("it is available while it is deleted")
	}
}

// Every condition that is set is also one that the controller says it owns: else its patch would lose
// to an older value.
func TestAllConditionsAreSetAndOwned(t *testing.T) {
	in := settledInput()
	statustest.WithEveryCondition(&in.ControlPlane.Spec)
	setConditions(in, settled())
	set := map[string]bool{clusterv1.PausedCondition: true}
	for _, c := range in.ControlPlane.Status.Conditions {
		set[c.Type] = true
	}
	for _, owned := range Owned {
		if !set[owned] {
			t.Errorf("%s is owned and not set", owned)
		}
		delete(set, owned)
	}
	if len(set) > 0 {
		t.Errorf("%v are set and not owned", set)
	}
}

// kok status shows what is not as it should be. It has to know of which conditions False is good. CONTRIBUTING.md, "A new
// condition", promises that this test fails when it does not.
func TestKokStatusShowsEveryConditionThatIsNotAsItShouldBe(t *testing.T) {
	in, seen := settledInput(), settled()
	in.ControlPlane.Spec.Addons.Konnectivity.Mode = controlplanev1.AddonManaged
	statustest.WithEveryCondition(&in.ControlPlane.Spec)
	seen.Now = time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	seen.Backup.Report = &backup.Report{Listed: seen.Now, Snapshots: []backup.Snapshot{{Slot: seen.Now, Taken: seen.Now, Verified: seen.Now}}}
	seen.apiServersAre(renderedAPIServer(t, controlplanev1.AddonManaged))
	setConditions(in, seen)
	for _, c := range clistatus.NewsOf(in.ControlPlane) {
		t.Errorf("kok status shows %s, which is %s of a control plane of which all is well: is False good? Add it to trueIsNews of internal/cli/status", c.Type, c.Status)
	}
	if t.Failed() {
		return
	}
	other := map[metav1.ConditionStatus]metav1.ConditionStatus{metav1.ConditionTrue: metav1.ConditionFalse, metav1.ConditionFalse: metav1.ConditionTrue}
	for _, c := range in.ControlPlane.Status.Conditions {
		controlPlane := in.ControlPlane.DeepCopy()
		conditions.Set(controlPlane, metav1.Condition{Type: c.Type, Status: other[c.Status], Reason: "Other"})
		news := clistatus.NewsOf(controlPlane)
		if shown := len(news) == 1 && news[0].Type == c.Type; shown == (c.Type == conditionsv1.MovableCondition) {
			t.Errorf("kok status shows %v of a control plane of which %s is %s: see NewsOf of internal/cli/status", news, c.Type, other[c.Status])
		}
	}
}
