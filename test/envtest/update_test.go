//go:build envtest

package envtest

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// running is a control plane as the controller leaves it.
func running(namespace, name string) *controlplanev1.KOKControlPlane {
	c := minimal(namespace)
	c.Name = name
	c.Spec.Version = "v1.35.4"
	c.Spec.Hosting.Ports.First = 20000
	c.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "10.250.1.1", Port: 6443}
	c.Spec.EncryptionAtRest.Resources = []string{"secrets", "configmaps"}
	return c
}

func TestUpdate(t *testing.T) {
	cases := []struct {
		name    string
		running []string
		edit    func(*spec)
		want    []string
	}{
		{"next minor", []string{"v1.35.4"}, func(s *spec) { s.Version = "1.36.3" }, nil},
		{"older patch", []string{"v1.35.4"}, func(s *spec) { s.Version = "v1.35.0" }, nil},
		{"older minor", []string{"v1.35.4"}, func(s *spec) { s.Version = "v1.34.9" }, []string{
			`spec.version: Invalid value: "v1.34.9": cannot go back from v1.35.4 to an older minor, which Kubernetes does not support; keep v1.35`}},
		{"skipped minor", []string{"v1.35.4"}, func(s *spec) { s.Version = "v1.37.0" }, []string{
			`spec.version: Invalid value: "v1.37.0": cannot skip minors from v1.35.4; go to v1.36 first`}},
		{"malformed version", nil, func(s *spec) { s.Version = "v1.36.x" }, []string{
			`spec.version: Invalid value: "v1.36.x": "v1.36.x" is not a Kubernetes version of the form v1.36.3`}},
		{"next minor before the last is reached", []string{"v1.34.1", "v1.35.4"}, func(s *spec) { s.Version = "v1.36.3" }, []string{
			`spec.version: Invalid value: "v1.36.3": the upgrade to v1.35.4 is still under way, some components run v1.34.1; wait until status.versions holds v1.35.4 alone`}},
		{"other change during an upgrade", []string{"v1.34.1", "v1.35.4"}, func(s *spec) { s.KubeScheduler.Replicas = ptr.To[int32](3) }, nil},

		{"more replicas", nil, func(s *spec) { s.KubeControllerManager.Replicas = ptr.To[int32](3) }, nil},
		{"larger quota", nil, func(s *spec) { s.Etcd.Data.QuotaBackendSize = ptr.To(resource.MustParse("4Gi")) }, nil},
		{"another image repository", nil, func(s *spec) { s.ImageRepository = "registry.example/k8s" }, nil},
		{"owned argument", nil, func(s *spec) { s.KubeScheduler.ExtraArgs = []controlplanev1.Arg{arg("kubeconfig", "/a")} }, []string{
			`spec.kubeScheduler.extraArgs[0].name: Invalid value: "kubeconfig": belongs to the controller: the controller issues and renews the credentials that this component uses`}},

		{"endpoint changed", nil, func(s *spec) { s.ControlPlaneEndpoint.Port = 443 }, []string{
			`spec: Invalid value: controlPlaneEndpoint is immutable once set: kubeconfigs and certificates name it`}},
		{"endpoint removed", nil, func(s *spec) { s.ControlPlaneEndpoint = controlplanev1.APIEndpoint{} }, []string{
			`spec: Invalid value: controlPlaneEndpoint is immutable once set: kubeconfigs and certificates name it`}},
		{"ports changed", nil, func(s *spec) { s.Hosting.Ports.First = 20020 }, []string{
			`spec.hosting.ports: Invalid value: hosting.ports is immutable once set: certificates, etcd members and kubeconfigs name the ports`}},
		{"ports removed", nil, func(s *spec) { s.Hosting.Ports = controlplanev1.PortBlock{} }, []string{
			`spec.hosting: Invalid value: hosting.ports cannot be removed once set: certificates, etcd members and kubeconfigs name the ports`}},
		{"a port pool", nil, func(s *spec) { s.Hosting.PortPool = "north" }, []string{
			`spec.hosting: Invalid value: hosting.portPool is immutable: in another pool another control plane may have the same ports; create a new control plane for another pool`}},
		{"another host cluster", nil, func(s *spec) { s.Hosting.KubeconfigRef.Name = "host" }, []string{
			`spec.hosting: Invalid value: hosting.kubeconfigRef is immutable: pods and data are in the host cluster that it names; write another kubeconfig of the same cluster into the Secret, or create a new control plane for another one`}},
		{"hosting removed", nil, func(s *spec) { s.Hosting = controlplanev1.HostingSpec{} }, []string{
			`spec.hosting: Invalid value: hosting.ports cannot be removed once set: certificates, etcd members and kubeconfigs name the ports`}},
		{"etcd scaled before it is bootstrapped", nil, func(s *spec) { s.Etcd.Data.Replicas = ptr.To[int32](5) }, []string{
			`spec.etcd.data.replicas: Invalid value: 5: the first 3 members have not all joined yet; wait until bootstrapped is true in status.etcd`}},
		{"larger etcd volumes", nil, func(s *spec) { s.Etcd.Events.Storage.Size = ptr.To(resource.MustParse("16Gi")) }, nil},
		{"etcd volumes of another class", nil, func(s *spec) { s.Etcd.Data.Storage.StorageClassName = ptr.To("fast") }, []string{
			`spec.etcd.data.storage: Invalid value: storageClassName is immutable: create a new control plane to change where its data lives`}},
		{"etcd in memory", nil, func(s *spec) { s.Etcd.Data.Storage.Type = controlplanev1.EtcdStorageEmptyDir }, []string{
			`spec.etcd.data.storage: Invalid value: type is immutable: create a new control plane to change where its data lives`}},
		{"encryption turned off", nil, func(s *spec) { s.EncryptionAtRest.Mode = controlplanev1.EncryptionNone }, []string{
			`spec.encryptionAtRest.mode: Invalid value: "None": encryptionAtRest.mode is immutable: what etcd holds was written with it`}},
		{"one more encrypted resource", nil, func(s *spec) { s.EncryptionAtRest.Resources = []string{"secrets", "configmaps", "serviceaccounts"} }, nil},
		{"one encrypted resource less", nil, func(s *spec) { s.EncryptionAtRest.Resources = []string{"secrets"} }, []string{
			`spec.encryptionAtRest.resources: Invalid value: ["secrets"]: must keep "configmaps": what etcd holds of it is encrypted and could not be read any more; resources can only be added`}},
		{"replicas of a DaemonSet", nil, func(s *spec) { s.Replicas = ptr.To[int32](3) }, []string{
			`spec: Invalid value: replicas must not be set: kube-apiserver runs as a DaemonSet, one replica on every host node that hosting.nodeSelector chooses; label more nodes to get more replicas, or create a control plane whose kubeAPIServer.workload is Deployment`}},
		{"another network mode", nil, func(s *spec) {
			s.Hosting.Ports = controlplanev1.PortBlock{}
			onPodNetwork(controlplanev1.ExposureNone)(s)
		}, []string{
			`spec.hosting: Invalid value: hosting.ports cannot be removed once set: certificates, etcd members and kubeconfigs name the ports`,
			`spec.hosting.networkMode: Invalid value: "PodNetwork": hosting.networkMode is immutable: certificates, etcd members, kubeconfigs and workers name the addresses and ports that it gave; create a new control plane for another mode`}},
		{"another workload", nil, func(s *spec) { s.KubeAPIServer.Workload = controlplanev1.APIServerDeployment }, []string{
			`spec: Invalid value: kubeAPIServer.workload is immutable: API servers of both kinds would want the same ports while one takes the other's place; create a new control plane`}},
		{"the same workload, written out", nil, func(s *spec) { s.KubeAPIServer.Workload = controlplanev1.APIServerDaemonSet }, nil},
	}
	namespace := newNamespace(t)
	for i, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := running(namespace, fmt.Sprintf("tenant-%d", i))
			NewWithT(t).Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
			for _, version := range tc.running {
				c.Status.Versions = append(c.Status.Versions, clusterv1.StatusVersion{Version: version})
			}
			NewWithT(t).Expect(environment.Client.Status().Update(t.Context(), c)).To(Succeed())
			tc.edit(&c.Spec)
			expectRefusal(t, environment.Client.Update(t.Context(), c), tc.want...)
		})
	}
}

func TestAPortPoolIsKept(t *testing.T) {
	for name, edit := range map[string]func(*spec){
		"another pool": func(s *spec) { s.Hosting.PortPool = "south" },
		"no pool":      func(s *spec) { s.Hosting.PortPool = "" },
		"no hosting":   func(s *spec) { s.Hosting = controlplanev1.HostingSpec{} },
	} {
		t.Run(name, func(t *testing.T) {
			c := minimal(newNamespace(t))
			c.Spec.Hosting.PortPool = "north"
			NewWithT(t).Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
			edit(&c.Spec)
			expectRefusal(t, environment.Client.Update(t.Context(), c),
				`spec.hosting: Invalid value: hosting.portPool is immutable: in another pool another control plane may have the same ports; create a new control plane for another pool`)
		})
	}
}

func TestControllerMayFillEndpointAndPorts(t *testing.T) {
	g := NewWithT(t)
	c := minimal(newNamespace(t))
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	c.Spec.Hosting.Ports.First = 20000
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
	c.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "10.250.1.1", Port: 6443}
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
}

func TestEtcdIsScaledOnceItHasFormed(t *testing.T) {
	g := NewWithT(t)
	c := minimal(newNamespace(t))
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	for _, cluster := range []string{"data", "events"} {
		c.Status.Etcd = append(c.Status.Etcd, controlplanev1.EtcdClusterStatus{Name: cluster, Bootstrapped: ptr.To(true)})
	}
	g.Expect(environment.Client.Status().Update(t.Context(), c)).To(Succeed())
	for _, members := range []int32{5, 3, 1, 7} {
		c.Spec.Etcd.Data.Replicas, c.Spec.Etcd.Events.Replicas = ptr.To(members), ptr.To(members)
		g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed(), "%d members", members)
	}
	for members, refusal := range map[int32]string{4: "must be odd", 9: "less than or equal to 7", 0: "greater than or equal to 1"} {
		changed := c.DeepCopy()
		changed.Spec.Etcd.Events.Replicas = ptr.To(members)
		g.Expect(environment.Client.Update(t.Context(), changed)).To(MatchError(ContainSubstring(refusal)), "%d members", members)
	}
}

func TestExposureIsImmutable(t *testing.T) {
	g := NewWithT(t)
	c := minimal(newNamespace(t))
	onPodNetwork(controlplanev1.ExposureNodePort)(&c.Spec)
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	for _, exposure := range []controlplanev1.ExposureSpec{
		{Type: controlplanev1.ExposureLoadBalancer}, {Type: controlplanev1.ExposureNodePort, NodePort: 30501},
	} {
		changed := c.DeepCopy()
		changed.Spec.Hosting.Exposure = exposure
		g.Expect(environment.Client.Update(t.Context(), changed)).To(MatchError(ContainSubstring(
			"hosting.exposure is immutable: kubeconfigs, certificates and workers name the addresses that it gave; create a new control plane to expose it otherwise")))
	}
}

// TestDeletionIsNeverHeldUp stores, with the webhooks out of the way, what a newer provider would
// refuse, and checks that its finalizer can still be removed.
func TestDeletionIsNeverHeldUp(t *testing.T) {
	g := NewWithT(t)
	c := minimal(newNamespace(t))
	c.Finalizers = []string{controlplanev1.KOKControlPlaneFinalizer}
	c.Spec.Version = "v1.20.0"
	without, err := environment.WithoutWebhooks(t.Context(), c.Namespace)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	g.Expect(without(t.Context())).To(Succeed())

	g.Expect(environment.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c)).To(Succeed())
	c.Spec.KubeScheduler.ExtraArgs = []controlplanev1.Arg{arg("kubeconfig", "/a")}
	g.Expect(apierrors.IsInvalid(environment.Client.Update(t.Context(), c))).To(BeTrue(), "the webhooks are back")

	g.Expect(environment.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c)).To(Succeed())
	c.Annotations = map[string]string{"example.com/note": "an old object"}
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
	g.Expect(environment.Client.Delete(t.Context(), c)).To(Succeed())
	g.Expect(environment.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c)).To(Succeed())
	c.Finalizers = nil
	g.Expect(environment.Client.Update(t.Context(), c)).To(Succeed())
	err = environment.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c)
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
}

func TestIssuersAreStoredWhole(t *testing.T) {
	g := NewWithT(t)
	c := minimal(newNamespace(t))
	c.Spec.KubeAPIServer.JWT = jwt(goodJWT)
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	stored := &controlplanev1.KOKControlPlane{}
	g.Expect(environment.Client.Get(t.Context(), client.ObjectKeyFromObject(c), stored)).To(Succeed())
	g.Expect(stored.Spec.KubeAPIServer.JWT).To(HaveLen(1))
	g.Expect(stored.Spec.KubeAPIServer.JWT[0].Raw).To(MatchJSON(goodJWT))
}

func TestTolerationsAreStoredWhole(t *testing.T) {
	g := NewWithT(t)
	c := minimal(newNamespace(t))
	c.Spec.Hosting.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](5)}}
	g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	stored := &controlplanev1.KOKControlPlane{}
	g.Expect(environment.Client.Get(t.Context(), client.ObjectKeyFromObject(c), stored)).To(Succeed())
	g.Expect(stored.Spec.Hosting.Tolerations).To(Equal(c.Spec.Hosting.Tolerations))
}

func TestTheSizeOfAnEmptyDirIsForGood(t *testing.T) {
	c := running(newNamespace(t), "tenant")
	c.Spec.Etcd.Events.Storage.Type = controlplanev1.EtcdStorageEmptyDir
	NewWithT(t).Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
	c.Spec.Etcd.Events.Storage.Size = ptr.To(resource.MustParse("16Gi"))
	expectRefusal(t, environment.Client.Update(t.Context(), c),
		`spec.etcd.events.storage: Invalid value: size of an EmptyDir is immutable: members would be replaced, and their data go with their pods`)
}
