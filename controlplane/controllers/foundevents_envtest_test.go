//go:build envtest

package controllers

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// uids are those of the pods and volume claims of a component.
func (tt *tenantTest) uids(component string) map[string]types.UID {
	tt.t.Helper()
	found := map[string]types.UID{}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}} {
		if err := environment.Client.List(tt.t.Context(), list, client.InNamespace(tt.key.Namespace), client.MatchingLabels(names.ComponentLabels(tt.cluster, component))); err != nil {
			tt.t.Fatal(err)
		}
		switch of := list.(type) {
		case *corev1.PodList:
			for _, pod := range of.Items {
				found["pod "+pod.Name] = pod.UID
			}
		case *corev1.PersistentVolumeClaimList:
			for _, claim := range of.Items {
				found["claim "+claim.Name] = claim.UID
			}
		}
	}
	return found
}

func TestEventsBeginAnewWhenAPersonAsksForIt(t *testing.T) {
	tt := newTenantTest(t, lasting)
	tt.tellEtcd(1)
	tt.settle()
	data, events := tt.uids(names.EtcdData), tt.uids(names.EtcdEvents)
	if len(data) != 2 || len(events) != 2 {
		t.Fatalf("there are %v and %v", data, events)
	}
	token, former := tt.eventsToken(), etcdclusters.Status(tt.controlPlane(), names.EtcdEvents)

	// API servers count whole seconds: all that was made until now is older than the next second.
	asked := metav1.NewTime(time.Now().Add(time.Second).Truncate(time.Second))
	waitUntil(t, asked.Time)
	tt.host.stopped[names.EtcdEvents] = true
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Etcd.Events.FoundAnewAt = asked })
	tt.expectUnfounded("before a member runs")
	// A late cache, or a program that took over, has what status said of the former etcd, when the new one has a volume.
	tt.makeEventsClaim()
	controlPlane := tt.controlPlane()
	etcdclusters.SetStatus(controlPlane, former)
	if err := environment.Client.Status().Update(t.Context(), controlPlane); err != nil {
		t.Fatal(err)
	}
	tt.settle()
	tt.expectUnfounded("after status of the former etcd came back")
	delete(tt.host.stopped, names.EtcdEvents)
	tt.settle()
	if got := tt.uids(names.EtcdData); !maps.Equal(got, data) {
		t.Errorf("the etcd with the data is another: %v, then %v", data, got)
	}
	anew := tt.uids(names.EtcdEvents)
	for what, uid := range events {
		if anew[what] == uid || anew[what] == "" {
			t.Errorf("%s is as before, or gone", what)
		}
	}
	status := etcdclusters.Status(tt.controlPlane(), names.EtcdEvents)
	if !status.RestoredAt.Time.Equal(asked.Time) || !ptr.Deref(status.Bootstrapped, false) {
		t.Errorf("its status is %+v", status)
	}
	if got := tt.eventsToken(); got == token || !strings.HasPrefix(got, token) {
		t.Errorf("the token of the new etcd is %q, and was %q", got, token)
	}

	t.Run("once, also when status was lost", func(t *testing.T) {
		tt.t = t
		files := tt.eventsFiles()
		controlPlane := tt.controlPlane()
		controlPlane.Status.Etcd = slices.DeleteFunc(controlPlane.Status.Etcd, func(c controlplanev1.EtcdClusterStatus) bool { return c.Name == "events" })
		if err := environment.Client.Status().Update(t.Context(), controlPlane); err != nil {
			t.Fatal(err)
		}
		tt.settle()
		if got := tt.uids(names.EtcdEvents); !maps.Equal(got, anew) {
			t.Errorf("it was founded again: %v, then %v", anew, got)
		}
		// A file that lets a member begin without data may found a second etcd.
		if tt.eventsFiles().ResourceVersion != files.ResourceVersion {
			t.Error("the files of its members were written again")
		}
	})
	t.Run("and again with a later time", func(t *testing.T) {
		tt.t = t
		later := metav1.NewTime(time.Now().Add(time.Second).Truncate(time.Second))
		waitUntil(t, later.Time)
		tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Etcd.Events.FoundAnewAt = later })
		if got := tt.uids(names.EtcdEvents); len(got) != 2 || maps.Equal(got, anew) {
			t.Errorf("it was not founded again: %v, then %v", anew, got)
		}
	})
	t.Run("and a time that is yet to come stops nothing", func(t *testing.T) {
		tt.t = t
		before, token := tt.uids(names.EtcdEvents), tt.eventsToken()
		tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) {
			s.Etcd.Events.FoundAnewAt = metav1.NewTime(time.Now().Add(2 * time.Minute).Truncate(time.Second))
		})
		tt.expectReconciled("with such a time", "spec.etcd.events.foundAnewAt is")
		if got := tt.uids(names.EtcdEvents); !maps.Equal(got, before) {
			t.Errorf("it was stopped: %v, then %v", before, got)
		}
		// Files that name it would tell, once it has come, that its members have joined.
		if got := tt.eventsToken(); got != token {
			t.Errorf("the token of its members was %q and is %q", token, got)
		}
		if health := tt.controlPlane().Status.EtcdHealth; health != "1/1 1/1" {
			t.Errorf("etcd is %s", health)
		}
	})
}

// expectUnfounded checks that members may begin without data.
func (tt *tenantTest) expectUnfounded(when string) {
	tt.t.Helper()
	status := etcdclusters.Status(tt.controlPlane(), names.EtcdEvents)
	if ptr.Deref(status.Bootstrapped, false) || len(status.Members) > 0 {
		tt.t.Errorf("%s its status is %+v", when, status)
	}
	if file := tt.eventsFiles().Data["blue-etcd-events-0.yaml"]; !strings.Contains(file, "initial-cluster-state: new\n") {
		tt.t.Errorf("%s the file of the first member is\n%s", when, file)
	}
}

// makeEventsClaim makes the volume claim of the first member, as the StatefulSet does before it makes the pod.
func (tt *tenantTest) makeEventsClaim() {
	tt.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: tt.key.Namespace, Name: "kok-data-blue-etcd-events-0", Labels: names.ComponentLabels(tt.cluster, names.EtcdEvents),
	}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if err := environment.Client.Create(tt.t.Context(), claim); err != nil {
		tt.t.Fatal(err)
	}
}

// waitUntil waits for a time, which is less than a second ahead: API servers count seconds.
func waitUntil(t *testing.T, at time.Time) {
	t.Helper()
	select {
	case <-time.After(time.Until(at)):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// eventsFiles are those of the members of the etcd with the events.
func (tt *tenantTest) eventsFiles() *corev1.ConfigMap {
	tt.t.Helper()
	config := &corev1.ConfigMap{}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace(names.Config("blue", names.EtcdEvents)), config); err != nil {
		tt.t.Fatal(err)
	}
	return config
}

// eventsToken is the token of the etcd with the events in the file of its first member.
func (tt *tenantTest) eventsToken() string {
	tt.t.Helper()
	config := tt.eventsFiles()
	for _, line := range strings.Split(config.Data["blue-etcd-events-0.yaml"], "\n") {
		if token, ok := strings.CutPrefix(line, "initial-cluster-token: "); ok {
			return token
		}
	}
	tt.t.Fatal("the file names no token")
	return ""
}
