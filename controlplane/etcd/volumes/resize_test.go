package volumes

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// A person has to mend what the host cluster refuses, and nothing stops for it. The manager retries what may pass.
func TestAClaimIsResizedAndARefusalIsTold(t *testing.T) {
	const field = "spec.etcd.data.storage.size"
	tenant := client.ObjectKey{Namespace: "team", Name: "blue"}
	forbidden := apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), "data-blue-etcd-data-0", errors.New("exceeded quota"))
	for name, test := range map[string]struct {
		grows       bool
		list, patch error
		asks        string
		says        string
		fails       bool
	}{
		"volumes grow":              {grows: true, asks: "2Gi"},
		"volumes do not grow":       {asks: "1Gi", says: field + " is 2Gi: volume claim data-blue-etcd-data-0"},
		"a quota forbids it":        {grows: true, patch: forbidden, asks: "1Gi", says: field + " is 2Gi: have volume claim team/data-blue-etcd-data-0 ask for 2Gi: "},
		"claims must not be listed": {grows: true, list: forbidden, asks: "1Gi", says: field + " is 2Gi: "},
		"the host cluster is away":  {grows: true, patch: errors.New("no route to host"), asks: "1Gi", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "data-blue-etcd-data-0", Labels: names.ComponentLabels(tenant, names.EtcdData)},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: ptr.To("disk"), Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
				Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			}
			class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, AllowVolumeExpansion: &test.grows}
			cluster := fake.NewClientBuilder().WithObjects(claim, class).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if test.list != nil {
						return test.list
					}
					return c.List(ctx, list, options...)
				},
				Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
					if test.patch != nil {
						return test.patch
					}
					return c.Patch(ctx, object, patch, options...)
				},
			}).Build()
			problems, err := Resize(t.Context(), &hostclusters.Host{Client: cluster, Live: cluster}, tenant, names.EtcdData, Data, field, resource.MustParse("2Gi"))
			if (err != nil) != test.fails {
				t.Errorf("it fails with %v", err)
			}
			if (len(problems) > 0) != (test.says != "") || len(problems) > 0 && !strings.HasPrefix(problems[0].Error(), test.says) {
				t.Errorf("it says %v", problems)
			}
			if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
				t.Fatal(err)
			}
			if asks := claim.Spec.Resources.Requests[corev1.ResourceStorage]; asks.String() != test.asks {
				t.Errorf("the claim asks for %s", asks.String())
			}
		})
	}
}

// The volumes for snapshots that members have grow apart from those of their data.
func TestVolumesOfOneKindAreResized(t *testing.T) {
	tenant := client.ObjectKey{Namespace: "team", Name: "blue"}
	asked := func(size string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}
	for kind, want := range map[Kind]map[string]string{
		Data:      {"kok-data-blue-etcd-data-0": "2Gi", "kok-own-snapshots-blue-etcd-data-0": "1Gi"},
		Snapshots: {"kok-data-blue-etcd-data-0": "1Gi", "kok-own-snapshots-blue-etcd-data-0": "2Gi"},
	} {
		cluster := fake.NewClientBuilder().WithObjects(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, AllowVolumeExpansion: ptr.To(true)}).Build()
		for name := range want {
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Labels: names.ComponentLabels(tenant, names.EtcdData)},
				Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("disk"), Resources: corev1.VolumeResourceRequirements{Requests: asked("1Gi")}},
				Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: asked("1Gi")},
			}
			if err := cluster.Create(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
		}
		problems, err := Resize(t.Context(), &hostclusters.Host{Client: cluster, Live: cluster}, tenant, names.EtcdData, kind, "size", resource.MustParse("2Gi"))
		if err != nil || len(problems) > 0 {
			t.Errorf("%s: it says %v: %v", kind, problems, err)
		}
		for name, size := range want {
			claim := &corev1.PersistentVolumeClaim{}
			if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, claim); err != nil {
				t.Fatal(err)
			}
			if asks := claim.Spec.Resources.Requests.Storage(); asks.String() != size {
				t.Errorf("%s: %s asks for %s", kind, name, asks)
			}
		}
	}
}

// The resizer of Kubernetes sets an infeasible size back to pending with each try, and leaves the condition by a kubelet.
func TestWhatTheStorageSaysIsToldBetweenTwoTries(t *testing.T) {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("9Gi")}
	for name, test := range map[string]struct {
		conditions []corev1.PersistentVolumeClaimCondition
		says       string
	}{
		"it grows": {conditions: []corev1.PersistentVolumeClaimCondition{
			{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue},
			{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue, Message: "waiting"},
		}},
		"a kubelet cannot": {says: "the disk is full", conditions: []corev1.PersistentVolumeClaimCondition{
			{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue},
			{Type: corev1.PersistentVolumeClaimNodeResizeError, Status: corev1.ConditionTrue, Message: "the disk is full"},
		}},
		"the resizer cannot": {says: "the pool is full", conditions: []corev1.PersistentVolumeClaimCondition{
			{Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, Message: "the pool is full"},
		}},
		"it says nothing": {says: "NodeResizeError", conditions: []corev1.PersistentVolumeClaimCondition{
			{Type: corev1.PersistentVolumeClaimNodeResizeError, Status: corev1.ConditionTrue},
		}},
		"it is over": {conditions: []corev1.PersistentVolumeClaimCondition{
			{Type: corev1.PersistentVolumeClaimNodeResizeError, Status: corev1.ConditionFalse, Message: "the disk is full"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			claim := corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, Conditions: test.conditions, AllocatedResources: size,
				AllocatedResourceStatuses: map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizePending},
			}}
			claim.Spec.Resources.Requests = size
			claims, err := claimsToResize(t.Context(), fake.NewClientBuilder().Build(), []corev1.PersistentVolumeClaim{claim})
			if err != nil {
				t.Fatal(err)
			}
			problem := Decide("size", size[corev1.ResourceStorage], claims).Problem
			if (problem != "") != (test.says != "") || !strings.Contains(problem, test.says) {
				t.Errorf("it says %q", problem)
			}
		})
	}
}
