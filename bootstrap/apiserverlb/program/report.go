package program

import (
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
)

// Report is the present state of the program.
func (p *Program) Report() *status.Report {
	counters := p.balancer.Counters()
	report := &status.Report{
		Version:     version.Get().GitVersion,
		Server:      "https://" + p.configuration.ListenAddress,
		Started:     p.started,
		Connections: p.balancer.Connections(),
		Counters: status.Counters{
			Accepted: counters.Accepted.Load(), Failed: counters.Failed.Load(), FailedAttempts: counters.FailedAttempts.Load(),
			Hedged: counters.Hedged.Load(), Probes: p.checker.Probes(), ProbeBytesSent: p.probing.Sent(), ProbeBytesReceived: p.probing.Received(),
			Reset: p.checker.Resets(),
		},
		Listeners: p.listeners(),
		Discovery: status.Discovery{Confirmed: p.backends.Confirmed()},
	}
	if p.watcher != nil {
		learnt := p.watcher.Status()
		report.Discovery.Changed, report.Discovery.Problem = learnt.Changed, learnt.Problem
		report.Discovery.BytesReceived, report.Discovery.BytesSent = learnt.BytesReceived, learnt.BytesSent
	}
	if p.service != nil {
		taken, problem := p.service.state()
		report.Service = &status.Service{Address: p.configuration.ServiceAddress, Taken: taken, Problem: problem}
	}
	for _, backend := range p.backends.All() {
		s := backend.Snapshot()
		report.Backends = append(report.Backends, status.Backend{
			Address: s.Address, State: s.Verdict.State.String(), Reason: s.Verdict.Reason, Since: s.Since, Suspect: s.Verdict.Suspect,
			Listed: s.Listed, Seed: s.Seed, Connections: s.Connections, BytesSent: s.Sent, BytesReceived: s.Received, LastError: s.LastError, LastErrorTime: s.LastErrorTime,
		})
	}
	return report
}
