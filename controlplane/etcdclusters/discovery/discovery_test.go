package discovery

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
)

// What status loses in a move is in the host cluster.
func TestEtcdIsRecoveredFromItsFiles(t *testing.T) {
	const name = "blue-etcd-data"
	for title, test := range map[string]struct {
		membership etcdcomponent.Membership
		pods       int32
		want       []controlplanev1.EtcdMemberState
	}{
		"one that is being founded is not taken for founded":      {pods: 3},
		"one that is being founded and has no pods is not either": {},
		"a founded one whose StatefulSet is gone has the members that have files": {etcdcomponent.Membership{Bootstrapped: true}, 0,
			[]controlplanev1.EtcdMemberState{controlplanev1.EtcdMemberVoter, controlplanev1.EtcdMemberVoter, controlplanev1.EtcdMemberVoter}},
		"a founded one has a voter for each pod": {etcdcomponent.Membership{Bootstrapped: true}, 3,
			[]controlplanev1.EtcdMemberState{controlplanev1.EtcdMemberVoter, controlplanev1.EtcdMemberVoter, controlplanev1.EtcdMemberVoter}},
		"a member that joins goes on joining": {etcdcomponent.Membership{Bootstrapped: true, Listed: []string{name + "-0", name + "-1"}, Joining: name + "-1"}, 2,
			[]controlplanev1.EtcdMemberState{controlplanev1.EtcdMemberVoter, controlplanev1.EtcdMemberJoining}},
	} {
		t.Run(title, func(t *testing.T) {
			replicas := int32(3)
			in := components.Input{Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, Addresses: map[string]string{}}
			in.Spec.Etcd.Data.Replicas = &replicas
			in.Spec.Etcd.Data.QuotaBackendSize = ptr.To(resource.MustParse("1Gi"))
			files, err := etcdcomponent.Data.Config(&in, test.membership)
			if err != nil {
				t.Fatal(err)
			}
			found, err := described(etcdcomponent.Data, in.Cluster, "", files.Data, test.pods)
			if err != nil {
				t.Fatal(err)
			}
			var got []controlplanev1.EtcdMemberState
			if found != nil {
				for _, member := range found.Members {
					got = append(got, member.State)
				}
				if found.Name != "data" || !*found.Bootstrapped {
					t.Errorf("got %+v", found)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
