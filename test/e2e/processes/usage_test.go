package processes

import (
	"net"
	"os"
	"testing"

	. "github.com/onsi/gomega"
)

func TestUsageOfThisProcess(t *testing.T) {
	g := NewWithT(t)
	before, err := UsageOf(os.Getpid())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(before.Resident).To(BeNumerically(">", 1<<20))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	g.Eventually(func(g Gomega) {
		after, err := UsageOf(os.Getpid())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(after.Sockets).To(Equal(before.Sockets + 1))
		g.Expect(after.CPU).To(BeNumerically(">", before.CPU))
	}).Should(Succeed())
	g.Expect(Proportional(os.Getpid())).To(And(BeNumerically(">", 1<<20), BeNumerically("<=", before.Resident*2)))
	g.Expect(before.Plus(before).Resident).To(Equal(2 * before.Resident))
}

func TestAProcessIsKnownByTheVariablesItWasStartedWith(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Variable(os.Getpid(), "PATH")).To(Equal(os.Getenv("PATH")))
	g.Expect(Variable(os.Getpid(), "NO_SUCH_VARIABLE")).To(BeEmpty())
}
