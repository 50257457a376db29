//go:build e2e

package e2e

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/byhand"
)

// strangersURL is at an address of nobody (RFC 5737): a stranger never starts.
const strangersURL = "https://192.0.2.1:2380"

// addStranger makes somebody a learner of the data's etcd, in the pod of a member.
func (s *struck) addStranger(ctx context.Context, member string) {
	GinkgoHelper()
	runAsPerson(ctx, etcd.Data.Etcdctl(s.Namespace, member, s.ports(ctx))+" member add stranger --learner --peer-urls "+strangersURL)
}

// toldToRun waits until a condition that is true tells a person to run a command, about something that it names, and returns the command.
func (t *tenant) toldToRun(ctx context.Context, condition, about string) (command string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		told := conditions.Get(t.controlPlane(ctx), condition)
		g.Expect(told).NotTo(BeNil())
		g.Expect(told.Status).To(Equal(metav1.ConditionTrue))
		g.Expect(told.Message).To(ContainSubstring(about))
		_, after, found := strings.Cut(told.Message, byhand.Run)
		g.Expect(found).To(BeTrue(), told.Message)
		command, _, _ = strings.Cut(after, "\n")
	}).WithTimeout(creation).Should(Succeed(), "%s has a command", condition)
	return command
}

// runAsPerson runs a command of kubectl as it is written.
func runAsPerson(ctx context.Context, command string) {
	GinkgoHelper()
	words := strings.Fields(command)
	Expect(words).To(HaveEach(MatchRegexp(`^[\w./:=-]+$`)), "words that a shell takes as they are")
	Expect(words[0]).To(Equal("kubectl"))
	Expect(env.run(ctx, env.kubectl, words[1:]...)).To(Succeed())
}
