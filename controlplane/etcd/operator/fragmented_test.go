package operator

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// fragmentedEtcd is one of three members that run for a day, and whose databases are free pages for the most part.
type fragmentedEtcd struct {
	*rollingEtcd
	task *Task
}

func TestAMemberWithManyFreePagesStartsAnewOnceADay(t *testing.T) {
	const mebi, last = 1 << 20, "blue-etcd-data-2"
	now := time.Now()
	for name, test := range map[string]struct {
		is      func(*fragmentedEtcd)
		replace string
	}{
		"all have many":    {func(*fragmentedEtcd) {}, last},
		"the last has few": {func(e *fragmentedEtcd) { e.health.Members[2].DatabaseInUse = 500 * mebi }, "blue-etcd-data-1"},
		"the first alone, which has given its lead away": {func(e *fragmentedEtcd) {
			e.health.Members[1].DatabaseInUse, e.health.Members[2].DatabaseInUse = 500*mebi, 500*mebi
			e.health.Members[0].Leader, e.health.Members[1].Leader = false, true
		}, "blue-etcd-data-0"},
		"none has": {func(e *fragmentedEtcd) {
			for i := range e.health.Members {
				e.health.Members[i].DatabaseInUse = 500 * mebi
			}
		}, ""},
		"they started less than a day ago": {func(e *fragmentedEtcd) {
			for i := range e.pods {
				e.pods[i].CreationTimestamp = metav1.NewTime(now.Add(-23 * time.Hour))
			}
		}, ""},
		"one is not ready":                {func(e *fragmentedEtcd) { e.pods[0].Status.Conditions[0].Status = "False" }, ""},
		"one does not answer":             {func(e *fragmentedEtcd) { e.health.Members[0].Answered = false }, ""},
		"one has an etcd that does not":   {func(e *fragmentedEtcd) { e.health.Members[1].Version = "3.5.35" }, ""},
		"volumes have no room for a copy": {func(e *fragmentedEtcd) { e.task.Input.Spec.Etcd.Data.Storage.Size = ptr.To(resource.MustParse("4Gi")) }, ""},
		"volumes began without that room": {func(e *fragmentedEtcd) {
			claim := corev1.PersistentVolumeClaim{}
			claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("4Gi")}
			e.set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim}
		}, ""},
		"their data go with their pods": {func(e *fragmentedEtcd) { e.task.Input.Spec.Etcd.Data.Storage.Type = controlplanev1.EtcdStorageEmptyDir }, ""},
		"a host node is cordoned":       {func(e *fragmentedEtcd) { e.task.Cordoned = []string{"blue-etcd-data-1"} }, ""},
		"not all members have joined":   {func(e *fragmentedEtcd) { e.task.Bootstrapped = false }, ""},
		"there is one member":           {func(e *fragmentedEtcd) { e.task.Input.Spec.Etcd.Data.Replicas = ptr.To[int32](1) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := &fragmentedEtcd{rollingEtcd: newRollingEtcd(now), task: newTask(nil)}
			e.task.Bootstrapped, e.task.AllReady = true, true
			e.task.Input.Spec.Etcd.Data.Storage.Size, e.task.Input.Spec.Etcd.Data.QuotaBackendSize = ptr.To(resource.MustParse("8Gi")), ptr.To(resource.MustParse("2Gi"))
			for i := range e.pods {
				e.pods[i].CreationTimestamp, e.pods[i].Labels[appsv1.ControllerRevisionHashLabelKey] = metav1.NewTime(now.Add(-24*time.Hour)), "new"
				m := &e.health.Members[i]
				m.Listed, m.Started, m.Version, m.DatabaseSize, m.DatabaseInUse = true, true, "3.6.8", 600*mebi, 100*mebi
			}
			test.is(e)
			objects := []client.Object{e.set}
			for i := range e.pods {
				objects = append(objects, &e.pods[i])
			}
			host := fake.NewClientBuilder().WithObjects(objects...).Build()
			e.task.Host.Client, e.task.Host.Live = host, host
			recorder := events.NewFakeRecorder(10)
			o := New(Etcd{Check: func(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error) {
				return e.health, nil
			}}, clocktesting.NewFakeClock(now), recorder)
			report := o.Run(t.Context(), withKeys(t, e.task))
			left, err := hostpods.List(t.Context(), host, client.ObjectKey{Namespace: "team", Name: "blue"})
			if err != nil {
				t.Fatal(err)
			}
			for _, pod := range e.pods {
				if is, want := hostpods.Index(left[names.EtcdData], pod.Name) < 0, pod.Name == test.replace; is != want {
					t.Errorf("pod %s is deleted: %t, and it says %q", pod.Name, is, report.Rollout)
				}
			}
			said := []string{}
			for len(recorder.Events) > 0 {
				said = append(said, <-recorder.Events)
			}
			if tells := slices.ContainsFunc(said, func(text string) bool { return strings.Contains(text, "many free pages") }); tells != (test.replace != "") {
				t.Errorf("the Events are %q", said)
			}
		})
	}
}
