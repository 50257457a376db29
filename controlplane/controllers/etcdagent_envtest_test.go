//go:build envtest

package controllers

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/webhooks"
)

// Every release has another agent. What runs waits for a change of its own, or for spec.rollout.after.
func TestAnotherAgentRestartsNoEtcd(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, lasting)
	tt.settle()
	upgrade := func(image string) {
		tt.program = newProgram(t, &gate{})
		tt.program.EtcdAgentImage = image
		// Nobody may name the registry of the agent but the manager's own flag.
		limits := webhooks.DefaultLimits()
		var err error
		if limits.ImageRepositories, err = webhooks.ParseImageRepositories([]string{"registry.k8s.io"}); err != nil {
			t.Fatal(err)
		}
		tt.program.Allow = limits.Allow
		tt.tellEtcd(1)
		tt.settle()
	}
	was := tt.etcdPods()
	for _, step := range []struct {
		does string
		do   func()
		want string
	}{
		{"an older release made it", func() {}, ""},
		{"the first release with an agent comes", func() { upgrade("registry.example/kok/kok-etcd-agent:1") }, ""},
		{"the next release comes", func() { upgrade("registry.example/kok/kok-etcd-agent:2") }, ""},
		{"spec.rollout.after passes", func() {
			edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Rollout.After = metav1.NewTime(time.Now()) })
			tt.settle()
			was = tt.etcdPods()
		}, "registry.example/kok/kok-etcd-agent:2"},
		{"another release comes", func() { upgrade("registry.example/kok/kok-etcd-agent:3") }, "registry.example/kok/kok-etcd-agent:2"},
	} {
		step.do()
		for _, component := range []string{names.EtcdData, names.EtcdEvents} {
			workload := &appsv1.StatefulSet{}
			if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-"+component), workload); err != nil {
				t.Fatal(err)
			}
			image := ""
			for _, container := range workload.Spec.Template.Spec.InitContainers {
				image += container.Image
			}
			if image != step.want {
				t.Errorf("%s: %s has the agent %q, want %q", step.does, component, image, step.want)
			}
		}
		if now := tt.etcdPods(); now != was {
			t.Errorf("%s: the pods of etcd were %v, and are %v", step.does, was, now)
		}
	}
}

// etcdPods are the UIDs of the first members' pods.
func (tt *tenantTest) etcdPods() (uids [2]string) {
	tt.t.Helper()
	for i, component := range []string{names.EtcdData, names.EtcdEvents} {
		pod := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
		if err := environment.Client.Get(tt.t.Context(), tt.inNamespace("blue-"+component+"-0"), pod); err != nil {
			tt.t.Fatal(err)
		}
		uids[i] = string(pod.UID)
	}
	return uids
}
