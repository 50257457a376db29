//go:build envtest

package envtest

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func template(namespace string) *controlplanev1.KOKControlPlaneTemplate {
	t := &controlplanev1.KOKControlPlaneTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "template-"}}
	t.Spec.Template.Spec.ImageRepository = "registry.example"
	return t
}

func TestTemplate(t *testing.T) {
	namespace := newNamespace(t)
	cases := []struct {
		name string
		edit func(*controlplanev1.KOKControlPlaneTemplateResource)
		want []string
	}{
		{"good", func(*controlplanev1.KOKControlPlaneTemplateResource) {}, nil},
		{"owned argument", func(r *controlplanev1.KOKControlPlaneTemplateResource) {
			r.Spec.KubeAPIServer.ExtraArgs = []controlplanev1.Arg{arg("etcd-servers", "https://a")}
		}, []string{`spec.template.spec.kubeAPIServer.extraArgs[0].name: Invalid value: "etcd-servers": belongs to the controller: the controller connects the tenant's API server to the tenant's etcd clusters`}},
		{"pod network", func(r *controlplanev1.KOKControlPlaneTemplateResource) {
			r.Spec.Hosting.NetworkMode, r.Spec.Hosting.Exposure.Type = controlplanev1.NetworkModePod, controlplanev1.ExposureLoadBalancer
		}, nil},
		{"another host cluster", func(r *controlplanev1.KOKControlPlaneTemplateResource) { r.Spec.Hosting.KubeconfigRef.Name = "host" }, nil},
		{"konnectivity at a node port", func(r *controlplanev1.KOKControlPlaneTemplateResource) {
			r.Spec.Hosting.Exposure.Type, r.Spec.Addons.Konnectivity.Mode = controlplanev1.ExposureNodePort, controlplanev1.AddonManaged
		}, []string{`spec.template.spec.addons.konnectivity.mode: Invalid value: "Managed": must be None with hosting.exposure.type NodePort: agents come to a port that is a fixed step above the API server's, and node ports cannot be had in pairs; choose hosting.exposure.type LoadBalancer or hosting.networkMode HostNetwork`}},
		{"even etcd", func(r *controlplanev1.KOKControlPlaneTemplateResource) { r.Spec.Etcd.Data.Replicas = ptr.To[int32](2) }, []string{
			`spec.template.spec.etcd.data.replicas: Invalid value: 2: the number of etcd members must be odd (1, 3, 5 or 7): an even one survives no more failures than one less`}},
		{"patch of what a field says", func(r *controlplanev1.KOKControlPlaneTemplateResource) {
			r.Spec.Patches = []controlplanev1.Patch{{Target: controlplanev1.PatchTarget{Component: "kube-scheduler", Kind: "Deployment"}, Patch: "spec: {replicas: 5}"}}
		}, []string{`spec.template.spec.patches[0]: Invalid value: Deployment of kube-scheduler: spec.replicas cannot be patched: set spec.kubeScheduler.replicas`}},
		{"bad label", func(r *controlplanev1.KOKControlPlaneTemplateResource) {
			r.ObjectMeta.Labels = map[string]string{"a": "b c"}
		}, []string{`spec.template.metadata.labels: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			object := template(namespace)
			tc.edit(&object.Spec.Template)
			expectRefusal(t, environment.Client.Create(t.Context(), object), tc.want...)
		})
	}
}

func TestTemplateIsImmutable(t *testing.T) {
	g := NewWithT(t)
	object := template(newNamespace(t))
	g.Expect(environment.Client.Create(t.Context(), object)).To(Succeed())
	object.Labels = map[string]string{"a": "b"}
	g.Expect(environment.Client.Update(t.Context(), object)).To(Succeed())
	object.Spec.Template.Spec.ImageRepository = "another.example"
	expectRefusal(t, environment.Client.Update(t.Context(), object),
		`spec.template.spec: Invalid value: is immutable; create a new KOKControlPlaneTemplate and name it in the ClusterClass`)
}
