package webhooks

import (
	"testing"

	. "github.com/onsi/gomega"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

func patch(component, kind string, patchType controlplanev1.PatchType, text string) controlplanev1.Patch {
	return controlplanev1.Patch{Target: controlplanev1.PatchTarget{Component: component, Kind: kind}, Type: patchType, Patch: text}
}

func sidecar(image string) controlplanev1.Patch {
	return patch("kube-scheduler", "Deployment", controlplanev1.PatchStrategicMerge,
		`{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"`+image+`"}]}}}}`)
}

func toleration(text string) controlplanev1.Patch {
	return patch("kube-scheduler", "Deployment", controlplanev1.PatchJSON6902, "- {op: add, path: /spec/template/spec/tolerations/-, value: "+text+"}")
}

func TestPatches(t *testing.T) {
	const of = "Invalid value: Deployment of kube-scheduler: "
	repositories, err := ParseImageRepositories([]string{"registry.k8s.io", "registry.example/k8s"})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	strict, own := DefaultLimits(), DefaultLimits()
	own.ImageRepositories = repositories
	free := Limits{HostPorts: ports.DefaultRange, AnyToleration: true}
	annotation := patch("kube-scheduler", "Deployment", controlplanev1.PatchStrategicMerge, "metadata: {annotations: {a: b}}")
	replicas := patch("kube-scheduler", "Deployment", controlplanev1.PatchStrategicMerge, "spec: {replicas: 5}")
	cases := []struct {
		name    string
		limits  Limits
		patches []controlplanev1.Patch
		want    []string
	}{
		{"none", strict, nil, nil},
		{"an annotation", strict, []controlplanev1.Patch{annotation}, nil},
		{"the second of two", strict, []controlplanev1.Patch{annotation, replicas}, []string{
			"spec.patches[1]: " + of + "spec.replicas cannot be patched: set spec.kubeScheduler.replicas"}},
		{"one of a component and one of an addon", strict, []controlplanev1.Patch{
			patch("coredns", "Service", controlplanev1.PatchStrategicMerge, "spec: {clusterIP: None}"), replicas,
		}, []string{
			"spec.patches[0]: Invalid value: Service of coredns: spec.clusterIP cannot be patched: kubelets give this address to pods",
			"spec.patches[1]: " + of + "spec.replicas cannot be patched: set spec.kubeScheduler.replicas"}},
		{"an addon that is switched off", strict, []controlplanev1.Patch{
			patch("konnectivity", "DaemonSet", controlplanev1.PatchStrategicMerge, "spec: {updateStrategy: {type: OnDelete}}"),
		}, nil},

		{"a sidecar", strict, []controlplanev1.Patch{sidecar("registry.example/side:v1")}, nil},
		{"a sidecar without an image", strict, []controlplanev1.Patch{sidecar("")}, []string{
			"spec.patches[0]: " + of + "spec.template.spec.containers[side].image: Required value: the image of the added container"}},
		{"a sidecar without a tag", strict, []controlplanev1.Patch{sidecar("registry.example/side")}, []string{
			"spec.patches[0]: " + of + `spec.template.spec.containers[side].image: Invalid value: "registry.example/side": must have a tag or a digest, for example registry.example/side:v1.0.0`}},
		{"a sidecar of another registry", own, []controlplanev1.Patch{sidecar("registry.example/k8s/side:v1"), sidecar("registry.example/side:v1")}, []string{
			"spec.patches[1]: " + of + `spec.template.spec.containers[side].image: Invalid value: "registry.example/side:v1": must be in registry.k8s.io or registry.example/k8s (--allowed-image-repositories of the manager)`}},
		{"a sidecar of an addon", own, []controlplanev1.Patch{
			patch("coredns", "Deployment", controlplanev1.PatchStrategicMerge, `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"registry.example/side:v1"}]}}}}`),
		}, nil},

		{"a toleration", strict, []controlplanev1.Patch{toleration("{key: a, operator: Exists}")}, nil},
		{"a toleration of everything", strict, []controlplanev1.Patch{toleration("{operator: Exists}")}, []string{
			"spec.patches[0]: " + of + `spec.template.spec.tolerations[0].key: Invalid value: "": must be set: without it every taint is tolerated, which the manager allows with --allow-any-toleration only; name the taint`}},
		{"a toleration of everything where it is allowed", free, []controlplanev1.Patch{toleration("{operator: Exists}")}, nil},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			c := controlPlane(func(s *controlplanev1.KOKControlPlaneSpec) { s.Patches = tc.patches })
			messages := []string{}
			for _, err := range validateControlPlane(c, tc.limits, versions.BuiltIn()) {
				messages = append(messages, err.Error())
			}
			g.Expect(messages).To(ConsistOf(tc.want))

			before := c.DeepCopy()
			before.Spec.Patches = nil
			_, err := (&KOKControlPlane{Limits: tc.limits, Versions: &supported.Versions{}}).ValidateUpdate(t.Context(), before, c)
			g.Expect(err == nil).To(Equal(len(tc.want) == 0), "%v", err)

			template := &controlplanev1.KOKControlPlaneTemplate{}
			template.Spec.Template.Spec.ImageRepository = "registry.k8s.io"
			template.Spec.Template.Spec.Patches = tc.patches
			_, err = (&KOKControlPlaneTemplate{Limits: tc.limits, Versions: &supported.Versions{}}).ValidateCreate(t.Context(), template)
			for _, want := range tc.want {
				g.Expect(err).To(MatchError(ContainSubstring("spec.template." + want)))
			}
			g.Expect(err == nil).To(Equal(len(tc.want) == 0), "%v", err)
		})
	}
}

// Whoever runs the manager may take a minor away that control planes have: the limits hold for those too.
func TestPatchesHaveTheirLimitsWhileTheTableLacksTheVersion(t *testing.T) {
	repositories, err := ParseImageRepositories([]string{"registry.k8s.io"})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	limits := DefaultLimits()
	limits.ImageRepositories = repositories
	w := &KOKControlPlane{Limits: limits, Versions: &supported.Versions{}}
	for name, tc := range map[string]struct {
		patch controlplanev1.Patch
		want  string
	}{
		"a sidecar":                      {sidecar("registry.k8s.io/side:v1"), ""},
		"a sidecar of another registry":  {sidecar("registry.example/side:v1"), "--allowed-image-repositories of the manager"},
		"a toleration":                   {toleration("{key: a, operator: Exists}"), ""},
		"a toleration of everything":     {toleration("{operator: Exists}"), "--allow-any-toleration only"},
		"a field that cannot be patched": {patch("kube-scheduler", "Deployment", controlplanev1.PatchStrategicMerge, "spec: {replicas: 5}"), "set spec.kubeScheduler.replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before := controlPlane(func(s *controlplanev1.KOKControlPlaneSpec) { s.Version = "v1.20.0" })
			after := before.DeepCopy()
			after.Spec.Patches = []controlplanev1.Patch{tc.patch}
			_, err := w.ValidateUpdate(t.Context(), before, after)
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
			}
			_, err = w.ValidateCreate(t.Context(), after)
			g.Expect(err).To(MatchError(ContainSubstring(`spec.version: Invalid value: "v1.20.0": v1.20 is not supported`)))
		})
	}
}

// What is wrong elsewhere is said first: a patch is judged by what the rest of the spec is rendered as.
func TestPatchesAreJudgedWhenAllElseIsRight(t *testing.T) {
	c := controlPlane(func(s *controlplanev1.KOKControlPlaneSpec) {
		s.Patches = []controlplanev1.Patch{patch("kube-scheduler", "Deployment", controlplanev1.PatchStrategicMerge, "spec: {replicas: 5}")}
		s.KubeAPIServer.ExtraArgs = []controlplanev1.Arg{{Name: "etcd-servers"}}
	})
	errs := validateControlPlane(c, DefaultLimits(), versions.BuiltIn())
	NewWithT(t).Expect(errs).To(HaveLen(1))
	NewWithT(t).Expect(errs[0].Field).To(Equal("spec.kubeAPIServer.extraArgs[0].name"))
}
