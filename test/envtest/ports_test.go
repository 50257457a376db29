//go:build envtest

package envtest

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// TestManagersNeverClaimOneBlockTwice has two managers, each with a client of its own, claim for the
// same tenants at once, with just as many blocks as tenants.
func TestManagersNeverClaimOneBlockTwice(t *testing.T) {
	g := NewWithT(t)
	const tenants = 25
	namespace := newNamespace(t)
	span := ports.Span{First: 20000, Last: 20000 + tenants*20 - 1}

	type result struct {
		tenant string
		first  int32
	}
	var (
		mutex   sync.Mutex
		results []result
		wait    sync.WaitGroup
	)
	for range 2 {
		c, err := client.New(environment.Config, client.Options{Scheme: environment.Scheme})
		g.Expect(err).NotTo(HaveOccurred())
		claims := ports.New(c, c, namespace, span)
		for i := range tenants {
			wait.Go(func() {
				name := fmt.Sprintf("tenant-%d", i)
				first, err := claims.Claim(t.Context(), client.ObjectKey{Namespace: "tenants", Name: name}, 0)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				mutex.Lock()
				defer mutex.Unlock()
				results = append(results, result{name, first})
			})
		}
	}
	wait.Wait()

	blocks := map[string]int32{}
	owners := map[int32]string{}
	for _, r := range results {
		if first, seen := blocks[r.tenant]; seen {
			g.Expect(r.first).To(Equal(first), "managers disagree about %s", r.tenant)
			continue
		}
		g.Expect(owners).NotTo(HaveKey(r.first))
		blocks[r.tenant], owners[r.first] = r.first, r.tenant
	}
	g.Expect(blocks).To(HaveLen(tenants))
	var claims corev1.ConfigMapList
	g.Expect(environment.Client.List(t.Context(), &claims, client.InNamespace(namespace))).To(Succeed())
	g.Expect(claims.Items).To(HaveLen(tenants))
}

// TestManagersAgreeWhenBlocksComeAndGo lets blocks be released while two managers claim for the same
// tenant, so that they try different blocks first, and checks that both end with the same.
func TestManagersAgreeWhenBlocksComeAndGo(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	claims := ports.New(environment.Client, environment.Client, namespace, ports.Span{First: 20000, Last: 20099})
	tenant := client.ObjectKey{Namespace: "tenants", Name: "tenant"}
	for round := range 20 {
		var (
			others []client.ObjectKey
			firsts [2]int32
			wait   sync.WaitGroup
		)
		for i := range 3 {
			other := client.ObjectKey{Namespace: "tenants", Name: fmt.Sprintf("other-%d-%d", round, i)}
			_, err := claims.Claim(t.Context(), other, 0)
			g.Expect(err).NotTo(HaveOccurred())
			others = append(others, other)
		}
		for manager := range firsts {
			wait.Go(func() {
				first, err := claims.Claim(t.Context(), tenant, 0)
				if err != nil {
					t.Errorf("round %d: %v", round, err)
				}
				firsts[manager] = first
			})
		}
		for _, other := range others {
			wait.Go(func() {
				if err := claims.Release(t.Context(), other); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wait.Wait()
		g.Expect(firsts[0]).To(Equal(firsts[1]), "round %d", round)

		// The pinned block is kept, everything else is given back.
		g.Expect(claims.Claim(t.Context(), tenant, firsts[0])).To(Equal(firsts[0]))
		var list corev1.ConfigMapList
		g.Expect(environment.Client.List(t.Context(), &list, client.InNamespace(namespace), client.HasLabels{"app.kubernetes.io/component"})).To(Succeed())
		g.Expect(list.Items).To(HaveLen(1))
		g.Expect(claims.Release(t.Context(), tenant)).To(Succeed())
	}
}

// What stores the claims takes their names: of the shortest and the longest pool as well.
func TestTenantsOfDifferentPortPoolsMayHaveOneBlock(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	claims := ports.New(environment.Client, environment.Client, namespace, ports.Span{First: 20000, Last: 20019})
	pools := []string{"", "a", "20000", strings.Repeat("a", 38) + "-z"}
	tenantOf := func(i int) client.ObjectKey {
		return client.ObjectKey{Namespace: "tenants", Name: fmt.Sprintf("tenant-%d", i)}
	}
	for i, pool := range pools {
		for range 2 {
			g.Expect(claims.In(pool).Claim(t.Context(), tenantOf(i), 0)).To(Equal(int32(20000)), "pool %q", pool)
		}
		_, err := claims.In(pool).Claim(t.Context(), client.ObjectKey{Namespace: "tenants", Name: "late"}, 20000)
		g.Expect(err).To(MatchError(ContainSubstring("belong to Cluster "+tenantOf(i).String())), "pool %q", pool)
	}
	for i := range pools {
		var list corev1.ConfigMapList
		g.Expect(environment.Client.List(t.Context(), &list, client.InNamespace(namespace), client.HasLabels{"app.kubernetes.io/component"})).To(Succeed())
		g.Expect(list.Items).To(HaveLen(len(pools) - i))
		g.Expect(claims.Release(t.Context(), tenantOf(i))).To(Succeed())
	}
}

func TestClaimCannotBeGivenToAnother(t *testing.T) {
	g := NewWithT(t)
	namespace := newNamespace(t)
	claims := ports.New(environment.Client, environment.Client, namespace, ports.DefaultRange)
	first, err := claims.Claim(t.Context(), client.ObjectKey{Namespace: "tenants", Name: "a"}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	var claim corev1.ConfigMap
	g.Expect(environment.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("kok-ports-%d", first)}, &claim)).To(Succeed())
	claim.Data["clusterName"] = "b"
	g.Expect(environment.Client.Update(t.Context(), &claim)).To(MatchError(ContainSubstring("field is immutable when `immutable` is set")))
}
