//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clientv3 "go.etcd.io/etcd/client/v3"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// etcdComponents are both etcds of a tenant.
var etcdComponents = []string{names.EtcdData, names.EtcdEvents}

// answerTime bounds one question to etcd.
const answerTime = 5 * time.Second

// identity is who the members of both etcds are, by their names.
type identity struct {
	// Members are their IDs.
	Members map[string]uint64
	// Claims are the UIDs of their volume claims.
	Claims map[string]types.UID
	// Records are those of replacements that have begun.
	Records map[string]string
}

// identity reads who the members are. It needs a quorum, and changes nothing.
func (s *struck) identity(ctx context.Context) (identity, error) {
	now := identity{Members: map[string]uint64{}, Claims: map[string]types.UID{}, Records: map[string]string{}}
	for _, component := range etcdComponents {
		asking, cancel := context.WithTimeout(ctx, answerTime)
		found, err := s.etcds[component].MemberList(asking)
		cancel()
		if err != nil {
			return now, fmt.Errorf("list the members of %s: %w", component, err)
		}
		for _, member := range found.Members {
			if member.Name == "" || member.IsLearner {
				return now, fmt.Errorf("member %x of %s, %q, does not vote", member.ID, component, member.Name)
			}
			now.Members[member.Name] = member.ID
		}
		claims, services := &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}
		for _, list := range []client.ObjectList{claims, services} {
			if err := env.client.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels(names.ComponentLabels(s.ObjectKey, component))); err != nil {
				return now, err
			}
		}
		for _, claim := range claims.Items {
			now.Claims[strings.TrimPrefix(claim.Name, etcd.Claim(""))] = claim.UID
		}
		for _, service := range services.Items {
			if record, there := service.Annotations[recovery.Annotation]; there {
				now.Records[service.Name] = record
			}
		}
	}
	return now, nil
}

// expectIdentity is who the members of a tenant are whose members were never replaced.
func (s *struck) expectIdentity(ctx context.Context) identity {
	GinkgoHelper()
	now, err := s.identity(ctx)
	Expect(err).NotTo(HaveOccurred())
	wanted := s.wantedPods(ctx)
	Expect(now.Members).To(HaveLen(wanted[names.EtcdData] + wanted[names.EtcdEvents]))
	Expect(now.Claims).To(HaveLen(len(now.Members)))
	Expect(now.Records).To(BeEmpty())
	return now
}

// voters is the ID of each etcd cluster. It is an error when not every listed member answers as a voter of one cluster, and
// follows a leader.
func (s *struck) voters(ctx context.Context) (map[string]uint64, error) {
	clusters := map[string]uint64{}
	for component, asked := range s.etcds {
		asking, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		found, err := asked.MemberList(asking)
		if err != nil {
			return nil, fmt.Errorf("list the members of %s: %w", component, err)
		}
		clusters[component] = found.Header.ClusterId
		listed, answered := map[uint64]bool{}, map[uint64]bool{}
		for _, member := range found.Members {
			listed[member.ID] = true
		}
		for _, endpoint := range asked.Endpoints() {
			status, err := asked.Status(asking, endpoint)
			switch {
			case err != nil:
				return nil, fmt.Errorf("ask %s of %s: %w", endpoint, component, err)
			case status.Header.ClusterId != found.Header.ClusterId:
				return nil, fmt.Errorf("%s of %s is of cluster %x, others are of %x", endpoint, component, status.Header.ClusterId, found.Header.ClusterId)
			case status.IsLearner || status.Leader == 0 || len(status.Errors) > 0:
				return nil, fmt.Errorf("%s of %s: learner: %t, leader: %x, errors: %q", endpoint, component, status.IsLearner, status.Leader, status.Errors)
			}
			answered[status.Header.MemberId] = true
		}
		if !maps.Equal(listed, answered) {
			return nil, fmt.Errorf("%s lists %x, and %x answer", component, slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(answered)))
		}
	}
	return clusters, nil
}

// expectVoters waits until every member answers as a voter, and returns the IDs of the clusters.
func (s *struck) expectVoters(ctx context.Context) (clusters map[string]uint64) {
	GinkgoHelper()
	Eventually(ctx, func() (err error) {
		clusters, err = s.voters(ctx)
		return err
	}).WithTimeout(creation).Should(Succeed())
	return clusters
}

// expectRecovered waits until all is well again without a person: some members were replaced and no others, all vote, and the
// conditions say so. It notes how long that took.
func (s *struck) expectRecovered(ctx context.Context, replaced ...string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		now, err := s.identity(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(now.Members).To(HaveLen(len(s.before.Members)))
		for name, was := range s.before.Members {
			g.Expect(now.Members).To(HaveKey(name))
			if slices.Contains(replaced, name) {
				g.Expect(now.Members[name]).NotTo(Equal(was), "ID of %s, which is to be replaced", name)
				g.Expect(now.Claims).To(HaveKeyWithValue(name, Not(Equal(s.before.Claims[name]))), "claim of %s, which is to be replaced", name)
				continue
			}
			g.Expect(now.Members[name]).To(Equal(was), "ID of %s", name)
			g.Expect(now.Claims).To(HaveKeyWithValue(name, s.before.Claims[name]), "claim of %s", name)
			g.Expect(now.Records).NotTo(HaveKey(name), "record of a replacement of %s", name)
		}
		clusters, err := s.voters(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(clusters).To(Equal(s.clusters), "IDs of the clusters")
		s.expectConditions(ctx, g)
	}).WithTimeout(recovering).WithPolling(500*time.Millisecond).Should(Succeed(), "the etcd of %s recovers", s.ObjectKey)
	s.row.Healthy, s.row.Replaced = time.Since(s.struckAt), len(replaced)
	if len(replaced) > 0 {
		since := s.struckAt
		if !s.open.IsZero() {
			since = s.open
		}
		s.row.Recovery = time.Since(since)
	}
	env.log.Print("%s: all is well %.1f s after the fault", s.Name, s.row.Healthy.Seconds())
}

// expectConditions expects that both conditions say that all is well, and that every member's pod is ready.
func (s *struck) expectConditions(ctx context.Context, g Gomega) {
	for _, component := range etcdComponents {
		pods, err := s.tenant.pods(ctx, component)
		g.Expect(err).NotTo(HaveOccurred())
		for i := range pods {
			g.Expect(isReady(&pods[i])).To(BeTrue(), "pod %s is ready", pods[i].Name)
		}
	}
	controlPlane := &controlplanev1.KOKControlPlane{}
	g.Expect(env.client.Get(ctx, s.ObjectKey, controlPlane)).To(Succeed())
	healthy := conditions.Get(controlPlane, conditionsv1.EtcdClusterHealthyCondition)
	g.Expect(healthy).NotTo(BeNil())
	g.Expect(healthy.Status).To(Equal(metav1.ConditionTrue), healthy.Message)
	if c := conditions.Get(controlPlane, etcdRecovering); c != nil {
		g.Expect(c.Status).To(Equal(metav1.ConditionFalse), c.Message)
	}
}

// expectLeftAlone waits until the manager has looked at etcd several times, and sees to it that nobody is replaced meanwhile.
func (s *struck) expectLeftAlone(ctx context.Context) {
	GinkgoHelper()
	began, err := s.observations(ctx)
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func(g Gomega) {
		now, err := s.identity(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		if len(now.Records) > 0 {
			StopTrying("a replacement has begun").Attach("records", now.Records).Now()
		}
		g.Expect(now).To(Equal(s.before), "who the members are")
		count, err := s.observations(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(count).To(BeNumerically(">=", began+looks), "looks of the manager")
	}).WithTimeout(2*creation).WithPolling(time.Second).Should(Succeed(), "nobody is replaced while %s is silent", s.node)
}

// observations is how often the manager has observed the data's etcd: nobody else asks for its alarms. Each member counts what
// it was asked.
func (s *struck) observations(ctx context.Context) (count int, err error) {
	port := etcd.Data.PortsOf(s.ports(ctx)).Metrics
	for name, pod := range s.pods {
		if pod.Component != names.EtcdData || pod.Node == s.node {
			continue
		}
		now, err := s.ask(ctx, name, port)
		if err != nil {
			return 0, err
		}
		count += now.alarmsAsked()
	}
	return count, nil
}

// alarmsAsked is how often a member was asked for alarms.
func (t *told) alarmsAsked() (count int) {
	for _, m := range t.metrics["grpc_server_handled_total"].GetMetric() {
		if slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "grpc_method" && l.GetValue() == "Alarm" }) {
			count += int(m.GetCounter().GetValue())
		}
	}
	return count
}

// expectSameHashes waits until all members of the data's etcd have the same hash of all keys at one revision.
func (s *struck) expectSameHashes(ctx context.Context) {
	GinkgoHelper()
	s.expectSameHashesOf(ctx, names.EtcdData)
}

func (s *struck) expectSameHashesOf(ctx context.Context, component string) {
	GinkgoHelper()
	asked := s.etcds[component]
	Eventually(ctx, func(g Gomega) {
		asking, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		head, err := asked.Get(asking, "/registry/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		g.Expect(err).NotTo(HaveOccurred())
		type hash struct {
			Compacted int64
			Hash      uint32
		}
		hashes := map[hash][]string{}
		for _, endpoint := range asked.Endpoints() {
			// One that has not applied the revision yet, or compacted it, says so.
			found, err := asked.HashKV(asking, endpoint, head.Header.Revision)
			g.Expect(err).NotTo(HaveOccurred(), endpoint)
			key := hash{found.CompactRevision, found.Hash}
			hashes[key] = append(hashes[key], endpoint)
		}
		g.Expect(hashes).To(HaveLen(1), "hashes at revision %d", head.Header.Revision)
	}).WithTimeout(creation).Should(Succeed(), "all members of %s of %s have the same data", component, s.ObjectKey)
}
