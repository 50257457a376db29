//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// fewSyncs are as many syncs of a slow disk as a control wants to see.
const fewSyncs = 5

// told is what the etcd of a member tells of itself.
type told struct {
	metrics map[string]*dto.MetricFamily
	// clock is the time of day as its process has it, without the part of a second.
	clock time.Time
}

// ask asks the etcd of a member, on its host node.
func (s *struck) ask(ctx context.Context, member string, port int32) (*told, error) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address("127.0.0.1", port)+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	asking := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: labHost(s.pods[member].Node).Dial}}
	response, err := asking.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of %s: %w", member, err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	parser, now := expfmt.NewTextParser(model.UTF8Validation), &told{}
	if now.metrics, err = parser.TextToMetricFamilies(response.Body); err != nil {
		return nil, fmt.Errorf("read the metrics of %s: %w", member, err)
	}
	// Whoever serves HTTP in Go puts the time of each answer in it.
	if now.clock, err = http.ParseTime(response.Header.Get("Date")); err != nil {
		return nil, fmt.Errorf("read the clock of %s: %w", member, err)
	}
	return now, nil
}

// one is a metric that etcd has once.
func (t *told) one(g Gomega, name string) *dto.Metric {
	g.Expect(t.metrics).To(HaveKey(name))
	g.Expect(t.metrics[name].GetMetric()).To(HaveLen(1), name)
	return t.metrics[name].GetMetric()[0]
}

// whileShown lets time pass in which a fault goes on. It fails when nothing shows meanwhile that the fault does what it is to do.
func (s *struck) whileShown(ctx context.Context, duration time.Duration, what string, shown func(g Gomega)) {
	GinkgoHelper()
	began := time.Now()
	Eventually(ctx, shown).WithTimeout(duration).WithPolling(time.Second).Should(Succeed(), "what shows that there is a fault: %s", what)
	env.log.Print("%s: %s, %.1f s after the fault", s.Name, what, time.Since(s.struckAt).Seconds())
	s.while(ctx, max(0, duration-time.Since(began)))
}

// whileLeaderless is whileShown for a member that is separated from the others: it follows nobody, and one of them leads.
func (s *struck) whileLeaderless(ctx context.Context, duration time.Duration, member string) {
	GinkgoHelper()
	port := etcd.Data.PortsOf(s.ports(ctx)).Metrics
	s.whileShown(ctx, duration, member+" follows no leader, and another member leads", func(g Gomega) {
		leaders := 0.0
		for name, pod := range s.pods {
			if pod.Component != names.EtcdData {
				continue
			}
			now, err := s.ask(ctx, name, port)
			g.Expect(err).NotTo(HaveOccurred())
			leaders += now.one(g, "etcd_server_is_leader").GetGauge().GetValue()
			if name == member {
				g.Expect(now.one(g, "etcd_server_has_leader").GetGauge().GetValue()).To(BeZero(), "%s follows a leader", member)
			}
		}
		g.Expect(leaders).To(BeEquivalentTo(1), "members that lead")
	})
}

// whileAhead is whileShown for a member whose clock is ahead of this machine's.
func (s *struck) whileAhead(ctx context.Context, duration time.Duration, member string, ahead time.Duration) {
	GinkgoHelper()
	port := etcd.Data.PortsOf(s.ports(ctx)).Metrics
	s.whileShown(ctx, duration, "the clock of "+member+" is "+ahead.String()+" ahead", func(g Gomega) {
		asked := time.Now()
		now, err := s.ask(ctx, member, port)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(now.clock).To(BeTemporally(">=", asked.Add(ahead).Truncate(time.Second)))
		g.Expect(now.clock).To(BeTemporally("<=", time.Now().Add(ahead)))
	})
}

// whileSlow is whileShown for a member whose disk is slow already: each sync of its log takes so long at least.
func (s *struck) whileSlow(ctx context.Context, duration time.Duration, member string, slowness time.Duration) {
	GinkgoHelper()
	port := etcd.Data.PortsOf(s.ports(ctx)).Metrics
	syncs := func(g Gomega) (count, seconds float64) {
		now, err := s.ask(ctx, member, port)
		g.Expect(err).NotTo(HaveOccurred())
		all := now.one(g, "etcd_disk_wal_fsync_duration_seconds").GetHistogram()
		return float64(all.GetSampleCount()), all.GetSampleSum()
	}
	countBefore, secondsBefore := syncs(Default)
	s.whileShown(ctx, duration, fmt.Sprintf("each sync of the log of %s takes %s or more", member, slowness), func(g Gomega) {
		count, seconds := syncs(g)
		count, seconds = count-countBefore, seconds-secondsBefore
		g.Expect(count).To(BeNumerically(">=", fewSyncs), "syncs")
		// One may have been under way when the disk became slow.
		g.Expect(seconds).To(BeNumerically(">=", (count-1)*slowness.Seconds()), "seconds of %.0f syncs", count)
	})
}
