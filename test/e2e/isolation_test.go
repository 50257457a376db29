//go:build e2e

package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/probe"
)

// isolation puts tenant b beside tenant a and tries the keys of each on the doors of the other.
func (j *journey) isolation() {
	It("runs on the same host nodes without a clash of ports (A5)", func(ctx SpecContext) {
		before := j.a.snapshot(ctx)
		j.b.create(ctx)
		if j.b.mode.onPodNetwork() {
			j.a.expectOffHosts(ctx)
			j.b.expectOffHosts(ctx)
		} else {
			a, b := j.a.controlPlane(ctx).Spec.Hosting.Ports.First, j.b.controlPlane(ctx).Spec.Hosting.Ports.First
			Expect(a).NotTo(Equal(b))
			Expect(a % controlplanev1.PortBlockSize).To(BeZero())
			Expect(b % controlplanev1.PortBlockSize).To(BeZero())
		}
		version, err := j.b.api.Discovery().ServerVersion()
		Expect(err).NotTo(HaveOccurred())
		Expect(version.GitVersion).To(Equal(j.b.version))
		Expect(j.a.snapshot(ctx)).To(Equal(before), "pods of %s", j.a.ObjectKey)
	})

	It("listens on loopback or behind a policy, or turns away whoever shows no credential (A10)", func(ctx SpecContext) {
		requireLab()
		for _, t := range []*tenant{j.a, j.b} {
			for _, l := range listenersOf(ctx, t) {
				if l.loopback {
					Expect(probe.Plain(ctx, l.address, "/").Refused()).To(BeTrue(), "%s is reachable", l)
					continue
				}
				if l.forKubelet {
					Expect(t.admits(ctx, l)).To(BeFalse(), "the NetworkPolicy of %s lets others than kubelet in", l)
					continue
				}
				for _, path := range l.secrets() {
					answer := probe.TLS(ctx, l.address, probe.Credential{}, path)
					Expect(answer.Refused()).To(BeTrue(), "%s answered a request for %s without a credential: %s", l, path, answer)
				}
				answer := probe.Plain(ctx, l.address, "/")
				Expect(answer.Refused()).To(BeTrue(), "%s answered a request without TLS: %s", l, answer)
			}
		}
	})

	It("lets in its own credentials only (A10)", func(ctx SpecContext) {
		requireLab()
		for _, t := range []*tenant{j.a, j.b} {
			for _, l := range listenersOf(ctx, t) {
				if !l.closed() {
					answer := probe.TLS(ctx, l.address, l.own, l.path)
					Expect(answer.Status).To(Equal(200), "%s refused %s, which is its own: %s", l, l.own.Name, answer)
				}
			}
		}
		expectRefused(ctx, credentialsOf(ctx, j.a), listenersOf(ctx, j.b))
		expectRefused(ctx, credentialsOf(ctx, j.b), listenersOf(ctx, j.a))
	})

	It("has no credential that the host cluster accepts (A10)", func(ctx SpecContext) {
		host, err := url.Parse(env.config.Host)
		Expect(err).NotTo(HaveOccurred())
		address := host.Host
		if host.Port() == "" {
			address += ":443"
		}
		door := []listener{{owner: "the host cluster", component: "kube-apiserver", address: address, path: "/api/v1/namespaces"}}
		expectRefused(ctx, append(credentialsOf(ctx, j.a), credentialsOf(ctx, j.b)...), door)
	})
}

// expectRefused shows every credential at every listener that can be reached.
func expectRefused(ctx SpecContext, credentials []probe.Credential, listeners []listener) {
	GinkgoHelper()
	var group errgroup.Group
	group.SetLimit(8)
	var lock sync.Mutex
	var accepted []string
	tried := 0
	for _, l := range listeners {
		if l.closed() {
			continue
		}
		for _, credential := range credentials {
			tried++
			group.Go(func() error {
				if answer := probe.TLS(ctx, l.address, credential, l.path); !answer.Refused() {
					lock.Lock()
					defer lock.Unlock()
					accepted = append(accepted, fmt.Sprintf("%s did not refuse %s: %s", l, credential.Name, answer))
				}
				return nil
			})
		}
	}
	Expect(group.Wait()).To(Succeed())
	Expect(accepted).To(BeEmpty(), strings.Join(accepted, "\n"))
	Expect(tried).To(BeNumerically(">", 0))
	env.log.Print("%d times a credential was shown at a listener of another cluster, and refused", tried)
}
