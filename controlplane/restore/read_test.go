package restore

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// A restore that the controller began by itself is in the record alone. It goes on whatever spec says by then, and an older request of a
// person does not begin after it.
func TestARestoreThatBeganByItselfGoesOn(t *testing.T) {
	const third = "2026-03-04T07:00:00Z"
	for name, test := range map[string]struct {
		asks, reason, record string
		request              string
		automatic, asked     bool
	}{
		"all is well, and the record is not read":  {reason: conditionsv1.NotRecoveringReason, record: `{"restore": "` + second + `", "phase": "Stopping", "automatic": true, "begins": {"survivor": "m"}}`},
		"it was recorded, and status says nothing": {reason: conditionsv1.NeedsDecisionReason, record: `{"restore": "` + second + `", "phase": "Stopping", "automatic": true, "begins": {"survivor": "m"}}`, request: second, automatic: true, asked: true},
		"it is founded": {reason: conditionsv1.RestoringReason, record: `{"restore": "` + second + `", "phase": "Founding", "automatic": true, "begins": {"survivor": "m"}}`, request: second, automatic: true, asked: true},
		"it is over":    {reason: conditionsv1.RestoringReason, record: `{"restore": "` + second + `", "phase": "Over", "automatic": true, "begins": {"survivor": "m"}}`, request: second, automatic: true},
		"a person asked before, and that is in spec": {asks: first, reason: conditionsv1.RestoringReason, record: `{"restore": "` + second + `", "phase": "Founding", "automatic": true, "begins": {"survivor": "m"}}`, request: second, automatic: true, asked: true},
		"a person asked before, and it is over":      {asks: first, reason: conditionsv1.NotRecoveringReason, record: `{"restore": "` + second + `", "phase": "Over", "automatic": true, "begins": {"survivor": "m"}}`, request: second, automatic: true},
		"a person asks meanwhile":                    {asks: third, reason: conditionsv1.RestoringReason, record: `{"restore": "` + second + `", "phase": "Founding", "automatic": true, "begins": {"survivor": "m"}}`, request: third, asked: true},
		"a person asked, and nothing else":           {asks: first, reason: conditionsv1.RestoringReason, record: `{"restore": "` + first + `", "phase": "Founding"}`, request: first, asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := observed("a")
			conditions.Set(c, metav1.Condition{Type: conditionsv1.EtcdRecoveringCondition, Status: metav1.ConditionTrue, Reason: test.reason})
			if test.asks != "" {
				at := metav1.Time{}
				if err := at.UnmarshalQueryParameter(test.asks); err != nil {
					t.Fatal(err)
				}
				c.Spec.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{Snapshot: "of-a-person", RequestedAt: at}
			}
			cluster := client.ObjectKey{Namespace: "team", Name: "blue"}
			host := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: names.RestoreRecord(cluster.Name)}, Data: map[string]string{RecordKey: test.record},
			}).Build()
			p, err := Read(t.Context(), &Facts{ControlPlane: c, Cluster: cluster, Host: &hostclusters.Host{Client: host, Live: host}})
			if err != nil || p.request != test.request || (p.automatic != nil) != test.automatic || p.Asked() != test.asked {
				t.Errorf("%+v: %v", p, err)
			}
			if test.reason == conditionsv1.RestoringReason && p.Record.UnderWay() && (p.Begins(c).Survivor == "m") != p.Record.Automatic {
				t.Errorf("etcd began with %+v", p.Begins(c))
			}
			if asks := p.asks(c); test.request != "" && (asks.Survivor == "m") != test.automatic || test.asked && !test.automatic && asks.Snapshot != "of-a-person" {
				t.Errorf("it begins with %+v", asks)
			}
		})
	}
}
