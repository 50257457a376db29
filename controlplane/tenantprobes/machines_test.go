package tenantprobes

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/nodekeys"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

// notes keeps the last probe that was asked for.
type notes struct{ last probe.Probe }

func (n *notes) Probe(_ probe.Key, p probe.Probe) (probe.Result, bool) {
	n.last = p
	return probe.Result{}, true
}

func (n *notes) Withdraw(probe.Key) {}

// A restore of etcd brings the objects of an earlier rotation back, also where this tenant never rotated its CA.
func TestWhatARestoreBringsBackForNodesIsLookedForAtTheStartAndAfterEachRestore(t *testing.T) {
	keys := makeKeys(t)
	asked, lock := 0, sync.Mutex{}
	address := serveAsTenant(t, keys, func(w http.ResponseWriter, request *http.Request) {
		if request.URL.Path == "/readyz" {
			return
		}
		if request.Method == http.MethodGet && request.URL.Path == "/apis/apps/v1/namespaces/kube-system/daemonsets/kok-node-keys" {
			lock.Lock()
			asked++
			lock.Unlock()
		}
		if request.URL.Path == "/api/v1/namespaces/kube-system/configmaps" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"ConfigMapList","items":[]}`)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	for _, again := range []bool{false, true} {
		clock := clocktesting.NewFakeClock(time.Now())
		asked = 0
		check := &objectsProbe{
			api: reach(keys, address, clock), what: "the objects", remove: nodekeys.Remove, removeAgain: again,
			objects: func() (wanted, unwanted []client.Object, err error) { return nil, nil, nil },
		}
		for i := range 3 {
			answer := check.do(t.Context())
			if want := map[bool]int{false: 1, true: i + 1}[again]; asked != want {
				t.Errorf("after %d looks it was looked for %d times, want %d; %s", i+1, asked, want, answer.Problem)
			}
			clock.Step(interval)
		}
	}

	noted, now := &notes{}, time.Now()
	keeper := &Keeper{Prober: noted, Tenants: Tenants{Clock: clocktesting.NewFakeClock(now), Guards: &tenantapi.Guards{}}}
	prompt := func(clusterID string, restored time.Time) string {
		t.Helper()
		of := &controlplanev1.KOKControlPlane{}
		of.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "192.0.2.1", Port: 6443}
		etcdclusters.SetStatus(of, controlplanev1.EtcdClusterStatus{
			Name: etcdclusters.Name(names.EtcdData), ClusterID: clusterID, Bootstrapped: ptr.To(true), RestoredAt: metav1.NewTime(restored),
		})
		in := &components.Input{Version: "v1.36.3", Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}}
		in.Network.ServiceCIDRs, in.Network.PodCIDRs, in.Network.DNSDomain = []string{"10.96.0.0/12"}, []string{"192.168.0.0/16"}, "cluster.local"
		in.Exposure.Address, in.Exposure.Port = "192.0.2.1", 6443
		if _, _, err := keeper.ForMachines(t.Context(), &Facts{ControlPlane: of, Input: in, Keys: keys}, nil); err != nil {
			t.Fatal(err)
		}
		return noted.last.Prompt
	}
	before := prompt("1", time.Time{})
	if before != prompt("1", time.Time{}) {
		t.Error("it is looked for at each reconcile")
	}
	if before == prompt("2", time.Time{}) || before == prompt("1", now) {
		t.Error("nothing is looked for after a restore")
	}
}
