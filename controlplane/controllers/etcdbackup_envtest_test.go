//go:build envtest

package controllers

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/webhooks"
)

// Pods of members follow their StatefulSet. Those of the data etcd restart when backups are switched on or off, or go to
// another claim; nothing restarts for the rest. The manager's own judgement of stored renderings lets all of it pass.
func TestBackupsRestartTheDataEtcdAlone(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, lasting)
	tt.program.EtcdAgentImage, tt.program.Allow = "registry.k8s.io/kok-etcd-agent:1", webhooks.DefaultLimits().Allow
	tt.settle()
	was := tt.etcdGenerations()
	for _, step := range []struct {
		does       string
		do         func(b *controlplanev1.EtcdSpec)
		restarts   bool
		containers int
	}{
		{"backups are switched on", func(s *controlplanev1.EtcdSpec) {
			s.Backup = &controlplanev1.EtcdBackupSpec{
				Recipients: []string{"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"},
				Store: controlplanev1.EtcdSnapshotStore{S3: &controlplanev1.S3StoreSpec{
					Endpoint: "https://s3.example", Bucket: "snapshots", CredentialsRef: controlplanev1.SecretReference{Name: "s3"},
				}},
			}
		}, true, 2},
		{"they are taken more often", func(s *controlplanev1.EtcdSpec) { s.Backup.Every = &metav1.Duration{Duration: 10 * time.Minute} }, false, 2},
		{"they go to another bucket", func(s *controlplanev1.EtcdSpec) { s.Backup.Store.S3.Bucket = "another" }, false, 2},
		{"they go to a claim", func(s *controlplanev1.EtcdSpec) {
			s.Backup.Store = controlplanev1.EtcdSnapshotStore{ClaimName: "snapshots"}
		}, true, 2},
		{"they are switched off", func(s *controlplanev1.EtcdSpec) { s.Backup = nil }, true, 1},
	} {
		edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { step.do(&c.Spec.Etcd) })
		tt.settle()
		now := tt.etcdGenerations()
		if restarts := now[0] != was[0]; restarts != step.restarts {
			t.Errorf("%s: it is %t that the data etcd restarts", step.does, restarts)
		}
		if now[1] != was[1] {
			t.Errorf("%s: the etcd of events restarts", step.does)
		}
		was = now
		workload, service := &appsv1.StatefulSet{}, &corev1.Service{}
		if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-etcd-data"), workload); err != nil {
			t.Fatal(err)
		}
		if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-etcd-data-0"), service); err != nil {
			t.Fatal(err)
		}
		if got := len(workload.Spec.Template.Spec.Containers); got != step.containers {
			t.Errorf("%s: members have %d containers, want %d", step.does, got, step.containers)
		}
		if last := service.Spec.Ports[len(service.Spec.Ports)-1]; len(service.Spec.Ports) != step.containers+1 || (last.Name == backup.Container) != (step.containers == 2) {
			t.Errorf("%s: a member's Service has the ports %v", step.does, service.Spec.Ports)
		}
	}
}

// Nobody can change the volumes of a StatefulSet: what it was made with stays, whatever store takes the place.
func TestVolumesForSnapshotsStayWithTheirStatefulSet(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		lasting(c)
		keepSnapshotsOnMembers(c)
	})
	tt.program.EtcdAgentImage, tt.program.Allow = "registry.k8s.io/kok-etcd-agent:1", webhooks.DefaultLimits().Allow
	tt.settle()
	was := tt.etcdGenerations()
	for _, step := range []struct {
		does     string
		do       func(b *controlplanev1.EtcdSpec)
		restarts bool
	}{
		{"the volumes grow", func(s *controlplanev1.EtcdSpec) { s.Backup.Store.PerMember.Size = ptr.To(resource.MustParse("8Gi")) }, false},
		{"snapshots go to a claim", func(s *controlplanev1.EtcdSpec) {
			s.Backup.Store = controlplanev1.EtcdSnapshotStore{ClaimName: "snapshots"}
		}, true},
		{"snapshots go to a bucket", func(s *controlplanev1.EtcdSpec) {
			s.Backup.Store = controlplanev1.EtcdSnapshotStore{S3: &controlplanev1.S3StoreSpec{
				Endpoint: "https://s3.example", Bucket: "snapshots", CredentialsRef: controlplanev1.SecretReference{Name: "s3"},
			}}
		}, true},
		{"backups are switched off", func(s *controlplanev1.EtcdSpec) { s.Backup = nil }, true},
	} {
		edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { step.do(&c.Spec.Etcd) })
		tt.settle()
		now := tt.etcdGenerations()
		if restarts := now[0] != was[0]; restarts != step.restarts || now[1] != was[1] {
			t.Errorf("%s: it is %t that the data etcd restarts", step.does, restarts)
		}
		was = now
		workload := &appsv1.StatefulSet{}
		if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-etcd-data"), workload); err != nil {
			t.Fatal(err)
		}
		if volumes := etcdcomponent.SnapshotVolumes(workload); volumes == nil || volumes.Size.String() != "4Gi" {
			t.Errorf("%s: members have %+v", step.does, volumes)
		}
		if reconciled := conditions.Get(tt.controlPlane(), conditionsv1.ReconciledCondition); reconciled.Reason == conditionsv1.ReconcileFailedReason {
			t.Errorf("%s: it says %s", step.does, reconciled.Message)
		}
	}
}

// etcdGenerations count the changes of both StatefulSets.
func (tt *tenantTest) etcdGenerations() (generations [2]int64) {
	tt.t.Helper()
	for i, component := range []string{names.EtcdData, names.EtcdEvents} {
		workload := &appsv1.StatefulSet{}
		if err := environment.Client.Get(tt.t.Context(), tt.inNamespace("blue-"+component), workload); err != nil {
			tt.t.Fatal(err)
		}
		generations[i] = workload.Generation
	}
	return generations
}

// keepSnapshotsOnMembers has each member of the data etcd keep snapshots on a volume of its own.
func keepSnapshotsOnMembers(c *controlplanev1.KOKControlPlane) {
	c.Spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{
		Recipients: []string{personKey},
		Store:      controlplanev1.EtcdSnapshotStore{PerMember: &controlplanev1.PerMemberStoreSpec{Size: ptr.To(resource.MustParse("4Gi"))}},
	}
}
