//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/attack"
)

const (
	// visited bounds how long a manager takes until it asks a tenant of which something changed. After a bad answer the manager leaves the
	// tenant alone, for a minute the first time and twice as long each time after that.
	visited = 4 * time.Minute
	// flood is how many requests for certificates are made, if flooding lets so many.
	flood    = 100_000
	flooding = 2 * time.Minute
	// connections are opened and held.
	connections = 5_000
)

// floods answers the managers as no API server does.
func (s *siege) floods(ctx context.Context) {
	GinkgoHelper()
	canary, to := s.redirected()
	taken, err := s.attacker.TakeGroup(ctx, "v1", "apps")
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(taken.Release(context.WithoutCancel(ctx))).To(Succeed()) }()
	for _, answer := range attack.Answers(to) {
		outcome := s.answered(ctx, taken, answer, "kok-control-plane", "the managers, by the group apps of the tenant's API", func() {
			// Another number of pods has the manager write to the tenant, as it does every five minutes otherwise.
			controlPlane := s.attacked.controlPlane(ctx)
			patch(ctx, controlPlane, fmt.Sprintf(`{"spec":{"addons":{"coreDNS":{"replicas":%d}}}}`, 1+*controlPlane.Spec.Addons.CoreDNS.Replicas%2))
		})
		if from := canary.Visitors(); len(from) > 0 {
			outcome.Succeeded, outcome.Remark = true, fmt.Sprintf("the redirect was followed from %s", from[0])
		}
		s.report.Add(outcome)
	}
}

// answered gives a manager an answer in the place of the tenant's API, and tells how the manager bore it. provoke has the manager ask. The spec
// fails where it did not.
func (s *siege) answered(ctx context.Context, taken *attack.Instead, answer attack.Answer, manager, target string, provoke func()) attack.Outcome {
	GinkgoHelper()
	before := s.restarts(ctx)
	taken.Answer(answer)
	provoke()
	asked := func() int { return taken.Asked(manager) }
	attack.Within(ctx, visited, func() bool { return asked() > 0 })
	s.endure(ctx, before)
	outcome := attack.Outcome{Name: answer.Name, Did: answer.Did, Target: target}
	outcome.Stopped = fmt.Sprintf("asked by %v; %s", taken.Users(), s.conditionsOf(ctx))
	Expect(asked()).NotTo(BeZero(), "nobody asked, and nothing is proved of: %s", answer.Name)
	s.judge(ctx, &outcome, before)
	return outcome
}

// judge calls a try a success where it ended one of our managers.
func (s *siege) judge(ctx context.Context, outcome *attack.Outcome, before map[client.ObjectKey]map[string]int32) {
	GinkgoHelper()
	if restarted := restartedSince(ctx, before, ownManagers...); restarted > 0 {
		outcome.Succeeded, outcome.Remark = true, fmt.Sprintf("%d managers started again", restarted)
	}
}

// endlessShell has the worker's own shell write without end to whoever logs in: root there decides what SSH answers.
func (s *siege) endlessShell(ctx context.Context) {
	GinkgoHelper()
	const shell, log = "/usr/local/bin/endless", "/var/tmp/logins"
	worker, before := s.attacker.Worker, s.restarts(ctx)
	user := s.attacked.hosts(ctx)[0].Spec.User
	entry, err := worker.Exec(ctx, nil, "getent", "passwd", user)
	Expect(err).NotTo(HaveOccurred())
	fields := strings.Split(strings.TrimSpace(string(entry)), ":")
	Expect(worker.WriteFile(shell, []byte("#!/bin/sh\necho in >> "+log+"\nexec yes\n"), 0o755)).To(Succeed())
	_, err = worker.Exec(ctx, nil, "usermod", "--shell", shell, user)
	Expect(err).NotTo(HaveOccurred())
	defer func() {
		_, err := worker.Exec(context.WithoutCancel(ctx), nil, "usermod", "--shell", fields[len(fields)-1], user)
		Expect(err).NotTo(HaveOccurred())
	}()
	logins := func() (string, error) {
		lines, err := worker.Exec(ctx, nil, "cat", log)
		return string(lines), err
	}
	Eventually(ctx, logins).WithTimeout(2*time.Minute).Should(ContainSubstring("in"), "nobody logged in, and nothing is proved")
	s.endure(ctx, before)
	lines, err := logins()
	Expect(err).NotTo(HaveOccurred())
	host := s.attacked.hosts(ctx)[0]
	outcome := attack.Outcome{Name: "endless answer of a host", Did: "the worker's shell writes without end to who logs in", Target: "the infrastructure manager, which looks at hosts by SSH"}
	outcome.Stopped = fmt.Sprintf("%d logins; ", strings.Count(lines, "in"))
	for _, condition := range host.Status.Conditions {
		outcome.Stopped += condition.Type + ": " + condition.Message + " "
	}
	s.judge(ctx, &outcome, before)
	s.report.Add(outcome)
}

// redirected is a canary that managers are redirected to: at the host cluster's own control plane, where they reach it.
func (s *siege) redirected() (*attack.Canary, netip.AddrPort) {
	GinkgoHelper()
	cloud := siteHosts()[0]
	port := attack.NextPort()
	canary, err := attack.Plant(port, s.certificate, nil, attack.ListenAt(cloud, cloud.Address))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = canary.Close() })
	return canary, netip.AddrPortFrom(cloud.Address, port)
}

// endure waits while managers take more of an answer, or until one of them starts again.
func (s *siege) endure(ctx context.Context, before map[client.ObjectKey]map[string]int32) {
	GinkgoHelper()
	_ = wait.PollUntilContextTimeout(ctx, 2*time.Second, 10*time.Second, true, func(context.Context) (bool, error) {
		return restartedSince(ctx, before, ownManagers...) > 0, nil
	})
}

func (s *siege) restarts(ctx context.Context) map[client.ObjectKey]map[string]int32 {
	GinkgoHelper()
	all := map[client.ObjectKey]map[string]int32{}
	for _, key := range append(slices.Clone(ownManagers), coreManager) {
		all[key] = restarts(ctx, key)
	}
	return all
}

// crowd makes as many requests for certificates as there is time for, and then answers for them itself.
func (s *siege) crowd(ctx context.Context) {
	GinkgoHelper()
	before := s.restarts(ctx)
	made, err := s.attacker.Requests(ctx, flood, flooding)
	Expect(err).NotTo(HaveOccurred())
	outcome := attack.Outcome{
		Name: "a hundred thousand objects", Did: fmt.Sprintf("makes %d requests for certificates within %s", made, flooding), Target: "the bootstrap manager, which watches them",
	}
	outcome.Stopped = "managers go on; " + s.conditionsOf(ctx)
	s.judge(ctx, &outcome, before)
	s.report.Add(outcome)
	s.listsInstead(ctx)
	figure("attack_objects", made, "requests for certificates")
	Expect(made).To(BeNumerically(">", flood/10), "requests that were made")
}

// listsInstead answers the bootstrap manager, in the place of the tenant's API, when it lists requests for certificates anew. A tenant that has
// too many of them is left alone for a minute, and its watches end by that.
func (s *siege) listsInstead(ctx context.Context) {
	GinkgoHelper()
	taken, err := s.attacker.TakeGroup(ctx, "v1", "certificates.k8s.io")
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(taken.Release(context.WithoutCancel(ctx))).To(Succeed()) }()
	for _, answer := range attack.Lists() {
		// The manager lists anew by itself, once it stops to leave the tenant alone.
		s.report.Add(s.answered(ctx, taken, answer, "kok-bootstrap-manager", "the bootstrap manager, by the group certificates.k8s.io of the tenant's API", func() {}))
	}
}

// hold opens connections from the worker to the tenant's API servers and to a neighbour's, and asks the neighbour meanwhile.
func (s *siege) hold(ctx context.Context) {
	GinkgoHelper()
	for _, t := range append([]*tenant{s.attacked}, s.neighbours[0]) {
		ctx, release := context.WithCancel(ctx)
		pods, err := t.pods(ctx, "kube-apiserver")
		Expect(err).NotTo(HaveOccurred())
		opened := s.attacker.Connections(ctx, address(pods[0].Status.HostIP, t.ports(ctx).APIServer), connections)
		outcome := attack.Outcome{
			Name: "connections", Did: fmt.Sprintf("opens %d of %d connections to the API of %s, and holds them", opened, connections, t.Name), Target: "the APIs of neighbours",
		}
		Expect(opened).To(BeNumerically(">", connections/2), "connections that were opened")
		var said []string
		for _, n := range s.neighbours {
			began := time.Now()
			if _, err := n.api.Discovery().ServerVersion(); err != nil {
				outcome.Succeeded, outcome.Remark = true, n.Name+": "+err.Error()
			}
			said = append(said, fmt.Sprintf("%s answers in %s", n.Name, time.Since(began).Round(time.Millisecond)))
		}
		outcome.Stopped = strings.Join(said, ", ")
		release()
		s.report.Add(outcome)
	}
}
