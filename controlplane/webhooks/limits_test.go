package webhooks

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// controlPlane is one as the API server hands it to the webhook, with defaults.
func controlPlane(edit func(*controlplanev1.KOKControlPlaneSpec)) *controlplanev1.KOKControlPlane {
	c := &controlplanev1.KOKControlPlane{}
	c.Name = "tenant"
	c.Spec.Version = "v1.36.3"
	c.Spec.ImageRepository = "registry.k8s.io"
	c.Spec.Hosting.NodeSelector = map[string]string{controlplanev1.HostNodeLabel: "true"}
	edit(&c.Spec)
	return c
}

func TestLimits(t *testing.T) {
	const (
		selector    = `spec.hosting.nodeSelector: Invalid value: `
		mustContain = `: must contain pool=a, the label of nodes that may carry control planes (--host-node-selector of the manager)`
		registries  = `: must be in docker.io/us or registry.example/k8s (--allowed-image-repositories of the manager)`
	)
	repositories, err := ParseImageRepositories([]string{"us", "registry.example/k8s"})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	poolA := Limits{HostPorts: ports.DefaultRange, HostNodes: map[string]string{"pool": "a"}}
	ours := Limits{HostPorts: ports.DefaultRange, ImageRepositories: repositories}
	type spec = controlplanev1.KOKControlPlaneSpec
	nodes := func(labels map[string]string) func(*spec) {
		return func(s *spec) { s.Hosting.NodeSelector = labels }
	}
	tolerate := func(toleration corev1.Toleration) func(*spec) {
		return func(s *spec) { s.Hosting.Tolerations = []corev1.Toleration{toleration} }
	}
	everything := tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists})
	host := tolerate(corev1.Toleration{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists})
	const poolToleration = `spec.hosting.tolerations[0].key: Invalid value: "kok.cluster.x-k8s.io/port-pool": is the taint of the host nodes of a port pool, ` +
		`which only control planes of that pool tolerate; remove it, or make the control plane with hosting.portPool`
	poolLabel := func(value string) string {
		return `spec.hosting.nodeSelector[kok.cluster.x-k8s.io/port-pool]: Invalid value: "` + value + `": is the label of the host nodes of a port pool, ` +
			`which hosting.portPool of a new control plane chooses; remove it`
	}
	inPool := func(pool string) func(*spec) { return func(s *spec) { s.Hosting.PortPool = pool } }
	labelled := func(pool string) map[string]string {
		return map[string]string{controlplanev1.HostNodeLabel: "true", controlplanev1.PortPoolLabel: pool}
	}
	poolTaint := func(pool string) corev1.Toleration {
		return corev1.Toleration{Key: controlplanev1.PortPoolLabel, Value: pool, Effect: corev1.TaintEffectNoSchedule}
	}
	also := func(edits ...func(*spec)) func(*spec) {
		return func(s *spec) {
			for _, edit := range edits {
				edit(s)
			}
		}
	}
	repository := func(text string) func(*spec) { return func(s *spec) { s.ImageRepository = text } }
	cases := []struct {
		name   string
		limits Limits
		edit   func(*spec)
		want   []string
	}{
		{"defaults", DefaultLimits(), func(*spec) {}, nil},
		{"other nodes", poolA, func(*spec) {}, []string{selector + `{"kok.cluster.x-k8s.io/host-node":"true"}` + mustContain}},
		{"another pool", poolA, nodes(map[string]string{"pool": "b"}), []string{selector + `{"pool":"b"}` + mustContain}},
		{"no nodes", poolA, nodes(map[string]string{}), []string{selector + `{}` + mustContain}},
		{"some of the nodes", poolA, nodes(map[string]string{"pool": "a", "zone": "b"}), nil},
		{"any nodes", Limits{HostPorts: ports.DefaultRange}, nodes(map[string]string{"a": "b"}), nil},

		{"toleration of everything", DefaultLimits(), everything, []string{
			`spec.hosting.tolerations[0].key: Invalid value: "": must be set: without it every taint is tolerated, which the manager allows with --allow-any-toleration only; name the taint`}},
		{"toleration of the host cluster's control plane", DefaultLimits(), host, []string{
			`spec.hosting.tolerations[0].key: Invalid value: "node-role.kubernetes.io/control-plane": is the taint of the host cluster's own control plane, which the manager allows to tolerate with --allow-any-toleration only; remove it`}},
		{"toleration of everything where it is allowed", Limits{HostPorts: ports.DefaultRange, AnyToleration: true}, everything, nil},
		{"toleration of the control plane where it is allowed", Limits{HostPorts: ports.DefaultRange, AnyToleration: true}, host, nil},

		{"a port pool", DefaultLimits(), inPool("north"), nil},
		{"a port pool and its label", DefaultLimits(), also(inPool("north"), nodes(labelled("north"))), nil},
		{"a port pool and the label of another", DefaultLimits(), also(inPool("north"), nodes(labelled("south"))), []string{poolLabel("south")}},
		{"the label of a port pool alone", DefaultLimits(), nodes(labelled("south")), []string{poolLabel("south")}},
		{"a port pool on the pod network", DefaultLimits(), also(inPool("north"), func(s *spec) {
			s.Hosting.NetworkMode, s.Hosting.Exposure.Type = controlplanev1.NetworkModePod, controlplanev1.ExposureNone
		}), []string{`spec.hosting.portPool: Invalid value: "north": is for networkMode HostNetwork: pods on the pod network take no port of a host; remove it`}},
		{"toleration of its port pool", DefaultLimits(), also(inPool("north"), tolerate(poolTaint("north"))), nil},
		{"toleration of another port pool", DefaultLimits(), also(inPool("north"), tolerate(poolTaint("south"))), []string{poolToleration}},
		{"toleration of a port pool by others", DefaultLimits(), tolerate(poolTaint("south")), []string{poolToleration}},
		{"toleration of no port pool", DefaultLimits(), tolerate(poolTaint("")), []string{poolToleration}},
		{"toleration of every port pool", DefaultLimits(), also(inPool("north"), tolerate(corev1.Toleration{Key: controlplanev1.PortPoolLabel, Operator: corev1.TolerationOpExists})), []string{poolToleration}},
		{"toleration of a port pool where it is allowed", Limits{HostPorts: ports.DefaultRange, AnyToleration: true}, tolerate(poolTaint("south")), nil},

		{"another registry", ours, func(*spec) {}, []string{`spec.imageRepository: Invalid value: "registry.k8s.io"` + registries}},
		{"our registry", ours, repository("registry.example/k8s"), nil},
		{"below our registry", ours, repository("registry.example/k8s/mirror"), nil},
		{"the default registry", ours, repository("us"), nil},
		{"the default registry spelled out", ours, repository("docker.io/us/k8s"), nil},
		{"registry with a name like ours", ours, repository("registry.example/k8s-of-them"), []string{`spec.imageRepository: Invalid value: "registry.example/k8s-of-them"` + registries}},
		{"host with a name like ours", ours, repository("registry.example.org/k8s"), []string{`spec.imageRepository: Invalid value: "registry.example.org/k8s"` + registries}},
		{"images", ours, func(s *spec) {
			s.ImageRepository = "registry.example/k8s"
			s.KubeAPIServer.Image = "registry.example/other/kube-apiserver:v1.36.3"
			s.KubeControllerManager.Image = "kube-controller-manager:v1.36.3"
			s.KubeScheduler.Image = "registry.example/k8s/kube-scheduler:v1.36.3"
			s.Etcd.Image = "registry.k8s.io/etcd@sha256:" + strings.Repeat("a", 64)
			s.Addons.Konnectivity.ServerImage = "registry.k8s.io/kas-network-proxy/proxy-server:v0.34.0"
			// They run in the tenant.
			s.Addons.Konnectivity.AgentImage = "registry.k8s.io/kas-network-proxy/proxy-agent:v0.34.0"
			s.Addons.CoreDNS.Image = "registry.k8s.io/coredns/coredns:v1.14.2"
		}, []string{
			`spec.kubeAPIServer.image: Invalid value: "registry.example/other/kube-apiserver:v1.36.3"` + registries,
			`spec.kubeControllerManager.image: Invalid value: "kube-controller-manager:v1.36.3"` + registries,
			`spec.etcd.image: Invalid value: "registry.k8s.io/etcd@sha256:` + strings.Repeat("a", 64) + `"` + registries,
			`spec.addons.konnectivity.serverImage: Invalid value: "registry.k8s.io/kas-network-proxy/proxy-server:v0.34.0"` + registries}},
		{"images of addons without a tag", DefaultLimits(), func(s *spec) {
			s.Addons.KubeProxy.Image, s.Addons.CoreDNS.Image = "proxy", "dns"
			s.Addons.Konnectivity.ServerImage, s.Addons.Konnectivity.AgentImage = "server", "agent"
		}, []string{
			`spec.addons.kubeProxy.image: Invalid value: "proxy": must have a tag or a digest, for example proxy:v1.0.0`,
			`spec.addons.coreDNS.image: Invalid value: "dns": must have a tag or a digest, for example dns:v1.0.0`,
			`spec.addons.konnectivity.serverImage: Invalid value: "server": must have a tag or a digest, for example server:v1.0.0`,
			`spec.addons.konnectivity.agentImage: Invalid value: "agent": must have a tag or a digest, for example agent:v1.0.0`}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			expect := func(errs field.ErrorList, want []string) {
				messages := make([]string, 0, len(errs))
				for _, err := range errs {
					messages = append(messages, err.Error())
				}
				g.Expect(messages).To(ConsistOf(want))
			}
			c := controlPlane(tc.edit)
			expect(validateControlPlane(c, tc.limits, versions.BuiltIn()), tc.want)

			// An update is held to the same, one that changes nothing is not.
			w := &KOKControlPlane{Limits: tc.limits, Versions: &supported.Versions{}}
			_, err := w.ValidateUpdate(t.Context(), c, c.DeepCopy())
			g.Expect(err).NotTo(HaveOccurred())
			after := c.DeepCopy()
			after.Spec.Version = "v1.36.4"
			_, err = w.ValidateUpdate(t.Context(), c, after)
			g.Expect(err == nil).To(Equal(tc.want == nil), "%v", err)
		})
	}
}

func TestTemplatesHaveTheSameLimits(t *testing.T) {
	g := NewWithT(t)
	w := &KOKControlPlaneTemplate{Limits: DefaultLimits(), Versions: &supported.Versions{}}
	template := &controlplanev1.KOKControlPlaneTemplate{}
	_, err := w.ValidateCreate(t.Context(), template)
	g.Expect(err).NotTo(HaveOccurred(), "what is unset in a template has its default later")
	template.Spec.Template.Spec.Hosting.NodeSelector = map[string]string{"pool": "a"}
	_, err = w.ValidateCreate(t.Context(), template)
	g.Expect(err).To(MatchError(ContainSubstring("spec.template.spec.hosting.nodeSelector: Invalid value: {\"pool\":\"a\"}: must contain kok.cluster.x-k8s.io/host-node=true")))
	template.Spec.Template.Spec.Addons.Konnectivity.ServerImage = "server"
	_, err = w.ValidateCreate(t.Context(), template)
	g.Expect(err).To(MatchError(ContainSubstring("spec.template.spec.addons.konnectivity.serverImage: Invalid value")))
}

func TestPortsThatWereClaimedStay(t *testing.T) {
	g := NewWithT(t)
	w := &KOKControlPlane{Limits: DefaultLimits(), Versions: &supported.Versions{}}
	before := controlPlane(func(s *controlplanev1.KOKControlPlaneSpec) { s.Hosting.Ports.First = 15000 })
	_, err := w.ValidateCreate(t.Context(), before)
	g.Expect(err).To(MatchError(ContainSubstring("ports 15000-15019 are not in 20000-29999, the range of control planes (--host-port-range of the manager)")))

	after := before.DeepCopy()
	after.Spec.Version = "v1.36.4"
	_, err = w.ValidateUpdate(t.Context(), before, after)
	g.Expect(err).NotTo(HaveOccurred())

	before.Spec.Hosting.Ports = controlplanev1.PortBlock{}
	_, err = w.ValidateUpdate(t.Context(), before, after)
	g.Expect(err).To(HaveOccurred())
}

func TestParseLimits(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ParseHostNodes("a=b, example.com/c=d")).To(Equal(map[string]string{"a": "b", "example.com/c": "d"}))
	g.Expect(ParseHostNodes("")).To(BeEmpty())
	_, err := ParseHostNodes("a")
	g.Expect(err).To(MatchError(ContainSubstring(`"a" is no list of labels like kok.cluster.x-k8s.io/host-node=true`)))

	g.Expect(ParseImageRepositories(nil)).To(BeEmpty())
	g.Expect(ParseImageRepositories([]string{"*"})).To(BeEmpty())
	g.Expect(ParseImageRepositories([]string{"registry.k8s.io", "localhost:5000/a", "us", "docker.io"})).
		To(Equal([]string{"registry.k8s.io", "localhost:5000/a", "docker.io/us", "docker.io"}))
	for _, wrong := range []string{"", "https://registry.example", "registry.example/", "registry.example/a:v1", "registry.example/*"} {
		_, err := ParseImageRepositories([]string{wrong})
		g.Expect(err).To(HaveOccurred(), wrong)
	}
}
