//go:build lab

package adminmachine

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestAnAdministratorGoesOnWithoutAHostNode(t *testing.T) {
	ctx, cancel := context.WithTimeout(session, limit)
	defer cancel()
	s := newSite(ctx, t)
	cluster := s.startServers()
	s.manage(cluster, "blue", "green")
	s.logIn()

	written, err := commands("Two commands")
	s.Expect(err).NotTo(HaveOccurred())
	kok, enable, kubectl := written[0], written[1], written[2]
	as := func(command, tenant string) string { return strings.ReplaceAll(command, "blue", tenant) }
	for _, tenant := range []string{"blue", "green"} {
		s.types("KUBECONFIG=$HOME/management.kubeconfig " + as(kok, tenant))
		s.types(as(enable, tenant))
		s.types(as(kubectl, tenant))
	}
	s.Expect(s.types("stat --format=%a ~/.kube/kok ~/.kube/kok/*.kubeconfig")).To(Equal("700\n600\n600"))
	s.Expect(s.types("systemctl --user list-units --plain --no-legend --state=failed")).To(BeEmpty())
	status := "kok-apiserver-lb status --kubeconfig ~/.kube/kok/blue.kubeconfig"
	s.Eventually(func() string { text, _ := s.shell(status); return text }).WithTimeout(patience).Should(ContainSubstring("192.0.2.3:6443   ready"))

	t.Run("when one fails", func(t *testing.T) {
		s := s.in(t)
		s.lose(cluster.Servers[0])
		for range 5 {
			s.types(kubectl)
		}
		s.types(as(kubectl, "green"))
	})
	t.Run("after a login", func(t *testing.T) {
		s := s.in(t)
		s.logOut()
		_, err := s.shell(kubectl)
		s.Expect(err).To(HaveOccurred(), "the load balancer runs although the person is gone")
		s.logIn()
		s.Eventually(func() error { _, err := s.shell(kubectl); return err }).WithTimeout(patience).Should(Succeed())
	})
	t.Run("by the archive, without root", func(t *testing.T) {
		s := s.in(t)
		s.root("dpkg", "--purge", "kok-apiserver-lb")
		install, err := commands("Install the load balancer")
		s.Expect(err).NotTo(HaveOccurred())
		s.archive()
		for _, command := range install[1:] {
			s.types(command)
		}
		s.types(enable)
		s.types("systemctl --user restart kok-apiserver-lb@blue kok-apiserver-lb@green")
		s.Expect(s.types("readlink /proc/$(systemctl --user show --property=MainPID --value kok-apiserver-lb@blue)/exe")).To(Equal("/home/" + person + "/.local/bin/kok-apiserver-lb"))
		s.types(kubectl)
	})
	t.Run("after a reboot without a login, when another one fails", func(t *testing.T) {
		s := s.in(t)
		s.root("loginctl", "enable-linger", person)
		s.Expect(s.machine.PowerOff(ctx)).To(Succeed())
		s.lose(cluster.Servers[1])
		s.Expect(s.machine.Boot(ctx)).To(Succeed())
		s.route()
		for _, tenant := range []string{"blue", "green"} {
			s.Eventually(func() error { _, err := s.shell(as(kubectl, tenant)); return err }).WithTimeout(patience).Should(Succeed())
		}
	})
	t.Run("and not without any", func(t *testing.T) {
		s := s.in(t)
		s.lose(cluster.Servers[2])
		_, err := s.shell(kubectl + " --request-timeout=5s")
		s.Expect(err).To(HaveOccurred(), "something else answers")
	})
}
