//go:build e2e

package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/processes"
)

// firstUser is where users of tenants begin: nobody else's program is one of them.
const firstUser = 1_000_000_000

// tokens is where a service account token would be mounted.
const tokens = "/var/run/secrets/kubernetes.io/serviceaccount"

// placement looks at the pods of tenant a and at their processes.
func (j *journey) placement() {
	It("runs on host nodes only, on the network of its mode, each API server on one of its own (A3, A6, A7)", func(ctx SpecContext) {
		hosts := env.hostNodes(ctx)
		pods, err := j.a.pods(ctx, "")
		Expect(err).NotTo(HaveOccurred())
		apiServers := map[string]bool{}
		for _, pod := range pods {
			Expect(hosts).To(HaveKey(pod.Spec.NodeName), "pod %s", pod.Name)
			Expect(pod.Spec.HostNetwork).To(Equal(!j.a.mode.onPodNetwork()), "pod %s", pod.Name)
			if pod.Labels[names.ComponentLabel] == names.KubeAPIServer {
				apiServers[pod.Spec.NodeName] = true
			}
		}
		Expect(apiServers).To(HaveLen(j.a.wantedPods(ctx)[names.KubeAPIServer]))
	})

	It("spreads the replicas of each component over host nodes", func(ctx SpecContext) {
		for _, component := range componentNames {
			pods, err := j.a.pods(ctx, component)
			Expect(err).NotTo(HaveOccurred())
			nodes := map[string]string{}
			for _, pod := range pods {
				Expect(nodes).NotTo(HaveKey(pod.Spec.NodeName), "%s and %s", pod.Name, nodes[pod.Spec.NodeName])
				nodes[pod.Spec.NodeName] = pod.Name
			}
		}
	})

	It("runs without privileges and without a service account token", func(ctx SpecContext) {
		requireLab()
		pods, err := j.a.pods(ctx, "")
		Expect(err).NotTo(HaveOccurred())
		all := processesOf(pods)
		for _, process := range all {
			by := func(text string) string { return process.pod + ": " + text }
			Expect(process.user).To(And(BeNumerically(">", firstUser), Equal(all[0].user)), by("its tenant has another user"))
			found, err := processes.PrivilegesOf(process.pid)
			Expect(err).NotTo(HaveOccurred())
			shim, err := processes.PrivilegesOf(found.Parent)
			Expect(err).NotTo(HaveOccurred())
			Expect(found).To(MatchAllFields(Fields{
				"User": Equal(process.user), "Group": Equal(process.user), "Capabilities": BeZero(), "Bounding": BeZero(), "NoNewPrivileges": BeTrue(),
				"Filters": BeNumerically(">", shim.Filters), "Parent": Not(BeZero()),
			}), process.pod)
			Expect(processes.Has(process.pid, tokens)).To(BeFalse(), by("a service account token is there"))
			mounts, err := processes.Mounts(process.pid)
			Expect(err).NotTo(HaveOccurred())
			Expect(mounts).To(ContainElement(processes.Mount{Path: "/", ReadOnly: true}), by("its root file system can be written"))
			Expect(mounts).NotTo(ContainElement(HaveField("Path", HavePrefix("/var/run/secrets"))), process.pod)
		}
	})
}

// process is the one process of a component's container.
type process struct {
	pod, component string
	// address is that of its pod, which on the host network is that of the node.
	address string
	pid     int
	// user is whom its pod is to run as.
	user int
}

// processesOf finds the processes of components' pods on this machine, exactly one each.
func processesOf(pods []corev1.Pod) []process {
	GinkgoHelper()
	var ids []string
	byContainer := map[string]corev1.Pod{}
	for _, pod := range pods {
		Expect(pod.Status.ContainerStatuses).To(HaveLen(1), "pod %s", pod.Name)
		_, id, ok := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
		Expect(ok).To(BeTrue(), "pod %s has no container", pod.Name)
		ids = append(ids, id)
		byContainer[id] = pod
	}
	found, err := processes.Of(ids)
	Expect(err).NotTo(HaveOccurred())
	list := make([]process, 0, len(ids))
	for _, id := range ids {
		pod := byContainer[id]
		Expect(found[id]).To(HaveLen(1), "processes of pod %s", pod.Name)
		list = append(list, process{pod: pod.Name, component: pod.Labels[names.ComponentLabel], address: pod.Status.PodIP, pid: found[id][0], user: int(ptr.Deref(pod.Spec.SecurityContext.RunAsUser, 0))})
	}
	return list
}
