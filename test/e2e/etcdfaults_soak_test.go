//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/etcdfaults"
)

// One tenant gets one fault after the other, as a seed says. Each has a row, journals and registers of its own.
var _ = Describe("The etcd of a tenant, in a soak,", Label(full, soak), func() {
	It("comes through all that passes, or that it repairs by itself, and loses nothing", func(ctx SpecContext) {
		known := map[string]etcdFault{}
		var labels []string
		for _, fault := range slices.Concat(passingFaults, repairedFaults) {
			known[fault.label] = fault
			labels = append(labels, fault.label)
		}
		env.log.Print("soak with SEED=%d for %s", settings.soakSeed, settings.soakLength)
		s := newStruck(ctx, "soak", "", nil)
		members := s.dataMembers(ctx)
		began := time.Now()
		for step := range etcdfaults.Schedule(settings.soakSeed, labels) {
			fault := known[step.Fault]
			s.cover(ctx, members[:fault.disks]...)
			if name := fmt.Sprintf("%d: %s", s.round+1, fault.fault); s.etcds == nil {
				s.row.Fault = name
				s.start(ctx)
			} else {
				s.next(ctx, name)
			}
			s.while(ctx, step.Pause)
			s.pass(ctx, fault)
			s.forgetReplacements(ctx)
			if time.Since(began) > settings.soakLength {
				break
			}
		}
	}, SpecTimeout(24*time.Hour))
})

// forgetReplacements removes the records of replacements, as a person does who knows their reason. With them the manager would not replace a
// member again so soon, or so often. It also notes who the members are: the next fault begins with these.
func (s *struck) forgetReplacements(ctx context.Context) {
	GinkgoHelper()
	now, err := s.identity(ctx)
	Expect(err).NotTo(HaveOccurred())
	for member := range now.Records {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: member}}
		patch(ctx, service, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, recovery.Annotation))
	}
	s.before = s.expectIdentity(ctx)
}
