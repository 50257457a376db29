//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/audit"
)

const (
	// quiet is how long nothing must be written before tenants count as settled.
	// Cluster API's core tries to connect to a new Cluster every 30 seconds, and writes its condition then.
	quiet = 45 * time.Second
	// settledTime is how long nothing may be written then: longer than the minute after which a tenant is looked at although nothing
	// happened.
	settledTime = 90 * time.Second
	// windows is how often that is tried.
	windows = 3
)

// settled counts what is written while nothing happens.
func (j *journey) settled() {
	It("costs no write", func(ctx SpecContext) {
		writes := countWrites(ctx, openAudit(), writes(ctx, j.a, j.b))
		figure("settled_writes", len(writes), "writes")
		Expect(writes).To(BeEmpty())
	}, NodeTimeout(10*time.Minute))
}

// countWrites waits until tenants have settled, and returns what counts of what is written from then on.
func countWrites(ctx context.Context, log *audit.Log, counted func(*auditv1.Event) bool) []string {
	GinkgoHelper()
	expectQuiet(ctx, log, counted)

	// A machine that stops for seconds makes probes fail, and nodes tell about their pods. Then tenants
	// were not settled, and the time starts anew.
	var writes, stirred []string
	for range windows {
		writes, stirred = nil, nil
		passTime(ctx, settledTime, func() string {
			events, err := log.Next()
			Expect(err).NotTo(HaveOccurred())
			for i := range events {
				switch {
				case !counted(&events[i]):
				case strings.HasPrefix(events[i].User.Username, "system:node:"):
					stirred = append(stirred, audit.Describe(&events[i]))
				default:
					writes = append(writes, audit.Describe(&events[i]))
				}
			}
			return fmt.Sprintf("%d writes", len(writes)+len(stirred))
		})
		if len(stirred) == 0 {
			break
		}
		env.log.Print("not settled: a node told of a change of its pods\n%s", strings.Join(stirred, "\n"))
	}
	return append(writes, stirred...)
}

// openAudit reads the host cluster's audit log from now on.
func openAudit() *audit.Log {
	GinkgoHelper()
	path, err := requireLab().AuditLogPath()
	Expect(err).NotTo(HaveOccurred())
	log, err := audit.Open(path)
	Expect(err).NotTo(HaveOccurred())
	return log
}

// expectQuiet waits until nothing that counts was written for a while.
func expectQuiet(ctx context.Context, log *audit.Log, counted func(*auditv1.Event) bool) {
	GinkgoHelper()
	By("waiting until nothing was written for " + quiet.String())
	last := time.Now()
	Eventually(ctx, func() time.Duration {
		events, err := log.Next()
		Expect(err).NotTo(HaveOccurred())
		for i := range events {
			if counted(&events[i]) {
				last = time.Now()
			}
		}
		return time.Since(last)
	}).WithTimeout(3*time.Minute).WithPolling(time.Second).Should(BeNumerically(">=", quiet), "something writes all the time")
}

// writes says which events count: whatever the manager writes but its own lease, and whatever anybody
// writes in the namespaces of the tenants, but for events: the scheduler tells of a series minutes after.
func writes(ctx context.Context, tenants ...*tenant) func(*auditv1.Event) bool {
	GinkgoHelper()
	user := env.managerUser(ctx)
	return func(event *auditv1.Event) bool {
		if !audit.IsWrite(event) {
			return false
		}
		if event.User.Username == user {
			return event.ObjectRef.Resource != "leases"
		}
		inTenant := slices.ContainsFunc(tenants, func(t *tenant) bool { return t.Namespace == event.ObjectRef.Namespace })
		return inTenant && event.ObjectRef.Resource != "events"
	}
}

// passTime lets time pass that a spec is about, and says every 15 seconds how things are. It calls
// look every second, and a last time in the end.
func passTime(ctx context.Context, duration time.Duration, look func() string) {
	GinkgoHelper()
	over := time.After(duration)
	tick, report := time.NewTicker(time.Second), time.NewTicker(15*time.Second)
	defer tick.Stop()
	defer report.Stop()
	began := time.Now()
	state := look()
	for {
		select {
		case <-ctx.Done():
			Fail("interrupted: " + context.Cause(ctx).Error())
		case <-over:
			env.log.Print("%s passed: %s", duration, look())
			return
		case <-report.C:
			env.log.Print("%3.0f of %.0f s: %s", time.Since(began).Seconds(), duration.Seconds(), state)
		case <-tick.C:
			state = look()
		}
	}
}
