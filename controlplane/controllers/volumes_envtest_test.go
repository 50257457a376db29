//go:build envtest

package controllers

import (
	"context"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// volumesTest is a tenant whose volumes of etcd are of a StorageClass of its own.
type volumesTest struct {
	*tenantTest
	class *storagev1.StorageClass
}

func newVolumesTest(t *testing.T, grows bool) *volumesTest {
	t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "volumes-"}, Provisioner: "kubernetes.io/no-provisioner", AllowVolumeExpansion: &grows,
	}
	if err := environment.Client.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Client.Delete(context.Background(), class); err != nil {
			t.Error(err)
		}
	})
	vt := &volumesTest{class: class}
	vt.tenantTest = newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		for _, etcd := range []*controlplanev1.EtcdClusterSpec{&c.Spec.Etcd.Data, &c.Spec.Etcd.Events.EtcdClusterSpec} {
			etcd.Storage = controlplanev1.EtcdStorageSpec{Size: ptr.To(resource.MustParse("8Gi")), StorageClassName: &class.Name}
		}
	})
	vt.settle()
	for _, claim := range vt.claims(names.EtcdData) {
		vt.bind(&claim)
	}
	return vt
}

func (vt *volumesTest) claims(component string) []corev1.PersistentVolumeClaim {
	vt.t.Helper()
	list := &corev1.PersistentVolumeClaimList{}
	if err := environment.Client.List(vt.t.Context(), list, client.InNamespace(vt.key.Namespace), client.MatchingLabels(names.ComponentLabels(vt.cluster, component))); err != nil {
		vt.t.Fatal(err)
	}
	if len(list.Items) == 0 {
		vt.t.Fatal("there are no volume claims of " + component)
	}
	return list.Items
}

// bind gives a claim a volume of the size that it asks for, as a provisioner does.
func (vt *volumesTest) bind(claim *corev1.PersistentVolumeClaim) {
	vt.t.Helper()
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
	if err := environment.Client.Status().Update(vt.t.Context(), claim); err != nil {
		vt.t.Fatal(err)
	}
}

func (vt *volumesTest) want(size string) {
	vt.t.Helper()
	vt.ask(size)
	vt.settle()
}

func (vt *volumesTest) ask(size string) {
	vt.t.Helper()
	edit(vt.t, vt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Etcd.Data.Storage.Size = ptr.To(resource.MustParse(size))
	})
}

// expectAsked compares what claims ask for.
func (vt *volumesTest) expectAsked(component, size string) {
	vt.t.Helper()
	for _, claim := range vt.claims(component) {
		if got := claim.Spec.Resources.Requests.Storage(); got.Cmp(resource.MustParse(size)) != 0 {
			vt.t.Errorf("%s asks for %s, want %s", claim.Name, got, size)
		}
	}
}

// expectTold looks for parts of what is told of the control plane; without any, all must be well.
func (vt *volumesTest) expectTold(parts ...string) {
	vt.t.Helper()
	got := conditions.Get(vt.controlPlane(), conditionsv1.ReconciledCondition)
	if (got.Status == metav1.ConditionTrue) != (len(parts) == 0) ||
		slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(got.Message, part) }) {
		vt.t.Errorf("it says %s: %s; want %q", got.Status, got.Message, parts)
	}
}

func TestVolumesOfEtcdGrow(t *testing.T) {
	vt := newVolumesTest(t, true)
	set, key := &appsv1.StatefulSet{}, vt.inNamespace("blue-"+names.EtcdData)
	if err := environment.Client.Get(t.Context(), key, set); err != nil {
		t.Fatal(err)
	}
	before := set.DeepCopy()

	vt.want("16Gi")
	vt.expectAsked(names.EtcdData, "16Gi")
	vt.expectAsked(names.EtcdEvents, "8Gi")
	vt.expectTold()
	if err := environment.Client.Get(t.Context(), key, set); err != nil {
		t.Fatal(err)
	}
	if set.UID != before.UID || set.Generation != before.Generation {
		t.Error("its StatefulSet is another one")
	}

	// The claim of a new member begins with the size in the StatefulSet.
	newest := vt.claims(names.EtcdData)[0]
	vt.delete(&newest)
	newest.ObjectMeta = metav1.ObjectMeta{Namespace: newest.Namespace, Name: newest.Name, Labels: newest.Labels}
	newest.Spec.Resources.Requests = set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests
	status := newest.Status
	if err := client.IgnoreAlreadyExists(environment.Client.Create(t.Context(), &newest)); err != nil {
		t.Fatal(err)
	}
	newest.Status = status
	vt.settle()
	for _, claim := range vt.claims(names.EtcdData) {
		vt.bind(&claim)
	}
	vt.settle()
	vt.expectAsked(names.EtcdData, "16Gi")
}

func TestVolumesThatCannotGrowAreTold(t *testing.T) {
	vt := newVolumesTest(t, false)
	vt.want("16Gi")
	vt.expectAsked(names.EtcdData, "8Gi")
	vt.expectTold("spec.etcd.data.storage.size is 16Gi", "StorageClass "+vt.class.Name+" lets no volume grow", "set the size back to 8Gi")
	if !conditions.IsTrue(vt.controlPlane(), conditionsv1.AvailableCondition) {
		t.Error("it is not available any more")
	}

	t.Run("until their class lets them", func(t *testing.T) {
		vt.class.AllowVolumeExpansion = ptr.To(true)
		if err := environment.Client.Update(t.Context(), vt.class); err != nil {
			t.Fatal(err)
		}
		vt.settle()
		vt.expectAsked(names.EtcdData, "16Gi")
		vt.expectTold()
	})
	t.Run("and never shrink", func(t *testing.T) {
		vt.want("4Gi")
		vt.expectAsked(names.EtcdData, "16Gi")
		vt.expectTold("spec.etcd.data.storage.size is 4Gi", "no volume shrinks")
	})
	t.Run("what the API server refuses is told", func(t *testing.T) {
		ranges := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: vt.key.Namespace, Name: "small-volumes"}}
		ranges.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypePersistentVolumeClaim, Max: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}}}
		if err := environment.Client.Create(t.Context(), ranges); err != nil {
			t.Fatal(err)
		}
		vt.ask("32Gi")
		if err := vt.reconcile(); err != nil { // Each reconcile asks again: it does not come to rest.
			t.Fatal(err)
		}
		vt.expectAsked(names.EtcdData, "16Gi")
		vt.expectTold("spec.etcd.data.storage.size is 32Gi", "volume claim", "forbidden", "20Gi")
	})
}

// The API server selects claims by their names, whatever their labels are.
func TestAClaimThatLostItsLabelsIsFoundByItsName(t *testing.T) {
	t.Parallel()
	tenant := client.ObjectKey{Namespace: newNamespace(t), Name: "blue"}
	for member, labels := range map[string]map[string]string{
		"blue-etcd-data-0": names.ComponentLabels(tenant, names.EtcdData), "blue-etcd-data-1": nil, "blue-etcd-data-2": nil,
	} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: etcdcomponent.Claim(member), Labels: labels}}
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		if err := environment.Client.Create(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
	}
	claims, err := operator.VolumeClaims(t.Context(), environment.Client, tenant, names.EtcdData, []string{"blue-etcd-data-0", "blue-etcd-data-1", "blue-etcd-data-3"})
	var found []string
	for i := range claims {
		found = append(found, operator.MemberOf(&claims[i]))
	}
	if want := []string{"blue-etcd-data-0", "blue-etcd-data-1"}; err != nil || !slices.Equal(found, want) {
		t.Errorf("volumes have %v, want %v: %v", found, want, err)
	}
}
