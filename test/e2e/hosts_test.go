//go:build e2e

package e2e

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	quickstart "github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

// createWithWorkers makes the tenant and its workers, beside spare hosts, and waits until a pod reaches a Service.
func (t *tenant) createWithWorkers(ctx context.Context, spare int) {
	GinkgoHelper()
	t.create(ctx)
	t.haveHosts(ctx, t.workers+spare)
	q := t.quickstart()
	Expect(q.InstallNetwork(ctx, env.network)).To(Succeed())
	Expect(q.WaitWorkers(ctx)).To(Succeed())
	Expect(q.Hello(ctx)).To(Succeed())
	t.expectWorkers(ctx, t.workers)
}

// haveHosts gives the tenant so many hosts in all; new ones get programs besides what every worker has.
func (t *tenant) haveHosts(ctx context.Context, count int, programs ...string) []string {
	GinkgoHelper()
	pool := &workers.Pool{
		Lab: env.lab, Client: env.client, Namespace: t.Namespace, Log: env.log,
		Programs: append(programs, filepath.Join(settings.programs, "kok-apiserver-lb")),
		Load: func(ctx context.Context, names ...string) error {
			return env.lab.LoadProgram(ctx, quickstart.HelloImage, filepath.Join(settings.programs, "hello"), names...)
		},
	}
	hosts, err := pool.Ensure(ctx, count)
	Expect(err).NotTo(HaveOccurred())
	return hosts
}
