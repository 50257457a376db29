package restore

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func TestMembersOfTheNewEtcdBeginOnTheVolumesOfFormerOnes(t *testing.T) {
	tenant := client.ObjectKey{Namespace: "team", Name: "blue"}
	claim := func(name, component, former string) client.Object {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: name, Labels: names.ComponentLabels(tenant, component)}}
		if former != "" {
			c.Annotations = map[string]string{recovery.FormerAnnotation: former}
		}
		return c
	}
	const data = "kok-data-blue-etcd-data-"
	withoutLabels := claim(data+"3", names.EtcdData, "")
	withoutLabels.SetLabels(nil)
	for name, test := range map[string]struct {
		automatic bool
		want      map[string]string
	}{
		"but for members that a person gave up":      {false, map[string]string{data + "0": second, data + "1": first, data + "3": second}},
		"all of them, when the controller begins it": {true, map[string]string{data + "0": second, data + "1": first, data + "2": second, data + "3": second}},
	} {
		t.Run(name, func(t *testing.T) {
			byName := func(o client.Object) []string { return []string{o.GetName()} }
			host := fake.NewClientBuilder().WithIndex(&corev1.PersistentVolumeClaim{}, metav1.ObjectNameField, byName).WithObjects(claim(data+"0", names.EtcdData, ""), claim(data+"1", names.EtcdData, first), claim(data+"2", names.EtcdData, ""),
				claim("kok-data-blue-etcd-events-0", names.EtcdEvents, ""), withoutLabels).Build()
			of := &Facts{ControlPlane: &controlplanev1.KOKControlPlane{}, Cluster: tenant, Host: &hostclusters.Host{Client: host, Live: host}}
			of.ControlPlane.Spec.Etcd.GivenUp = []string{"blue-etcd-data-2"}
			p := &Progress{Record: rebuild.Record{Restore: second, Members: []rebuild.Member{{Name: "blue-etcd-data-0"}, {Name: "blue-etcd-data-3"}}}}
			if test.automatic {
				p.automatic = &rebuild.Ask{}
			}
			var versions []string
			for range 2 { // Done again, it writes nothing.
				if err := p.keepVolumes(t.Context(), of); err != nil {
					t.Fatal(err)
				}
				list := &corev1.PersistentVolumeClaimList{}
				if err := host.List(t.Context(), list); err != nil {
					t.Fatal(err)
				}
				var now []string
				for _, c := range list.Items {
					now = append(now, c.Name+c.ResourceVersion)
					if got := c.Annotations[recovery.FormerAnnotation]; got != test.want[c.Name] {
						t.Errorf("%s is of %q, want %q", c.Name, got, test.want[c.Name])
					}
				}
				if versions != nil && !slices.Equal(now, versions) {
					t.Errorf("they were %v and are %v", versions, now)
				}
				versions = now
			}
		})
	}
}
