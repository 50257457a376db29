package discovery

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// What status loses in a move is in the host cluster.
func TestEtcdIsRecoveredFromItsFiles(t *testing.T) {
	const name = "blue-etcd-data"
	voter := func(ordinal int) controlplanev1.EtcdMemberStatus {
		return controlplanev1.EtcdMemberStatus{Name: fmt.Sprintf("%s-%d", name, ordinal), State: controlplanev1.EtcdMemberVoter}
	}
	for title, test := range map[string]struct {
		membership  etcdcomponent.Membership
		first, pods int32
		want        []controlplanev1.EtcdMemberStatus
	}{
		"one that is being founded is not taken for founded":      {pods: 3},
		"one that is being founded and has no pods is not either": {},
		"a founded one whose StatefulSet is gone has the members that have files": {etcdcomponent.Membership{Bootstrapped: true}, 0, 0,
			[]controlplanev1.EtcdMemberStatus{voter(0), voter(1), voter(2)}},
		"a founded one has a voter for each pod": {etcdcomponent.Membership{Bootstrapped: true}, 0, 3,
			[]controlplanev1.EtcdMemberStatus{voter(0), voter(1), voter(2)}},
		"one that began again with its last member has that one": {etcdcomponent.Membership{Bootstrapped: true}, 2, 1, []controlplanev1.EtcdMemberStatus{voter(2)}},
		"a member that joins goes on joining": {etcdcomponent.Membership{Bootstrapped: true, Listed: []string{name + "-0", name + "-1"}, Joining: name + "-1"}, 0, 2,
			[]controlplanev1.EtcdMemberStatus{voter(0), {Name: name + "-1", State: controlplanev1.EtcdMemberJoining}}},
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
			set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &test.pods, Ordinals: &appsv1.StatefulSetOrdinals{Start: test.first}}}
			found, err := described(etcdcomponent.Data, in.Cluster, "", files.Data, set)
			if err != nil {
				t.Fatal(err)
			}
			var got []controlplanev1.EtcdMemberStatus
			if found != nil {
				got = found.Members
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

// A controller that restores by itself has no request in spec. After a move the Secret of the backup alone tells that etcd has yet to begin.
func TestAnEtcdThatHasYetToBeginWithASnapshotIsNotTakenForFounded(t *testing.T) {
	replicas := int32(3)
	in := components.Input{Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, Addresses: map[string]string{}}
	in.Spec.Etcd.Data.Replicas, in.Spec.Etcd.Data.QuotaBackendSize = &replicas, ptr.To(resource.MustParse("1Gi"))
	config, err := etcdcomponent.Data.Config(&in, etcdcomponent.Membership{Bootstrapped: true})
	if err != nil {
		t.Fatal(err)
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: names.Object("blue", names.EtcdData)}}
	set.Spec.Replicas = ptr.To[int32](1)
	for file, founded := range map[string]bool{backup.SeedFile: false, backup.FormerFile: true} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: names.Backup("blue")}, Data: map[string][]byte{file: []byte("{}")}}
		host := fake.NewClientBuilder().WithObjects(config.DeepCopyObject().(client.Object), set.DeepCopy(), secret).Build()
		found, err := Find(t.Context(), host, etcdcomponent.Data, "", in.Cluster)
		if err != nil || (found != nil) != founded {
			t.Errorf("with %s it is %+v: %v", file, found, err)
		}
	}
}
