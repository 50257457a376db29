package etcdmembers

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
)

// The operator hears of a member on a cordoned node, and once more to take back what the pod said then.
func TestWhichMembersOfEtcdAreOnCordonedNodes(t *testing.T) {
	readyToDrain := corev1.PodCondition{Type: controlplanev1.PodReadyToDrain, Status: corev1.ConditionTrue}
	for name, test := range map[string]struct {
		cordoned, told bool
		want           []string
	}{
		"its node is cordoned":        {cordoned: true, want: []string{statustest.PodName(names.EtcdData, 0)}},
		"its pod says so already":     {cordoned: true, told: true, want: []string{statustest.PodName(names.EtcdData, 0)}},
		"its node takes pods again":   {told: true, want: []string{statustest.PodName(names.EtcdData, 0) + " no more"}},
		"its pod has taken that back": {},
	} {
		t.Run(name, func(t *testing.T) {
			pods := map[string][]corev1.Pod{names.EtcdData: {statustest.ReadyPod(names.EtcdData, 0)}}
			if test.told {
				pods[names.EtcdData][0].Status.Conditions = append(pods[names.EtcdData][0].Status.Conditions, readyToDrain)
			}
			host := fake.NewClientBuilder().WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}, Spec: corev1.NodeSpec{Unschedulable: test.cordoned}}).Build()
			members, err := Cordoned(t.Context(), host, pods)
			if err != nil || !slices.Equal(members[names.EtcdData], test.want) {
				t.Errorf("%v, %v", members, err)
			}
		})
	}
}
