//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/running"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/manifests"
)

const (
	// ownRegistry is a registry that only the lab's hosts have images of.
	ownRegistry = "mirror.example/kubernetes"
	// ownImage is an image of one component alone.
	ownImage = "mirror.example/scheduler:own"
	// auditLog is where a tenant's API server writes, in its container.
	auditLog = "/var/log/kubernetes/audit.log"
	// sidecar is the container of docs/customising.md, documentedImage its image there.
	sidecar, documentedImage = "audit-forwarder", "registry.example/forwarder:v1.2.3"
)

var _ = Describe("A control plane with settings of its own", Ordered, Label(full, features), func() {
	t := newTenant("settings", "v1.36.3", nil)
	removeAfter(t)
	var authority *secret.Certificate

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		loadMirror(ctx, t.version)
		t.remove(ctx)
		Expect(env.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.Namespace}})).To(Succeed())

		authority = &secret.Certificate{Purpose: secret.ClusterCA}
		Expect(authority.Generate()).To(Succeed())
		Expect(env.client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: secret.Name(t.Name, secret.ClusterCA),
				Labels: map[string]string{clusterv1.ClusterNameLabel: t.Name}},
			Type: clusterv1.ClusterSecretType,
			Data: map[string][]byte{secret.TLSCrtDataName: authority.KeyPair.Cert, secret.TLSKeyDataName: authority.KeyPair.Key},
		})).To(Succeed())
		Expect(env.client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: "mounted"}, Data: map[string]string{"file": "mounted into the API server"},
		})).To(Succeed())
		Expect(env.client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: "forwarder"}, Data: map[string]string{"file": "mounted into the sidecar"},
		})).To(Succeed())

		t.apply(ctx, func(c *controlplanev1.KOKControlPlane) {
			t.makeSingle(c)
			c.Spec.ImageRepository = ownRegistry
			c.Spec.KubeScheduler.Image = ownImage
			c.Spec.KubeControllerManager.ExtraArgs = []controlplanev1.Arg{{Name: "node-monitor-grace-period", Value: ptr.To("77s")}}
			c.Spec.KubeAPIServer.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("300Mi")}}
			c.Spec.KubeAPIServer.CertSANs = []string{"tenant.example"}
			c.Spec.KubeAPIServer.Audit = &controlplanev1.AuditSpec{}
			c.Spec.KubeAPIServer.ExtraVolumes = []controlplanev1.ExtraVolume{{
				Name: "mounted", MountPath: "/etc/mounted",
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "mounted"}},
			}}
			c.Spec.Patches = []controlplanev1.Patch{documentedSidecar()}
		})
		Expect(t.quickstart().Wait(ctx)).To(Succeed())
		t.connect(ctx)
		t.expectHealthy(ctx)
	}, NodeTimeout(3*creation))

	It("uses the CA that a person made", func(ctx SpecContext) {
		found := t.secret(ctx, secret.Name(t.Name, secret.ClusterCA))
		Expect(found.Data[secret.TLSCrtDataName]).To(Equal(authority.KeyPair.Cert))
		Expect(found.OwnerReferences).To(BeEmpty(), "a person's Secret is left alone")
		Expect(t.access.CAData).To(Equal(authority.KeyPair.Cert))
	})

	It("runs the images that it was told to", func(ctx SpecContext) {
		pods, err := t.pods(ctx, "")
		Expect(err).NotTo(HaveOccurred())
		for _, pod := range pods {
			if pod.Labels[names.ComponentLabel] == names.KubeScheduler {
				Expect(pod.Spec.Containers[0].Image).To(Equal(ownImage))
			} else {
				Expect(pod.Spec.Containers[0].Image).To(HavePrefix(ownRegistry + "/"))
			}
		}
	})

	It("passes on arguments, resources and volumes", func(ctx SpecContext) {
		for _, process := range t.processes(ctx, names.KubeControllerManager) {
			line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(process.pid), "cmdline"))
			Expect(err).NotTo(HaveOccurred())
			Expect(strings.Split(string(line), "\x00")).To(ContainElement("--node-monitor-grace-period=77s"))
		}
		for _, process := range t.processes(ctx, names.KubeAPIServer) {
			Expect(process.readFile("/etc/mounted/file")).To(Equal("mounted into the API server"))
		}
		pods, err := t.pods(ctx, names.KubeAPIServer)
		Expect(err).NotTo(HaveOccurred())
		for _, pod := range pods {
			Expect(pod.Spec.Containers[0].Resources.Requests.Memory().String()).To(Equal("300Mi"))
		}
	})

	It("logs what is asked for (D5)", func(ctx SpecContext) {
		_, err := t.api.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "audited"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func(g Gomega) {
			logs := ""
			for _, process := range t.processes(ctx, names.KubeAPIServer) {
				log, err := process.file(auditLog)
				g.Expect(err).NotTo(HaveOccurred())
				logs += log
			}
			g.Expect(logs).To(ContainSubstring(`"requestURI":"/api/v1/namespaces/default/configmaps"`))
			g.Expect(logs).NotTo(ContainSubstring(`"requestURI":"/readyz"`))
		}).Should(Succeed())
	})

	It("runs the sidecar of a patch, confined as the API server is, until the patch is removed (D2)", func(ctx SpecContext) {
		for _, process := range t.containers(ctx, names.KubeAPIServer, sidecar) {
			Expect(process.readFile(auditLog)).To(ContainSubstring(`"apiVersion":"audit.k8s.io/v1"`))
			Expect(process.readFile("/etc/forwarder/file")).To(Equal("mounted into the sidecar"))
		}
		pods, err := t.pods(ctx, names.KubeAPIServer)
		Expect(err).NotTo(HaveOccurred())
		for _, pod := range pods {
			Expect(pod.Spec.Containers).To(HaveLen(2))
			Expect(pod.Spec.Containers[1].Name).To(Equal(sidecar))
			Expect(pod.Spec.Containers[1].SecurityContext).To(Equal(pod.Spec.Containers[0].SecurityContext))
		}

		before := t.snapshot(ctx)
		patch(ctx, t.controlPlane(ctx), `{"spec":{"patches":null}}`)
		Eventually(ctx, func(g Gomega) {
			pods, err := t.pods(ctx, names.KubeAPIServer)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pods).To(HaveEach(HaveField("Spec.Containers", HaveExactElements(HaveField("Name", names.KubeAPIServer)))))
		}).WithTimeout(creation).Should(Succeed())
		t.expectHealthy(ctx)
		Expect(running.Rolled(before, t.snapshot(ctx), names.KubeAPIServer)).To(BeEmpty(), "a patch rolls out its own component")
	}, NodeTimeout(2*creation))
})

// documentedSidecar is the patch of docs/customising.md that adds one, here with an image that every node of the lab has.
func documentedSidecar() controlplanev1.Patch {
	GinkgoHelper()
	page, err := markdown.Read("docs/customising.md")
	Expect(err).NotTo(HaveOccurred())
	Expect(page.Blocks).NotTo(BeEmpty())
	objects, err := manifests.Decode(page.Blocks[0].Code)
	Expect(err).NotTo(HaveOccurred())
	documented, err := manifests.One[*controlplanev1.KOKControlPlane](objects)
	Expect(err).NotTo(HaveOccurred())
	Expect(documented.Spec.Patches).NotTo(BeEmpty())
	first := documented.Spec.Patches[0]
	Expect(first.Target).To(Equal(controlplanev1.PatchTarget{Component: names.KubeAPIServer, Kind: "DaemonSet"}))
	Expect(first.Patch).To(And(ContainSubstring("name: "+sidecar+"\n"), ContainSubstring(documentedImage)))
	first.Patch = strings.ReplaceAll(first.Patch, documentedImage, artifacts.PauseImage)
	return first
}

// loadMirror gives the hosts images of the tenant's version under names that no other tenant uses.
func loadMirror(ctx context.Context, version string) {
	GinkgoHelper()
	set, err := env.lab.Artifacts(ctx, func(string) {})
	Expect(err).NotTo(HaveOccurred())
	programs, err := set.BinDir(version)
	Expect(err).NotTo(HaveOccurred())
	load := func(reference, program string) { Expect(env.lab.LoadProgram(ctx, reference, program)).To(Succeed()) }
	for _, component := range []string{names.KubeAPIServer, names.KubeControllerManager} {
		load(ownRegistry+"/"+component+":"+version, filepath.Join(programs, component))
	}
	load(ownImage, filepath.Join(programs, names.KubeScheduler))
	load(ownRegistry+"/etcd:"+set.Versions.EtcdImageTag(), set.Etcd)
}

// processes are those of one component, without what a patch put beside them.
func (t *tenant) processes(ctx context.Context, component string) []process {
	GinkgoHelper()
	return t.containers(ctx, component, component)
}

// containers are the processes of one container of a component's pods.
func (t *tenant) containers(ctx context.Context, component, container string) []process {
	GinkgoHelper()
	pods, err := t.pods(ctx, component)
	Expect(err).NotTo(HaveOccurred())
	for i := range pods {
		status := &pods[i].Status
		status.ContainerStatuses = slices.DeleteFunc(status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name != container })
	}
	return processesOf(pods)
}

// file reads a file as the process sees it.
func (p process) file(path string) (string, error) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "root", path))
	return string(content), err
}

func (p process) readFile(path string) string {
	GinkgoHelper()
	content, err := p.file(path)
	Expect(err).NotTo(HaveOccurred(), p.pod)
	return content
}
