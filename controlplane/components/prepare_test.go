package components_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
)

// eachEtcd runs a check on the pods of both etcds in every variant.
func eachEtcd(t *testing.T, check func(t *testing.T, in *components.Input, pod corev1.PodSpec)) {
	eachRendering(t, func(t *testing.T, in *components.Input, component components.Component, objects []client.Object) {
		if slices.Contains(bothEtcds, component.Name) {
			check(t, in, podIn(t, objects).Spec)
		}
	})
}

// It looks where etcd's data are, and has nothing else of the pod.
func TestPrepareSeesTheDataAndNoKeys(t *testing.T) {
	eachEtcd(t, func(t *testing.T, in *components.Input, pod corev1.PodSpec) {
		if slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "kok-backup" }) {
			return // TestWhatPrepareHasOfBackups says what it has then.
		}
		if len(pod.InitContainers) != 1 || pod.InitContainers[0].Name != facts.Container || pod.InitContainers[0].Image != in.EtcdAgentImage {
			t.Fatalf("the init containers are %v", pod.InitContainers)
		}
		prepare, own := pod.InitContainers[0], pod.Containers[0].VolumeMounts[0]
		if want := []string{"prepare", "--hold", "--data-dir=" + own.MountPath + "/data"}; !slices.Equal(prepare.Args, want) {
			t.Errorf("its arguments are %q, want %q", prepare.Args, want)
		}
		own.ReadOnly = true
		if len(prepare.VolumeMounts) != 1 || prepare.VolumeMounts[0] != own || len(prepare.Ports) > 0 {
			t.Errorf("it mounts %v, and listens at %v", prepare.VolumeMounts, prepare.Ports)
		}
	})
}

// What a pod asks for is the higher one of its init containers and of the sum of all others; the class of its quality of
// service is by all containers: https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers.
func TestPrepareAsksForNoMoreThanEtcd(t *testing.T) {
	eachEtcd(t, func(t *testing.T, in *components.Input, pod corev1.PodSpec) {
		prepare, own := pod.InitContainers[0].Resources, pod.Containers[0].Resources
		for _, kind := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			ask, most := prepare.Requests[kind], own.Requests[kind]
			if ask.IsZero() || ask.Cmp(most) > 0 {
				t.Errorf("it asks for %s of %s, and etcd for %s", ask.String(), kind, most.String())
			}
			limit, same := prepare.Limits[kind], own.Limits[kind]
			if limit.Cmp(same) != 0 {
				t.Errorf("it may have %s of %s, and etcd %s", limit.String(), kind, same.String())
			}
			if guaranteed := most.Cmp(same) == 0; guaranteed && ask.Cmp(limit) != 0 {
				t.Errorf("a pod that is guaranteed its %s would not be", kind)
			}
		}
	})
}

// Running tenants keep such a rendering, and a manager without the flag makes it.
func TestARenderingWithoutPrepareIsAsItWas(t *testing.T) {
	for _, cluster := range etcd.All {
		component := cluster.AsComponent()
		with, without := variants["default"](), variants["default"]()
		without.EtcdAgentImage = ""
		if hash(t, component, with) != hash(t, component, without) {
			t.Errorf("%s: a manager with the flag would adopt a new rendering", component.Name)
		}
		rendered, err := component.Rendered(without)
		if err != nil {
			t.Fatal(err)
		}
		if pod := podIn(t, rendered).Spec; len(pod.InitContainers) > 0 {
			t.Errorf("%s has %v", component.Name, pod.InitContainers)
		}
		stored := patches.Stored{Cluster: with.Cluster, Component: component.Name, Hosted: component.Patches, HostNetwork: true}
		if problems := stored.Judge(rendered); len(problems) > 0 {
			t.Errorf("%s is refused: %v", component.Name, problems)
		}
		if bytes.Equal(objects(t, component, with), objects(t, component, without)) {
			t.Errorf("%s has no prepare with the flag either", component.Name)
		}
	}
}

// A person may give prepare what a large database takes to read, and have etcd start from what prepare holds it from: with
// one member, or a majority of such ones, nobody else can.
func TestAPatchMayChangeWhatPrepareAsksForAndHolds(t *testing.T) {
	in := variants["default"]()
	in.Spec.Patches = []controlplanev1.Patch{{
		Target: controlplanev1.PatchTarget{Component: "etcd-data", Kind: "StatefulSet"},
		Patch:  `spec: {template: {spec: {initContainers: [{name: prepare, resources: {requests: {cpu: 40m}}, env: [{name: KOK_ETCD_START_ANYWAY, value: "true"}]}]}}}`,
	}}
	rendered, err := etcd.Data.AsComponent().Rendered(in)
	if err != nil {
		t.Fatal(err)
	}
	prepare := podIn(t, rendered).Spec.InitContainers
	told := corev1.EnvVar{Name: facts.StartAnyway, Value: "true"}
	if len(prepare) != 1 || !slices.Contains(prepare[0].Env, told) || prepare[0].Resources.Requests.Cpu().String() != "40m" || prepare[0].Image != in.EtcdAgentImage {
		t.Errorf("the init containers are %v", prepare)
	}
}

// A container that looks elsewhere finds nothing, and says nothing of the data of a survivor.
func TestEveryContainerLooksAtTheSameData(t *testing.T) {
	eachEtcd(t, func(t *testing.T, _ *components.Input, pod corev1.PodSpec) {
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			for _, arg := range container.Args {
				if value, is := strings.CutPrefix(arg, "--data-dir="); is && value != pod.Containers[0].VolumeMounts[0].MountPath+"/data" {
					t.Errorf("container %s looks at %s", container.Name, value)
				}
			}
		}
	})
}
