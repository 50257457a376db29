//go:build e2e

package e2e

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/etcdfaults"
)

// One tenant gets one fault after the other, as a seed says. Each has a row, journals and registers of its own.
var _ = Describe("The etcd of a tenant, in a soak,", Label(full, soak), func() {
	It("comes through all that passes, and loses nothing", func(ctx SpecContext) {
		known := map[string]passingFault{}
		var labels []string
		for _, fault := range passingFaults {
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
			if time.Since(began) > settings.soakLength {
				break
			}
		}
	}, SpecTimeout(24*time.Hour))
})
