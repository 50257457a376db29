//go:build e2e

package e2e

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
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
		material := t.secret(ctx, names.KeyMaterial(t.Name))
		former := caOf(material.Data["ca.crt"], material.Data["ca.key"])
		credentials := []probe.Credential{
			certificate("the administrator of before", t.adminCertificate()), certificate("who has the key of the former CA", former.sign()),
		}
		toKubelets := certificate("the API servers of before", keyPair(t.secret(ctx, names.Certs(t.Name, names.KubeAPIServer)), kubeapiserver.KubeletClientCert))
		t.expectTakes(ctx, true, worker, toKubelets, credentials...)
		before, members := t.snapshot(ctx), t.members(ctx)
		runs := t.systemPods(ctx)
		journals := t.startJournals(ctx, "of-before", worker)
		nodes, err := readiness.Watch(ctx, t.api, clock.RealClock{})
		Expect(err).NotTo(HaveOccurred())
		began := time.Now()

		By("both CAs are good, and nodes get certificates by the new one")
		patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"keyRotation":{"kinds":[%q],"prepareAfter":%q}}}`, controlplanev1.ClusterCAKind, time.Now().UTC().Format(time.RFC3339)))
		says := t.expectKeys(ctx, conditionsv1.KeysPreparedReason)
		Expect(says).To(And(MatchRegexp("pods/[0-9a-f]+/kube-system/DaemonSet/kube-proxy"), MatchRegexp("pods/[0-9a-f]+/hello/Deployment/hello")), "owners of pods are named")
		t.expectTakes(ctx, true, worker, toKubelets, credentials...)
		for _, file := range []string{"kubelet-client-current.pem", "kubelet-server-current.pem"} {
			Expect(former.signed(ctx, worker, file)).To(BeFalse(), "the former CA signed %s of %s", file, worker.Name)
		}
		for name, pod := range runs {
			Expect(t.systemPods(ctx)).To(HaveKeyWithValue(name, pod), "pods of the system that ran before")
		}
		t.expectLogs(ctx)
		t.expectNothingLost(ctx, "ca_prepare", journals)
		notReady := nodes.NotReady()

		By("people have other kubeconfigs, and pods start anew")
		t.connect(ctx)
		journals = t.startJournals(ctx, "of-now", worker)
		nodes, err = readiness.Watch(ctx, t.api, clock.RealClock{})
		Expect(err).NotTo(HaveOccurred())
		t.restartPods(ctx)
		Eventually(ctx, func() string { return t.saysOfKeys(ctx) }).WithTimeout(rotating).ShouldNot(ContainSubstring("pods/"), "owners of pods that need the former CA")

		By("the former CA is dropped")
		patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"keyRotation":{"completeAfter":%q}}}`, time.Now().UTC().Format(time.RFC3339)))
		t.expectKeys(ctx, conditionsv1.KeysNotRotatingReason)
		figure("ca_rotation_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s, of the cluster CA")
		tried, accepted := t.expectTakes(ctx, false, worker, toKubelets, credentials...)
		figure("ca_old_credentials_tried", strconv.Itoa(tried), "certificates at API servers, controller managers, schedulers and kubelets")
		figure("ca_old_credentials_accepted_after", strconv.Itoa(accepted), "of these")
		t.connect(ctx)
		Expect(former.isIn(t.access.CAData)).To(BeFalse(), "the kubeconfig trusts the former CA")
		t.expectLogs(ctx)
		Eventually(ctx, func() error {
			set := &appsv1.DaemonSet{}
			api, err := client.New(t.access, client.Options{})
			if err != nil {
				return err
			}
			return api.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "kok-node-keys"}, set)
		}).WithTimeout(rotating).Should(MatchError(ContainSubstring("not found")), "what brought nodes the CAs")
		t.expectWorkers(ctx, t.workers)
		Expect(t.quickstart().Hello(ctx)).To(Succeed())
		figure("ca_rotation_not_ready_seconds", fmt.Sprintf("%.1f", (notReady+nodes.NotReady()).Seconds()), "s in which a worker's Node was not ready")
		Expect(notReady+nodes.NotReady()).To(BeZero(), "a Node was not ready for a while")
		t.expectHealthy(ctx)
		t.expectNothingLost(ctx, "ca_complete", journals)
		t.expectStayed(ctx, before, members, names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler)
	}, SpecTimeout(2*creation+2*join+3*rotating))
})

// formerCA is a CA that a rotation replaces.
type formerCA struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

func caOf(certPEM, keyPEM []byte) formerCA {
	GinkgoHelper()
	found, err := certs.DecodeCertPEM(certPEM)
	Expect(err).NotTo(HaveOccurred())
	key, err := certs.DecodePrivateKeyPEM(keyPEM)
	Expect(err).NotTo(HaveOccurred())
	return formerCA{found, key}
}

// sign makes a certificate for an administrator, as anybody can who has the CA's key.
func (c formerCA) sign() tls.Certificate {
	GinkgoHelper()
	key, err := certs.NewSigner(pki.KeyAlgorithm)
	Expect(err).NotTo(HaveOccurred())
	config := certs.Config{CommonName: "attacker", Organization: []string{"system:masters"}, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	made, err := config.NewSignedCert(key, c.certificate, c.key)
	Expect(err).NotTo(HaveOccurred())
	return tls.Certificate{Certificate: [][]byte{made.Raw}, PrivateKey: key}
}

// signed reports whether the CA signed a certificate that kubelet has.
func (c formerCA) signed(ctx context.Context, worker *host.Host, file string) bool {
	GinkgoHelper()
	raw, err := worker.Exec(ctx, nil, "cat", "/var/lib/kubelet/pki/"+file)
	Expect(err).NotTo(HaveOccurred())
	found, err := certs.DecodeCertPEM(raw)
	Expect(err).NotTo(HaveOccurred())
	return found.CheckSignatureFrom(c.certificate) == nil
}

// isIn reports whether a bundle of CAs has it.
func (c formerCA) isIn(bundle []byte) bool {
	GinkgoHelper()
	found, err := cert.ParseCertsPEM(bundle)
	Expect(err).NotTo(HaveOccurred())
	return slices.ContainsFunc(found, c.certificate.Equal)
}

// expectTakes sees to it that credentials are taken at each listener that verifies clients by the cluster CA, or at none of them. It returns
// how often they were shown, and how often taken.
func (t *tenant) expectTakes(ctx context.Context, takes bool, worker *host.Host, toKubelets probe.Credential, credentials ...probe.Credential) (shown, taken int) {
	GinkgoHelper()
	try := func(who string, ask func() probe.Answer) {
		Eventually(ctx, func(g Gomega) {
			answer := ask()
			g.Expect(answer.Err == nil && answer.Status == http.StatusOK).To(Equal(takes), "%s: %s", who, answer)
			g.Expect(answer.Refused()).To(Equal(!takes), "%s: %s", who, answer)
		}).WithTimeout(time.Minute).Should(Succeed())
		if shown++; ask().Status == http.StatusOK {
			taken++
		}
	}
	doors := t.doorsByComponent(ctx)
	for _, component := range []string{names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler} {
		pods, err := t.pods(ctx, component)
		Expect(err).NotTo(HaveOccurred())
		Expect(pods).NotTo(BeEmpty(), component)
		for i := range pods {
			for port, door := range doors[component] {
				for _, credential := range credentials {
					try(credential.Name+" at "+pods[i].Name, func() probe.Answer {
						return probe.TLS(ctx, address(pods[i].Status.HostIP, port), credential, door.path)
					})
				}
			}
		}
	}
	try(toKubelets.Name+" at the kubelet of "+worker.Name, func() (answer probe.Answer) {
		Expect(worker.InNetwork(func() error {
			answer = probe.TLS(ctx, "127.0.0.1:10250", toKubelets, "/healthz")
			return nil
		})).To(Succeed())
		return answer
	})
	return shown, taken
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

// saysOfKeys is the message of the condition KeysRotating.
func (t *tenant) saysOfKeys(ctx context.Context) string {
	GinkgoHelper()
	return conditions.Get(t.controlPlane(ctx), conditionsv1.KeysRotatingCondition).Message
}
