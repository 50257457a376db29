//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/forgery"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/readiness"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

var _ = Describe("The cluster CA of a tenant", Ordered, Label(full, ofKeys, "cluster_ca"), func() {
	t := newTenant("cluster-ca", "v1.36.3", map[string]string{"KUBE_PROXY_CONNTRACK": "None"}) // the lab's hosts share the machine's kernel
	t.workers = 1

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		removeWithHosts(t)
		t.createWithWorkers(ctx, 0)
	}, NodeTimeout(3*creation+2*join))

	It("rotates: the former one is good until a person drops it, and then signs nothing that anybody takes; no Node is drained", func(ctx SpecContext) {
		worker := t.worker(ctx)
		By("one Machine more waits for a host, with its bootstrap data")
		t.scale(ctx, t.workers+1)
		Eventually(ctx, func(g Gomega) {
			machines := t.machines(ctx)
			g.Expect(machines).To(HaveLen(t.workers + 1))
			for _, machine := range machines {
				g.Expect(machine.Spec.Bootstrap.DataSecretName).NotTo(BeNil(), machine.Name)
			}
		}).Should(Succeed(), "Machines with bootstrap data")
		former := t.formerCA(ctx, pki.CACert, pki.CAKey)
		byAttacker, err := former.Client("attacker", "system:masters")
		Expect(err).NotTo(HaveOccurred())
		leaves := t.secret(ctx, names.Certs(t.Name, names.KubeAPIServer))
		all := []probe.Credential{certificate("the administrator of before", t.adminCertificate()), certificate("who has the key of the former CA", byAttacker)}
		toKubelets := append(slices.Clone(all), certificate("the API servers of before", keyPair(leaves, kubeapiserver.KubeletClientCert)))
		server := forged(former, keyPair(leaves, strings.TrimSuffix(t.fileOf(ctx, "tls-cert-file"), ".crt")))
		people := func() try {
			return shown("a server by who has the key of the former CA, at who has a kubeconfig", t.access.CAData, server, certificates.TenantServerName)
		}
		kubelet := forged(former, certificateOn(ctx, worker, "/var/lib/kubelet/pki/kubelet-server-current.pem"))
		tries := func() []try {
			trusted := t.secret(ctx, names.KeyMaterial(t.Name)).Data[t.fileOf(ctx, "kubelet-certificate-authority")]
			return append(slices.Concat(at(t.servers(ctx), all...), at([]place{kubeletOf(ctx, worker)}, toKubelets...)), people(),
				shown("a server by who has the key of the former CA, at "+worker.Name, fileOn(ctx, worker, onworker.CAFile), server, certificates.TenantServerName),
				shown("a kubelet by who has the key of the former CA, at API servers", trusted, kubelet, kubelet.Leaf.IPAddresses[0].String()))
		}
		expectTaken(ctx, tries())
		before, members, pods := t.snapshot(ctx), t.members(ctx), t.watchReadiness(ctx)
		runs := t.systemPods(ctx)
		journals := t.startJournals(ctx, "of-before", worker)
		nodes, err := readiness.Watch(ctx, t.api, clock.RealClock{})
		Expect(err).NotTo(HaveOccurred())
		began := time.Now()

		By("both CAs are good, and nodes get certificates by the new one")
		patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"keyRotation":{"kinds":[%q],"prepareAfter":%q}}}`, controlplanev1.ClusterCAKind, time.Now().UTC().Format(time.RFC3339)))
		says := t.expectKeys(ctx, conditionsv1.KeysPreparedReason)
		Expect(says).To(And(MatchRegexp("pods/[0-9a-f]+/kube-system/DaemonSet/kube-proxy"), MatchRegexp("pods/[0-9a-f]+/hello/Deployment/hello")), "owners of pods are named")
		expectTaken(ctx, tries())
		for _, file := range []string{"kubelet-client-current.pem", "kubelet-server-current.pem"} {
			Expect(signed(ctx, former, worker, file)).To(BeFalse(), "the former CA signed %s of %s", file, worker.Name)
		}
		for name, pod := range runs {
			Expect(t.systemPods(ctx)).To(HaveKeyWithValue(name, pod), "pods of the system that ran before")
		}
		t.expectLogs(ctx)
		t.expectNothingLost(ctx, "ca_prepare", journals)
		notReady := nodes.NotReady()

		By("people have other kubeconfigs, and pods start anew")
		t.connect(ctx)
		expectTaken(ctx, []try{people()})
		journals = t.startJournals(ctx, "of-now", worker)
		nodes, err = readiness.Watch(ctx, t.api, clock.RealClock{})
		Expect(err).NotTo(HaveOccurred())
		t.restartPods(ctx)
		t.expectNoFormerPods(ctx)

		By("the former CA is dropped")
		patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"keyRotation":{"completeAfter":%q}}}`, time.Now().UTC().Format(time.RFC3339)))
		t.expectKeys(ctx, conditionsv1.KeysNotRotatingReason)
		figure("ca_rotation_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s, of the cluster CA")
		over := time.Now()
		t.connect(ctx)
		last := tries()
		taken := takenAfter(ctx, over, last)
		figure("ca_old_credentials_tried", len(last), "certificates at API servers, controller managers, schedulers and a kubelet, one of a server at who has a kubeconfig and at a worker, and one of a kubelet at API servers")
		figure("ca_old_credentials_accepted_after", taken, "of these")
		Expect(taken).To(BeZero(), "certificates by the former CA that are taken")
		Eventually(ctx, func(g Gomega) {
			published, err := t.api.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(forgery.Trusts([]byte(published.Data["ca.crt"]), server, certificates.TenantServerName)).To(MatchError(ContainSubstring("unknown authority")))
		}).Should(Succeed(), "pods that start now trust a server by the former CA")
		t.expectLogs(ctx)
		Eventually(ctx, func() error {
			set := &appsv1.DaemonSet{}
			api, err := client.New(t.access, client.Options{})
			if err != nil {
				return err
			}
			return api.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "kok-node-keys"}, set)
		}).WithTimeout(rotating).Should(MatchError(ContainSubstring("not found")), "what brought nodes the CAs")
		Expect(t.quickstart().Hello(ctx)).To(Succeed())
		figure("ca_rotation_not_ready_seconds", fmt.Sprintf("%.1f", (notReady+nodes.NotReady()).Seconds()), "s in which a worker's Node was not ready")
		Expect(notReady+nodes.NotReady()).To(BeZero(), "a Node was not ready for a while")
		t.expectHealthy(ctx)
		t.expectNothingLost(ctx, "ca_complete", journals)
		t.expectStayed(ctx, before, members, names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler)
		expectOneAtATime("ca_rotation", pods)

		By("the Machine that waited gets a host, and joins")
		t.haveHosts(ctx, t.workers+1)
		t.expectWorkers(ctx, t.workers+1)
	}, SpecTimeout(2*creation+3*join+3*rotating))
})

// fileOn reads a file of a worker.
func fileOn(ctx context.Context, worker *host.Host, file string) []byte {
	GinkgoHelper()
	raw, err := worker.Exec(ctx, nil, "cat", file)
	Expect(err).NotTo(HaveOccurred())
	return raw
}

// certificateOn reads a certificate and its key from one file of a worker.
func certificateOn(ctx context.Context, worker *host.Host, file string) tls.Certificate {
	GinkgoHelper()
	raw := fileOn(ctx, worker, file)
	pair, err := tls.X509KeyPair(raw, raw)
	Expect(err).NotTo(HaveOccurred(), file)
	return pair
}

// signed reports whether a CA signed a certificate that kubelet has.
func signed(ctx context.Context, ca forgery.CA, worker *host.Host, file string) bool {
	GinkgoHelper()
	found, err := certs.DecodeCertPEM(fileOn(ctx, worker, "/var/lib/kubelet/pki/"+file))
	Expect(err).NotTo(HaveOccurred())
	return found.CheckSignatureFrom(ca.Certificate) == nil
}

// expectLogs reads the log of a pod, for which an API server verifies a kubelet's certificate.
func (t *tenant) expectLogs(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		pod := t.helloPod(ctx)
		_, err := t.api.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: ptr.To[int64](1)}).DoRaw(ctx)
		return err
	}).WithTimeout(join).Should(Succeed(), "the log of a pod")
}
