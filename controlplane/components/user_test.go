package components_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

func TestFinding11EachNewTenantHasAUserOfItsOwn(t *testing.T) {
	seen := map[int64]string{}
	for name, in := range map[string]components.Input{
		"the first block":                {Cluster: client.ObjectKey{Namespace: "a", Name: "b"}, Ports: ports.Of(1040)},
		"the next block":                 {Cluster: client.ObjectKey{Namespace: "a", Name: "c"}, Ports: ports.Of(1060)},
		"the last block":                 {Cluster: client.ObjectKey{Namespace: "a", Name: "d"}, Ports: ports.Of(65500)},
		"the first block of a pool":      tenantOfAPool("a", "e", "north"),
		"the first block of another":     tenantOfAPool("a", "f", "south"),
		"on the pod network":             podNetworkTenant("a", "b"),
		"on the pod network, another":    podNetworkTenant("a", "c"),
		"on the pod network, other team": podNetworkTenant("b", "c"),
	} {
		user := in.OwnUser()
		if other, taken := seen[user]; taken {
			t.Errorf("%s and %s have the user %d", name, other, user)
		}
		seen[user] = name
		if user < 1_000_000_000 || user > 1<<31-2 {
			t.Errorf("%s: %d may be a user of hosts, or of none", name, user)
		}
		if again := in.OwnUser(); again != user {
			t.Errorf("%s: %d is %d another time", name, user, again)
		}
	}
}

// tenantOfAPool has ports that a tenant of another pool, or of none, may have as well.
func tenantOfAPool(namespace, name, pool string) components.Input {
	in := components.Input{Cluster: client.ObjectKey{Namespace: namespace, Name: name}, Ports: ports.Of(1040)}
	in.Spec.Hosting.PortPool = pool
	return in
}

func podNetworkTenant(namespace, name string) components.Input {
	in := components.Input{Cluster: client.ObjectKey{Namespace: namespace, Name: name}, Ports: ports.OnPodNetwork(6443)}
	in.Spec.Hosting.NetworkMode = controlplanev1.NetworkModePod
	return in
}

// A running tenant's pods must not restart because there are users of tenants.
func TestAUserIsNoInput(t *testing.T) {
	in := podNetworkTenant("a", "b")
	before, err := in.Hash()
	if err != nil {
		t.Fatal(err)
	}
	in.User = in.OwnUser()
	if after, err := in.Hash(); err != nil || after != before {
		t.Errorf("with a user the inputs are %s, not %s: %v", after, before, err)
	}
}

func TestPodsRunAsTheUserOfTheirTenant(t *testing.T) {
	for _, user := range []int64{0, 1_000_020_000} {
		template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}
		in := podNetworkTenant("a", "b")
		in.User = user
		components.FinishPod(template, &in, "kube-scheduler", controlplanev1.ComponentSpec{})
		want := user
		if user == 0 {
			want = 65532
		}
		security := template.Spec.SecurityContext
		for field, got := range map[string]*int64{"runAsUser": security.RunAsUser, "runAsGroup": security.RunAsGroup, "fsGroup": security.FSGroup} {
			if ptr.Deref(got, 0) != want {
				t.Errorf("%s is %d, not %d", field, ptr.Deref(got, 0), want)
			}
		}
	}
}
