package status

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

func TestReplicasAreThoseOfTheAPIServer(t *testing.T) {
	in, seen := settledInput(), settled()
	*seen.Workloads[names.KubeAPIServer] = workloads.State{Desired: 9, Current: 7, Updated: 5, Ready: 3, Available: 1}
	setReplicas(in, seen)
	status := in.ControlPlane.Status
	got := []int32{*status.DesiredReplicas, *status.Replicas, *status.UpToDateReplicas, *status.ReadyReplicas, *status.AvailableReplicas}
	if !slices.Equal(got, []int32{9, 7, 5, 3, 1}) {
		t.Errorf("got %v", got)
	}
	if want := "app.kubernetes.io/component=kube-apiserver,app.kubernetes.io/managed-by=kok-control-plane,cluster.x-k8s.io/cluster-name=blue,kok.cluster.x-k8s.io/cluster-namespace=team"; status.Selector != want {
		t.Errorf("the selector is %s", status.Selector)
	}

	delete(seen.Workloads, names.KubeAPIServer)
	setReplicas(in, seen)
	if status := in.ControlPlane.Status; *status.Replicas != 0 || *status.DesiredReplicas != 0 {
		t.Error("without a DaemonSet there are replicas")
	}
}

func TestEtcdIsBootstrappedWhenEveryMemberHasJoinedAndForEver(t *testing.T) {
	in := settledInput()
	in.ControlPlane.Status.Etcd = nil
	in.ControlPlane.Spec.Etcd.Data.Replicas, in.ControlPlane.Spec.Etcd.Events.Replicas = ptr.To[int32](3), ptr.To[int32](1)
	member := func(name string, listed bool) etcd.Member {
		return etcd.Member{Name: name, Listed: listed, Leader: name == "a"}
	}
	for _, step := range []struct {
		name   string
		health *etcd.Health
		want   bool
	}{
		{"nobody was asked", nil, false},
		{"two of three have joined", &etcd.Health{Members: []etcd.Member{member("a", true), member("b", true), member("c", false)}}, false},
		{"one does not answer", &etcd.Health{Members: []etcd.Member{member("a", true), {Name: "b", Listed: true, Err: errors.New("away")}}}, false},
		{"the cluster does not answer", &etcd.Health{Err: errors.New("away"), Members: []etcd.Member{member("a", true)}}, false},
		{"all have joined", &etcd.Health{Members: []etcd.Member{member("a", true), member("b", true), member("c", true)}}, true},
		{"one is away later", &etcd.Health{Members: []etcd.Member{member("a", true), {Name: "b", Listed: true, Err: errors.New("away")}}}, true},
		{"nobody can be asked later", nil, true},
	} {
		seen := settled()
		seen.Etcd = map[string]*operator.Report{names.EtcdData: {Health: step.health}}
		setEtcd(in, seen)
		if got := etcdclusters.Bootstrapped(in.ControlPlane, names.EtcdData); got != step.want {
			t.Errorf("%s: bootstrapped is %t", step.name, got)
		}
		if etcdclusters.Bootstrapped(in.ControlPlane, names.EtcdEvents) {
			t.Errorf("%s: events is bootstrapped with data", step.name)
		}
	}
}

func TestEtcdHealthSumsUpReadyMembers(t *testing.T) {
	in, seen := settledInput(), settled()
	in.ControlPlane.Spec.Etcd.Data.Replicas, in.ControlPlane.Spec.Etcd.Events.Replicas = ptr.To[int32](3), ptr.To[int32](1)
	seen.Workloads = nil
	setEtcd(in, seen)
	if got := in.ControlPlane.Status.EtcdHealth; got != "0/3 0/1" {
		t.Errorf("without workloads: %s", got)
	}
	seen.Workloads = map[string]*workloads.State{names.EtcdData: {Desired: 3, Ready: 2, Needed: 2}}
	setEtcd(in, seen)
	if got := in.ControlPlane.Status.EtcdHealth; got != "2/3 0/1" {
		t.Errorf("with two members: %s", got)
	}
}

func TestVersionsStayUntilEveryPodLeftThem(t *testing.T) {
	at := func(seen *Observation, component string, versions ...string) {
		seen.Pods[component] = nil
		for i, version := range versions {
			pod := statustest.ReadyPod(component, int32(i))
			pod.Labels[names.VersionLabel] = version
			if version == "" {
				delete(pod.Labels, names.VersionLabel)
			}
			seen.Pods[component] = append(seen.Pods[component], pod)
		}
	}
	version := func(version string, replicas int32) clusterv1.StatusVersion {
		return clusterv1.StatusVersion{Version: version, Replicas: replicas}
	}
	old := []clusterv1.StatusVersion{version("v1.35.4", 3)}
	for name, test := range map[string]struct {
		seen func(*Observation)
		want []clusterv1.StatusVersion
	}{
		"all run one version": {func(*Observation) {}, []clusterv1.StatusVersion{version("v1.36.3", 3)}},
		"API servers are half way": {func(seen *Observation) {
			at(seen, names.KubeAPIServer, "v1.36.3", "v1.35.4", "v1.35.4")
			at(seen, names.KubeControllerManager, "v1.35.4", "v1.35.4")
			at(seen, names.KubeScheduler, "v1.35.4", "v1.35.4")
		}, []clusterv1.StatusVersion{version("v1.35.4", 2), version("v1.36.3", 1)}},
		"only a scheduler is left at the old version": {func(seen *Observation) { at(seen, names.KubeScheduler, "v1.35.4", "v1.36.3") },
			[]clusterv1.StatusVersion{version("v1.35.4", 0), version("v1.36.3", 3)}},
		"etcd has no version of Kubernetes": {func(seen *Observation) { at(seen, names.EtcdData, "v1.30.0") }, []clusterv1.StatusVersion{version("v1.36.3", 3)}},
		"versions are ordered as versions": {func(seen *Observation) { at(seen, names.KubeAPIServer, "v1.36.10", "v1.36.9") },
			[]clusterv1.StatusVersion{version("v1.36.3", 0), version("v1.36.9", 1), version("v1.36.10", 1)}},
		"a version with a build": {func(seen *Observation) {
			at(seen, names.KubeAPIServer, "v1.36.3_vendor.1")
			at(seen, names.KubeControllerManager, "v1.36.3_vendor.1")
			at(seen, names.KubeScheduler, "v1.36.3_vendor.1")
		}, []clusterv1.StatusVersion{version("v1.36.3+vendor.1", 1)}},
		"pods that ended are no more than a record": {func(seen *Observation) {
			evicted, shutDown := statustest.ReadyPod(names.KubeAPIServer, 3), statustest.ReadyPod(names.KubeScheduler, 2)
			evicted.Labels[names.VersionLabel], evicted.Status = "v1.35.4", corev1.PodStatus{Phase: corev1.PodFailed}
			shutDown.Labels[names.VersionLabel], shutDown.Status = "v1.35.4", corev1.PodStatus{Phase: corev1.PodSucceeded}
			seen.Pods[names.KubeAPIServer] = append(seen.Pods[names.KubeAPIServer], evicted)
			seen.Pods[names.KubeScheduler] = append(seen.Pods[names.KubeScheduler], shutDown)
		}, []clusterv1.StatusVersion{version("v1.36.3", 3)}},
		"no pod exists": {func(seen *Observation) { seen.Pods = nil }, old},
		"no pod says its version": {func(seen *Observation) {
			at(seen, names.KubeAPIServer, "")
			at(seen, names.KubeControllerManager, "")
			at(seen, names.KubeScheduler, "")
		}, old},
	} {
		t.Run(name, func(t *testing.T) {
			in, seen := settledInput(), settled()
			in.ControlPlane.Status.Versions = slices.Clone(old)
			test.seen(seen)
			SetVersions(in.ControlPlane, seen.Pods)
			if !slices.Equal(in.ControlPlane.Status.Versions, test.want) {
				t.Errorf("got %v, want %v", in.ControlPlane.Status.Versions, test.want)
			}
		})
	}
}

func TestAPodThatEndedIsNotLost(t *testing.T) {
	seen := settled()
	seen.lose("n1")
	for phase, want := range map[corev1.PodPhase]int32{
		corev1.PodPending: 1, corev1.PodRunning: 1, corev1.PodUnknown: 1, corev1.PodFailed: 0, corev1.PodSucceeded: 0,
	} {
		seen.Pods[names.KubeAPIServer][1].Status.Phase = phase
		if got := seen.lostPods(names.KubeAPIServer); got != want {
			t.Errorf("%d pods of which one is %s are lost", got, phase)
		}
	}
}
