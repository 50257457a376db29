//go:build envtest

package controllers

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// leaders are etcds of which every member votes; the first of each leads until another is told to.
type leaders struct {
	lock sync.Mutex
	// of is who leads, by the first member's address.
	of map[string]string
}

func (l *leaders) check(_ context.Context, members map[string]etcd.Address, _ *tls.Config) (*etcd.Health, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	sorted, health := slices.Sorted(maps.Keys(members)), &etcd.Health{}
	key := members[sorted[0]].Client
	if l.of[key] == "" {
		l.of[key] = sorted[0]
	}
	for i, name := range sorted {
		health.Members = append(health.Members, etcd.Member{
			Name: name, ID: uint64(i) + 1, Answered: true, Follows: true, Listed: true, Started: true, Leader: l.of[key] == name,
		})
	}
	return health, nil
}

func (l *leaders) change(_ context.Context, kind membership.Kind, name string, _ *etcd.Health, members map[string]etcd.Address, _ *tls.Config) error {
	if kind != membership.MoveLeader {
		return fmt.Errorf("%s was not to be", kind)
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	l.of[members[slices.Sorted(maps.Keys(members))[0]].Client] = name
	return nil
}

// count is how many clusters are led by their first member, and how many by another one.
func (l *leaders) count() (byFirst, byOthers int) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, leader := range l.of {
		if strings.HasSuffix(leader, "-0") {
			byFirst++
		} else {
			byOthers++
		}
	}
	return byFirst, byOthers
}

// promptly is sooner than the manager would look by itself.
const promptly = 20 * time.Second

// One manager with a tenant in its own cluster and one in another: both have two etcds.
func TestACordonMovesTheLeadAtOnce(t *testing.T) {
	grant(t)
	other := newElsewhereTest(t, whole)
	other.writeKubeconfig("whole")
	tenants := []*tenantTest{newTenantTest(t, whole), other.tenantTest}
	for _, tt := range tenants {
		tt.host.prefix = tt.key.Namespace + "-"
		for i := range 3 {
			tt.createNode(i)
		}
		tt.host.keepWorking()
	}
	g, etcds := &gate{}, &leaders{of: map[string]string{}}
	stop := startManagerThatChanges(t, g, etcds.check, etcds.change)
	for _, tt := range tenants {
		eventually(t, "it is available", tt.available)
		eventually(t, "its etcds are founded", func() bool {
			return etcdclusters.Bootstrapped(tt.controlPlane(), names.EtcdData) && etcdclusters.Bootstrapped(tt.controlPlane(), names.EtcdEvents)
		})
	}
	comesToRest(t, g)
	g.takeWrites()

	for i, tt := range tenants {
		began := time.Now()
		tt.cordonNode(0, true)
		eventually(t, "the members there may be drained", func() bool { return tt.readyToDrain() == 2 })
		if took := time.Since(began); took > promptly {
			t.Errorf("it took %v", took)
		}
		if left, moved := etcds.count(); left != 2*(len(tenants)-1-i) || moved != 2*(i+1) {
			t.Errorf("%d etcds are led by their first member, and %d by another one", left, moved)
		}
	}
	for _, tt := range tenants {
		tt.cordonNode(0, false)
		eventually(t, "nothing is said of drains any more", func() bool { return tt.readyToDrain() == 0 })
	}
	comesToRest(t, g)
	if back, _ := etcds.count(); back > 0 {
		t.Errorf("%d etcds are led by their first member again", back)
	}
	for _, write := range g.takeWrites() {
		if !strings.Contains(write.path, "/events") && (!strings.Contains(write.path, "/pods/") || !strings.HasSuffix(write.path, "/status")) {
			t.Errorf("it wrote %v", write)
		}
	}
	stop()
	if forbidden := g.forbidden(); len(forbidden) > 0 {
		t.Errorf("the role does not allow %v", forbidden)
	}
}

func (tt *tenantTest) createNode(i int) {
	tt.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s%d", tt.host.prefix, i), Labels: map[string]string{controlplanev1.HostNodeLabel: "true"},
	}}
	if err := tt.host.api.Create(tt.t.Context(), node); err != nil {
		tt.t.Fatal(err)
	}
	tt.t.Cleanup(func() {
		if err := tt.host.api.Delete(context.WithoutCancel(tt.t.Context()), node); err != nil {
			tt.t.Error(err)
		}
	})
}

func (tt *tenantTest) cordonNode(i int, cordoned bool) {
	tt.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s%d", tt.host.prefix, i)}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, cordoned))
	if err := tt.host.api.Patch(tt.t.Context(), node, patch); err != nil {
		tt.t.Fatal(err)
	}
}

// readyToDrain is how many pods say that they may be drained.
func (tt *tenantTest) readyToDrain() int {
	tt.t.Helper()
	pods := &corev1.PodList{}
	if err := tt.host.api.List(tt.t.Context(), pods, client.InNamespace(tt.key.Namespace)); err != nil {
		tt.t.Fatal(err)
	}
	count := 0
	for i := range pods.Items {
		if is := hostpods.Condition(&pods.Items[i], controlplanev1.PodReadyToDrain); is != nil && is.Status == corev1.ConditionTrue {
			count++
		}
	}
	return count
}
