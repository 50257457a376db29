package ports

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

const namespace = "kok-system"

func tenant(name string) client.ObjectKey { return client.ObjectKey{Namespace: "tenants", Name: name} }

func claimsOf(c client.WithWatch, span Span) *Claims { return New(c, c, namespace, span) }

func listAll(t *testing.T, c client.Client) []corev1.ConfigMap {
	t.Helper()
	var list corev1.ConfigMapList
	NewWithT(t).Expect(c.List(t.Context(), &list, client.InNamespace(namespace))).To(Succeed())
	return list.Items
}

func TestClaimWritesWhoHoldsTheBlock(t *testing.T) {
	g := NewWithT(t)
	c := fake.NewClientBuilder().Build()
	first, err := claimsOf(c, DefaultRange).Claim(t.Context(), tenant("a"), 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first % 20).To(BeZero())
	g.Expect(first).To(And(BeNumerically(">=", DefaultRange.First), BeNumerically("<=", DefaultRange.Last-19)))

	all := listAll(t, c)
	g.Expect(all).To(HaveLen(1))
	g.Expect(all[0].Name).To(Equal(fmt.Sprintf("kok-ports-%d", first)))
	g.Expect(all[0].Labels).To(Equal(names.ComponentLabels(tenant("a"), Component)))
	g.Expect(all[0].Data).To(Equal(map[string]string{"clusterNamespace": "tenants", "clusterName": "a"}))
	g.Expect(all[0].Immutable).To(HaveValue(BeTrue()))
}

func TestClaimIsFoundAgainBeforeSpecWasWritten(t *testing.T) {
	g := NewWithT(t)
	c := fake.NewClientBuilder().Build()
	before, err := claimsOf(c, DefaultRange).Claim(t.Context(), tenant("a"), 0)
	g.Expect(err).NotTo(HaveOccurred())

	// The manager was killed here; the next one may even have another range.
	after, err := claimsOf(c, Span{First: 10000, Last: 10999}).Claim(t.Context(), tenant("a"), 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after).To(Equal(before))
	g.Expect(listAll(t, c)).To(HaveLen(1))
}

func TestClaimIsFoundAgainWithoutItsLabels(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		g := NewWithT(t)
		c := fake.NewClientBuilder().Build()
		claims := claimsOf(c, DefaultRange)
		before, err := claims.Claim(t.Context(), tenant("a"), 0)
		g.Expect(err).NotTo(HaveOccurred())
		edited := listAll(t, c)[0]
		edited.Labels = map[string]string{names.ClusterNameLabel: "b"}
		g.Expect(c.Update(t.Context(), &edited)).To(Succeed())

		wanted := int32(0)
		if pinned {
			wanted = before
		}
		after, err := claims.Claim(t.Context(), tenant("a"), wanted)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(after).To(Equal(before))
		all := listAll(t, c)
		g.Expect(all).To(HaveLen(1))
		g.Expect(all[0].Labels).To(Equal(names.ComponentLabels(tenant("a"), Component)))
	}
}

func TestSettledClaimWritesNothing(t *testing.T) {
	g := NewWithT(t)
	writes := 0
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			writes++
			return c.Create(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			writes++
			return c.Patch(ctx, obj, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			writes++
			return c.Delete(ctx, obj, opts...)
		},
	}).Build()
	claims := claimsOf(c, DefaultRange)
	first, err := claims.Claim(t.Context(), tenant("a"), 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(writes).To(Equal(1))
	for range 3 {
		g.Expect(claims.Claim(t.Context(), tenant("a"), first)).To(Equal(first))
		g.Expect(claims.Claim(t.Context(), tenant("a"), 0)).To(Equal(first))
	}
	g.Expect(writes).To(Equal(1))
}

func TestSettledClaimIsReadFromTheCache(t *testing.T) {
	g := NewWithT(t)
	c := fake.NewClientBuilder().Build()
	first, err := claimsOf(c, DefaultRange).Claim(t.Context(), tenant("a"), 0)
	g.Expect(err).NotTo(HaveOccurred())

	asked := 0
	live := interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			asked++
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			asked++
			return c.List(ctx, list, opts...)
		},
	})
	claims := New(c, live, namespace, DefaultRange)
	g.Expect(claims.Claim(t.Context(), tenant("a"), first)).To(Equal(first))
	g.Expect(asked).To(BeZero())

	// A cache of one other namespace has no claims, and one that is late has not this one.
	for name, list := range map[string]func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error{
		"without the namespace": func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("unknown namespace for the cache")
		},
		"late": func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
	} {
		asked = 0
		cached := interceptor.NewClient(c, interceptor.Funcs{List: list})
		g.Expect(New(cached, live, namespace, DefaultRange).Claim(t.Context(), tenant("a"), first)).To(Equal(first), name)
		g.Expect(asked).NotTo(BeZero(), name)
	}
	g.Expect(listAll(t, c)).To(HaveLen(1))
}

func TestSameNameInAnotherNamespaceIsAnotherTenant(t *testing.T) {
	g := NewWithT(t)
	c := fake.NewClientBuilder().Build()
	claims := claimsOf(c, DefaultRange)
	a, err := claims.Claim(t.Context(), client.ObjectKey{Namespace: "one", Name: "a"}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	b, err := claims.Claim(t.Context(), client.ObjectKey{Namespace: "two", Name: "a"}, 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(a).NotTo(Equal(b))

	g.Expect(claims.Release(t.Context(), client.ObjectKey{Namespace: "one", Name: "a"})).To(Succeed())
	g.Expect(claims.Claim(t.Context(), client.ObjectKey{Namespace: "two", Name: "a"}, 0)).To(Equal(b))
}

func TestPinnedBlock(t *testing.T) {
	g := NewWithT(t)
	c := fake.NewClientBuilder().Build()
	claims := claimsOf(c, DefaultRange)

	g.Expect(claims.Claim(t.Context(), tenant("a"), 25000)).To(Equal(int32(25000)))
	g.Expect(claims.Claim(t.Context(), tenant("a"), 25000)).To(Equal(int32(25000)))

	_, err := claims.Claim(t.Context(), tenant("b"), 25000)
	g.Expect(err).To(MatchError("host ports 25000-25019 belong to Cluster tenants/a (claim: ConfigMap kok-system/kok-ports-25000); " +
		"choose another hosting.ports.first, or leave it out to get a free block"))
	var held *HeldError
	g.Expect(errors.As(err, &held)).To(BeTrue())
	g.Expect(*held).To(Equal(HeldError{First: 25000, Holder: tenant("a"), Claim: client.ObjectKey{Namespace: namespace, Name: "kok-ports-25000"}}))
	g.Expect(listAll(t, c)).To(HaveLen(1))
}

func TestPinnedBlockOutsideTheRange(t *testing.T) {
	g := NewWithT(t)
	c := fake.NewClientBuilder().Build()
	// 10248 is kubelet's.
	_, err := claimsOf(c, DefaultRange).Claim(t.Context(), tenant("a"), 10240)
	g.Expect(err).To(MatchError("host ports 10240-10259 are not in 20000-29999, the range of control planes; " +
		"give the manager a range with --host-port-range that contains them, or make the control plane anew without hosting.ports"))
	var outside *OutsideError
	g.Expect(errors.As(err, &outside)).To(BeTrue())
	g.Expect(*outside).To(Equal(OutsideError{First: 10240, Range: DefaultRange}))
	g.Expect(listAll(t, c)).To(BeEmpty())

	// A block that is only partly in the range is out of it, too.
	_, err = claimsOf(c, Span{First: 20000, Last: 20030}).Claim(t.Context(), tenant("a"), 20020)
	g.Expect(errors.As(err, &outside)).To(BeTrue())
}

func TestAClaimOutlivesItsRange(t *testing.T) {
	g := NewWithT(t)
	c := fake.NewClientBuilder().Build()
	g.Expect(claimsOf(c, Span{First: 15000, Last: 15999}).Claim(t.Context(), tenant("a"), 15000)).To(Equal(int32(15000)))
	cached := fake.NewClientBuilder().Build()
	g.Expect(New(cached, c, namespace, DefaultRange).Claim(t.Context(), tenant("a"), 15000)).To(Equal(int32(15000)))
	g.Expect(listAll(t, c)).To(HaveLen(1))
}

// The claim of a tenant that runs may be lost after the range has changed. Its pods still have the ports.
func TestALostClaimOutsideOfTheRangeIsTakenAnewForATenantThatRuns(t *testing.T) {
	rival := tenant("rival")
	for name, test := range map[string]struct {
		pinned  int32
		runs    bool
		claimed bool
		want    int32
		says    string
	}{
		"it runs":                                    {pinned: 15000, runs: true, want: 15000},
		"it runs, and another has the block":         {pinned: 15000, runs: true, claimed: true, says: "belong to Cluster tenants/rival"},
		"it runs beside a block of another":          {pinned: 15020, runs: true, claimed: true, want: 15020},
		"it runs in the range":                       {pinned: 20000, runs: true, want: 20000},
		"it runs, and its spec names no block":       {runs: true, want: 20000},
		"it does not run yet":                        {pinned: 15000, says: "are not in 20000-20019"},
		"it does not run, and another has the block": {pinned: 15000, claimed: true, says: "belong to Cluster tenants/rival"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := fake.NewClientBuilder().Build()
			if test.claimed {
				g.Expect(claimsOf(c, Span{First: 15000, Last: 15999}).Claim(t.Context(), rival, 15000)).To(Equal(int32(15000)))
			}
			claims := claimsOf(c, Span{First: 20000, Last: 20019})
			claim := claims.Claim
			if test.runs {
				claim = claims.Keep
			}
			// The second time it is there already.
			for range 2 {
				first, err := claim(t.Context(), tenant("a"), test.pinned)
				if test.says != "" {
					g.Expect(err).To(MatchError(ContainSubstring(test.says)))
					g.Expect(claims.heldBy(t.Context(), c, tenant("a"))).To(BeEmpty())
					continue
				}
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(first).To(Equal(test.want))
				g.Expect(claims.heldBy(t.Context(), c, tenant("a"))).To(HaveLen(1))
			}
		})
	}
}

func TestPinningGivesBackWhatWasClaimedBefore(t *testing.T) {
	g := NewWithT(t)
	c := fake.NewClientBuilder().Build()
	claims := claimsOf(c, DefaultRange)
	_, err := claims.Claim(t.Context(), tenant("a"), 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(claims.Claim(t.Context(), tenant("a"), 25000)).To(Equal(int32(25000)))
	all := listAll(t, c)
	g.Expect(all).To(HaveLen(1))
	g.Expect(all[0].Name).To(Equal("kok-ports-25000"))
}

func TestDeletedClaimIsMadeAgain(t *testing.T) {
	g := NewWithT(t)
	c := fake.NewClientBuilder().Build()
	claims := claimsOf(c, DefaultRange)
	first, err := claims.Claim(t.Context(), tenant("a"), 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(namespace))).To(Succeed())
	g.Expect(claims.Claim(t.Context(), tenant("a"), first)).To(Equal(first))
	g.Expect(listAll(t, c)).To(HaveLen(1))
}

func TestForeignObjectIsNeverTaken(t *testing.T) {
	g := NewWithT(t)
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kok-ports-20000"}, Data: map[string]string{"a": "b"}}
	c := fake.NewClientBuilder().WithObjects(foreign).Build()
	claims := claimsOf(c, Span{First: 20000, Last: 20039})

	g.Expect(claims.Claim(t.Context(), tenant("a"), 0)).To(Equal(int32(20020)))
	_, err := claims.Claim(t.Context(), tenant("b"), 20000)
	g.Expect(err).To(MatchError("host ports 20000-20019 cannot be claimed: ConfigMap kok-system/kok-ports-20000 is in the way and is no claim; " +
		"delete it or choose another hosting.ports.first"))
}

func TestExhaustedRange(t *testing.T) {
	g := NewWithT(t)
	c := fake.NewClientBuilder().Build()
	claims := claimsOf(c, Span{First: 20000, Last: 20059})
	taken := map[int32]bool{}
	for _, name := range []string{"a", "b", "c"} {
		first, err := claims.Claim(t.Context(), tenant(name), 0)
		g.Expect(err).NotTo(HaveOccurred())
		taken[first] = true
	}
	g.Expect(taken).To(Equal(map[int32]bool{20000: true, 20020: true, 20040: true}))

	_, err := claims.Claim(t.Context(), tenant("d"), 0)
	g.Expect(err).To(MatchError("all 3 blocks of host ports in 20000-20059 are claimed; give the manager a wider range with --host-port-range, delete a Cluster that is not needed, " +
		"or make the control plane anew in another port pool, hosting.portPool"))
	var exhausted *ExhaustedError
	g.Expect(errors.As(err, &exhausted)).To(BeTrue())

	g.Expect(claims.Release(t.Context(), tenant("b"))).To(Succeed())
	g.Expect(claims.Release(t.Context(), tenant("b"))).To(Succeed(), "releasing twice")
	_, err = claims.Claim(t.Context(), tenant("d"), 0)
	g.Expect(err).NotTo(HaveOccurred())
}

// Running tenants are found by the names of their claims: they never change.
func TestClaimsAreNamedAfterTheirBlock(t *testing.T) {
	claims := claimsOf(fake.NewClientBuilder().Build(), DefaultRange)
	for name, block := range map[string]struct {
		pool  string
		first int32
	}{
		"kok-ports-20000":       {"", 20000},
		"kok-ports-1040":        {"", 1040},
		"kok-ports-20000.north": {"north", 20000},
		"kok-ports-20000.20000": {"20000", 20000},
		"kok-ports-20020.a-b":   {"a-b", 20020},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			claim := claims.In(block.pool).claim(tenant("a"), block.first)
			g.Expect(claim.Name).To(Equal(name))
			pool, first, err := blockOf(claim)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pool).To(Equal(block.pool))
			g.Expect(first).To(Equal(block.first))
		})
	}
	for _, name := range []string{
		"", "kok-ports-", "20000", "kok-ports-20000.", "kok-ports-.north", "kok-ports-north", "kok-ports-north.20000", "kok-ports-20001.north",
		"kok-ports-020000.north", "kok-ports-65520.north", "kok-ports-north-20000",
	} {
		t.Run("no claim: "+name, func(t *testing.T) {
			_, _, err := blockOf(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}})
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring("the name of none; delete it")))
		})
	}
}

func TestABlockIsClaimedOnceInEachPortPool(t *testing.T) {
	g := NewWithT(t)
	c := fake.NewClientBuilder().Build()
	// Each pool has room for one tenant.
	claims := claimsOf(c, Span{First: 20000, Last: 20019})
	for pool, name := range map[string]string{"": "a", "north": "b", "south": "c"} {
		g.Expect(claims.In(pool).Claim(t.Context(), tenant(name), 0)).To(Equal(int32(20000)), pool)
		// Before and after spec names the block, and when the manager has another range.
		g.Expect(claims.In(pool).Claim(t.Context(), tenant(name), 0)).To(Equal(int32(20000)), pool)
		g.Expect(claims.In(pool).Claim(t.Context(), tenant(name), 20000)).To(Equal(int32(20000)), pool)
		g.Expect(claimsOf(c, DefaultRange).In(pool).Keep(t.Context(), tenant(name), 20000)).To(Equal(int32(20000)), pool)
	}
	g.Expect(listAll(t, c)).To(HaveLen(3))

	_, err := claims.In("north").Claim(t.Context(), tenant("d"), 20000)
	g.Expect(err).To(MatchError("host ports 20000-20019 of port pool north belong to Cluster tenants/b (claim: ConfigMap kok-system/kok-ports-20000.north); " +
		"choose another hosting.ports.first, or leave it out to get a free block"))
	_, err = claims.In("north").Claim(t.Context(), tenant("d"), 0)
	g.Expect(err).To(MatchError(ContainSubstring("all 1 blocks of host ports in 20000-20019 of port pool north are claimed; ")))

	g.Expect(claims.Release(t.Context(), tenant("b"))).To(Succeed())
	g.Expect(claims.In("north").Claim(t.Context(), tenant("d"), 0)).To(Equal(int32(20000)))
	g.Expect(claims.In("south").Claim(t.Context(), tenant("c"), 0)).To(Equal(int32(20000)))
	g.Expect(listAll(t, c)).To(HaveLen(3))
}

// A control plane may be made anew with its Cluster's name while claims of the former one are left.
func TestAClaimInAnotherPortPoolIsNotUsed(t *testing.T) {
	for name, test := range map[string]struct{ before, after string }{
		"from no pool":    {"", "north"},
		"to no pool":      {"north", ""},
		"to another pool": {"north", "south"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := fake.NewClientBuilder().Build()
			claims := claimsOf(c, Span{First: 20000, Last: 20039})
			g.Expect(claims.In(test.before).Claim(t.Context(), tenant("a"), 20020)).To(Equal(int32(20020)))
			g.Expect(claims.In(test.after).Claim(t.Context(), tenant("rival"), 20020)).To(Equal(int32(20020)))
			g.Expect(claims.In(test.after).Claim(t.Context(), tenant("a"), 0)).To(Equal(int32(20000)))
			g.Expect(claims.heldBy(t.Context(), c, tenant("a"))).To(HaveLen(2), "spec does not name the block yet")
			g.Expect(claims.In(test.after).Claim(t.Context(), tenant("a"), 20000)).To(Equal(int32(20000)))
			held, err := claims.heldBy(t.Context(), c, tenant("a"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(held).To(HaveLen(1))
			g.Expect(held[0].Name).To(Equal(nameOf(test.after, 20000)))
		})
	}
}

func TestManyTenantsAtOnceGetDifferentBlocks(t *testing.T) {
	g := NewWithT(t)
	c := fake.NewClientBuilder().Build()
	const tenants, managers = 40, 3
	var (
		mutex   sync.Mutex
		results = map[string]map[int32]bool{}
		wait    sync.WaitGroup
	)
	for i := range tenants {
		for range managers {
			wait.Go(func() {
				name := fmt.Sprintf("tenant-%d", i)
				// Just enough blocks, so that every tenant runs into others.
				first, err := claimsOf(c, Span{First: 20000, Last: 20000 + tenants*20 - 1}).Claim(t.Context(), tenant(name), 0)
				mutex.Lock()
				defer mutex.Unlock()
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				if results[name] == nil {
					results[name] = map[int32]bool{}
				}
				results[name][first] = true
			})
		}
	}
	wait.Wait()
	owners := map[int32]string{}
	for name, firsts := range results {
		g.Expect(firsts).To(HaveLen(1), "managers disagree about %s", name)
		for first := range firsts {
			g.Expect(owners).NotTo(HaveKey(first))
			owners[first] = name
		}
	}
	g.Expect(owners).To(HaveLen(tenants))
	g.Expect(listAll(t, c)).To(HaveLen(tenants))
}

func TestLosingTheRaceForABlockMeansTheNext(t *testing.T) {
	g := NewWithT(t)
	rival := tenant("rival")
	var once sync.Once
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			once.Do(func() {
				theirs := obj.DeepCopyObject().(*corev1.ConfigMap)
				theirs.Labels = names.ComponentLabels(rival, Component)
				theirs.Data = map[string]string{"clusterNamespace": rival.Namespace, "clusterName": rival.Name}
				theirs.Immutable = ptr.To(true)
				if err := c.Create(ctx, theirs); err != nil {
					t.Error(err)
				}
			})
			return c.Create(ctx, obj, opts...)
		},
	}).Build()
	first, err := claimsOf(c, Span{First: 20000, Last: 20039}).Claim(t.Context(), tenant("a"), 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(listAll(t, c)).To(HaveLen(2))
	_, err = claimsOf(c, Span{First: 20000, Last: 20039}).Claim(t.Context(), rival, first)
	g.Expect(err).To(MatchError(ContainSubstring("belong to Cluster tenants/a")))
}

func TestErrorsOfTheAPIServerNameTheClaim(t *testing.T) {
	g := NewWithT(t)
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("no rights"))
		},
	}).Build()
	_, err := claimsOf(c, DefaultRange).Claim(t.Context(), tenant("a"), 25000)
	g.Expect(err).To(MatchError(ContainSubstring("claim host ports 25000-25019 for Cluster tenants/a with ConfigMap kok-system/kok-ports-25000")))
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue())
}
