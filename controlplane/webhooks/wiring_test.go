package webhooks

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// replaceable are the arguments that components are rendered with and that a person may set otherwise.
var replaceable = []string{
	"allow-privileged", "controllers", "enable-admission-plugins", "goaway-chance",
	"kubelet-certificate-authority", "kubelet-preferred-address-types", "profiling",
}

func input() *components.Input {
	etcdCluster := controlplanev1.EtcdClusterSpec{
		Replicas:         ptr.To[int32](3),
		QuotaBackendSize: ptr.To(resource.MustParse("2Gi")),
		Storage: controlplanev1.EtcdStorageSpec{
			Type: controlplanev1.EtcdStoragePersistentVolumeClaim, Size: ptr.To(resource.MustParse("8Gi")),
		},
	}
	in := &components.Input{
		Cluster:   client.ObjectKey{Namespace: "tenants", Name: "a"},
		Version:   "v1.36.3",
		Network:   components.Network{PodCIDRs: []string{"192.168.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/12"}, DNSDomain: "cluster.local", APIServerPort: 6443},
		Ports:     ports.Of(20000),
		Addresses: map[string]string{},
	}
	in.Spec.ImageRepository = "registry.k8s.io"
	in.Spec.KubeAPIServer.Audit = &controlplanev1.AuditSpec{MaxSizeMB: 100, MaxBackups: 5}
	in.Spec.KubeControllerManager.Replicas = ptr.To[int32](2)
	in.Spec.KubeScheduler.Replicas = ptr.To[int32](2)
	in.Spec.Etcd.Data, in.Spec.Etcd.Events.EtcdClusterSpec = etcdCluster, etcdCluster
	return in
}

// rendered are the pods of a component.
func rendered(t *testing.T, component components.Component) []corev1.PodSpec {
	t.Helper()
	objects, err := component.Objects(input())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	var pods []corev1.PodSpec
	for _, object := range objects {
		switch workload := object.(type) {
		case *appsv1.DaemonSet:
			pods = append(pods, workload.Spec.Template.Spec)
		case *appsv1.Deployment:
			pods = append(pods, workload.Spec.Template.Spec)
		case *appsv1.StatefulSet:
			pods = append(pods, workload.Spec.Template.Spec)
		}
	}
	NewWithT(t).Expect(pods).NotTo(BeEmpty())
	return pods
}

// TestWiringCannotBeReplaced keeps the list of owned arguments and what is rendered in step.
func TestWiringCannotBeReplaced(t *testing.T) {
	for _, component := range registry.Components.WithSettings() {
		for _, pod := range rendered(t, component) {
			for _, arg := range pod.Containers[0].Args {
				name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
				_, owned := component.Settings.Arguments.Reason(name)
				_, audit := kubeapiserver.OwnedByAudit(name)
				NewWithT(t).Expect(owned || audit || slices.Contains(replaceable, name)).To(BeTrue(),
					"%s is rendered with --%s, which nothing keeps a person from replacing: list it in the component's folder, or here if it may be replaced", component.Name, name)
			}
		}
	}
}

// TestRenderedDefaultsAreAllowed renders what a person could write to keep a default.
func TestRenderedDefaultsAreAllowed(t *testing.T) {
	for _, component := range registry.Components.WithSettings() {
		for _, pod := range rendered(t, component) {
			for _, arg := range pod.Containers[0].Args {
				name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
				NewWithT(t).Expect(component.Settings.Arguments.CheckValue(name, value)).To(Succeed(), "%s --%s=%s", component.Name, name, value)
			}
		}
	}
}

// TestMountsCannotBeCovered keeps the list of reserved directories and what is mounted in step.
func TestMountsCannotBeCovered(t *testing.T) {
	for _, component := range registry.Components {
		for _, pod := range rendered(t, component) {
			for _, mount := range pod.Containers[0].VolumeMounts {
				NewWithT(t).Expect(slices.ContainsFunc(reserved, func(directory string) bool { return nested(mount.MountPath, directory) })).To(BeTrue(),
					"%s mounts %s, which is not reserved", component.Name, mount.MountPath)
			}
		}
	}
}
