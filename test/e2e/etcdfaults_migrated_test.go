//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"go.etcd.io/etcd/api/v3/version"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

// formerVersions are what members of the former etcd say. It does not tell of what version its data are.
func formerVersions() version.Versions {
	server := strings.TrimPrefix(artifacts.DefaultVersions().FormerEtcd, "v")
	return version.Versions{Server: server, Cluster: version.Cluster(server) + ".0"}
}

// usualVersions are what members of the lab's etcd say once all of them have it.
func usualVersions() version.Versions {
	server := strings.TrimPrefix(artifacts.DefaultVersions().Etcd, "v")
	minor := version.Cluster(server) + ".0"
	return version.Versions{Server: server, Cluster: minor, Storage: minor}
}

// tenantOfFormerEtcd makes a tenant whose members run the etcd of the minor before, with journals that write. That etcd is built,
// and nodes get its image, only here.
func tenantOfFormerEtcd(ctx context.Context, name, fault string) *struck {
	GinkgoHelper()
	requireLab()
	cache, err := artifacts.CacheDir()
	Expect(err).NotTo(HaveOccurred())
	program, err := artifacts.EnsureFormerEtcd(ctx, cache, func(step string) { env.log.Print("%s", step) })
	Expect(err).NotTo(HaveOccurred())
	image := artifacts.DefaultVersions().FormerEtcdImage()
	Expect(env.lab.LoadProgram(ctx, image, program)).To(Succeed())
	s := newStruck(ctx, name, fault, func(c *controlplanev1.KOKControlPlane) { c.Spec.Etcd.Image = image })
	s.start(ctx)
	return s
}

// expectVersions waits until every member of both etcds is of these versions. A member tells its data's version some seconds
// after the last one got the new etcd. No member was ever asked to go down.
func (s *struck) expectVersions(ctx context.Context, want version.Versions) {
	GinkgoHelper()
	asking := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: s.etcdTLS(ctx)}, Timeout: answerTime}
	Eventually(ctx, func(g Gomega) {
		for _, component := range etcdComponents {
			for _, endpoint := range s.etcds[component].Endpoints() {
				said, err := versionsOf(ctx, asking, endpoint)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(said).To(Equal(want), "versions of %s of %s", endpoint, component)
				bounded, cancel := context.WithTimeout(ctx, answerTime)
				defer cancel()
				status, err := s.etcds[component].Status(bounded, endpoint)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(status.DowngradeInfo.GetEnabled()).To(BeFalse(), "%s of %s goes down", endpoint, component)
			}
		}
	}).WithTimeout(creation).Should(Succeed(), "versions of the members of %s", s.ObjectKey)
}

// versionsOf is what a member says of itself.
func versionsOf(ctx context.Context, asking *http.Client, endpoint string) (said version.Versions, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/version", http.NoBody)
	if err != nil {
		return said, err
	}
	response, err := asking.Do(request)
	if err != nil {
		return said, err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	if response.StatusCode != http.StatusOK {
		return said, fmt.Errorf("%s answers %s", request.URL, response.Status)
	}
	err = json.NewDecoder(response.Body).Decode(&said)
	return said, err
}

// expectRolled waits until all these members have another pod, which is ready. Of each etcd one member at a time is away for it.
func (s *struck) expectRolled(ctx context.Context, members []string) {
	GinkgoHelper()
	came := map[string]bool{}
	Eventually(ctx, func(g Gomega) {
		for _, component := range etcdComponents {
			pods, err := s.tenant.pods(ctx, component)
			g.Expect(err).NotTo(HaveOccurred())
			var away []string
			for _, member := range members {
				if s.pods[member].Component != component {
					continue
				}
				i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Name == member })
				switch {
				case i < 0 || pods[i].DeletionTimestamp != nil:
					away = append(away, member)
				case pods[i].UID == s.pods[member].UID || came[member]:
				case isReady(&pods[i]):
					came[member] = true
					env.log.Print("%s: %s runs %s", s.Name, member, pods[i].Spec.Containers[0].Image)
				default:
					away = append(away, member)
				}
			}
			if len(away) > 1 {
				StopTrying("several members of one etcd are replaced together").Attach("members", away).Now()
			}
		}
		g.Expect(came).To(HaveLen(len(members)), "members that have another pod")
	}).WithTimeout(upgrade).WithPolling(500*time.Millisecond).Should(Succeed(), "all members of %s are replaced", s.ObjectKey)
}

// expectFoundByPrepare sees to it that each member went on from the data of the former etcd when its pod started, at the first try.
func (s *struck) expectFoundByPrepare(ctx context.Context) {
	GinkgoHelper()
	for _, component := range etcdComponents {
		pods, err := s.tenant.pods(ctx, component)
		Expect(err).NotTo(HaveOccurred())
		for i := range pods {
			pod := &pods[i]
			prepare := statusOf(pod.Status.InitContainerStatuses, facts.Container)
			Expect(prepare.State.Terminated).NotTo(BeNil(), "%s of pod %s", prepare.Name, pod.Name)
			found, err := facts.Decode(prepare.State.Terminated.Message)
			Expect(err).NotTo(HaveOccurred(), "%s of pod %s", prepare.Name, pod.Name)
			Expect(found.State).To(Equal(facts.Present), "%s: %s", pod.Name, found)
			Expect(found.StorageVersion).To(Equal(version.Cluster(formerVersions().Server)), "%s: %s", pod.Name, found)
			Expect(found.MemberID).To(Equal(fmt.Sprintf("%x", s.before.Members[pod.Name])), "%s: %s", pod.Name, found)
			Expect(prepare.RestartCount+statusOf(pod.Status.ContainerStatuses, etcd.Container).RestartCount).To(BeZero(), "restarts of %s", pod.Name)
		}
	}
}

func statusOf(statuses []corev1.ContainerStatus, name string) corev1.ContainerStatus {
	GinkgoHelper()
	i := slices.IndexFunc(statuses, func(status corev1.ContainerStatus) bool { return status.Name == name })
	Expect(i).To(BeNumerically(">=", 0), "container %s", name)
	return statuses[i]
}
