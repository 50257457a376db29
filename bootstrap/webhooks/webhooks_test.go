package webhooks

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

type spec = bootstrapv1.KOKConfigSpec

// causes are the parts of a refusal, each as "field: message".
func causes(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonInvalid {
		t.Fatalf("want a refusal, got %v", err)
	}
	var list []string
	for _, cause := range status.Status().Details.Causes {
		list = append(list, cause.Field+": "+cause.Message)
	}
	return list
}

const labelRule = `kubelet must not give its Node a label of kubernetes.io or k8s.io but those of kubelet.kubernetes.io, node.kubernetes.io and a few well-known ones; set it in the metadata of Machines instead`

func kubelet(edit func(*bootstrapv1.KubeletSpec)) func(*spec) {
	return func(s *spec) { edit(&s.Kubelet) }
}

func configured(edit func(*bootstrapv1.KubeletConfigurationSpec)) func(*spec) {
	return func(s *spec) { edit(&s.Kubelet.Configuration) }
}

func downloaded(path, url string) func(*spec) {
	return func(s *spec) {
		s.Software = bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwareURLs, Downloads: []bootstrapv1.Download{{Path: path, URLs: []string{url}, SHA256: strings.Repeat("0", 64)}}}
	}
}

var refusals = []struct {
	name string
	edit func(*spec)
	want []string
}{
	{"everything at its default", func(*spec) {}, nil},

	{"labels of its own and allowed ones", kubelet(func(k *bootstrapv1.KubeletSpec) {
		k.NodeLabels = map[string]string{"pool": "edge", "node.kubernetes.io/rack": "r1", "topology.kubernetes.io/zone": "a"}
	}), nil},
	{"a role", kubelet(func(k *bootstrapv1.KubeletSpec) {
		k.NodeLabels = map[string]string{"node-role.kubernetes.io/worker": ""}
	}), []string{`spec.kubelet.nodeLabels[node-role.kubernetes.io/worker]: Invalid value: "": ` + labelRule}},
	{"a restricted label", kubelet(func(k *bootstrapv1.KubeletSpec) {
		k.NodeLabels = map[string]string{"node-restriction.kubernetes.io/a": "b"}
	}), []string{`spec.kubelet.nodeLabels[node-restriction.kubernetes.io/a]: Invalid value: "b": ` + labelRule}},
	{"a taint", kubelet(func(k *bootstrapv1.KubeletSpec) {
		k.Taints = []corev1.Taint{{Key: "dedicated", Value: "edge", Effect: corev1.TaintEffectNoSchedule}}
	}), nil},
	{"a taint without an effect", kubelet(func(k *bootstrapv1.KubeletSpec) { k.Taints = []corev1.Taint{{Key: "dedicated"}} }), []string{
		`spec.kubelet.taints[0].effect: Unsupported value: "": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`}},
	{"a taint twice", kubelet(func(k *bootstrapv1.KubeletSpec) {
		k.Taints = []corev1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "a", Value: "b", Effect: "NoSchedule"}}
	}), []string{`spec.kubelet.taints[1]: Duplicate value: "a:NoSchedule"`}},
	{"an argument", kubelet(func(k *bootstrapv1.KubeletSpec) { k.ExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: ptr.To("4")}} }), nil},
	{"an argument of the controller", kubelet(func(k *bootstrapv1.KubeletSpec) {
		k.ExtraArgs = []bootstrapv1.Arg{{Name: "authentication-token-webhook", Value: ptr.To("false")}}
	}), []string{`spec.kubelet.extraArgs[0].name: Invalid value: "authentication-token-webhook": belongs to the controller: the controller sets who may use kubelet's API`}},
	{"an argument with a field", kubelet(func(k *bootstrapv1.KubeletSpec) {
		k.ExtraArgs = []bootstrapv1.Arg{{Name: "max-pods", Value: ptr.To("5")}}
	}), []string{`spec.kubelet.extraArgs[0].name: Invalid value: "max-pods": belongs to the controller: use kubelet.configuration.maxPods`}},
	{"an argument of two lines", kubelet(func(k *bootstrapv1.KubeletSpec) {
		k.ExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: ptr.To("4\nExecStart=/bin/sh")}}
	}), []string{`spec.kubelet.extraArgs[0].value: Invalid value: "4\nExecStart=/bin/sh": must be one line of text`}},

	{"thresholds", configured(func(c *bootstrapv1.KubeletConfigurationSpec) {
		c.EvictionHard = map[string]string{"memory.available": "100Mi", "nodefs.inodesFree": "5%"}
		c.KubeReserved = map[string]string{"cpu": "100m", "pid": "100"}
	}), nil},
	{"an unknown signal", configured(func(c *bootstrapv1.KubeletConfigurationSpec) { c.EvictionHard = map[string]string{"disk": "10%"} }), []string{
		`spec.kubelet.configuration.evictionHard[disk]: Unsupported value: "disk": supported values: "memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "containerfs.available", "containerfs.inodesFree", "pid.available"`}},
	{"a threshold above everything", configured(func(c *bootstrapv1.KubeletConfigurationSpec) {
		c.EvictionHard = map[string]string{"memory.available": "101%"}
	}), []string{`spec.kubelet.configuration.evictionHard[memory.available]: Invalid value: "101%": must be a quantity or a percentage from 0% to 100%, for example 100Mi or 10%`}},
	{"an unknown resource", configured(func(c *bootstrapv1.KubeletConfigurationSpec) { c.SystemReserved = map[string]string{"gpu": "1"} }), []string{
		`spec.kubelet.configuration.systemReserved[gpu]: Unsupported value: "gpu": supported values: "cpu", "memory", "ephemeral-storage", "pid"`}},
	{"a malformed quantity", configured(func(c *bootstrapv1.KubeletConfigurationSpec) { c.KubeReserved = map[string]string{"cpu": "much"} }), []string{
		`spec.kubelet.configuration.kubeReserved[cpu]: Invalid value: "much": must be a quantity, for example 100m or 256Mi`}},
	{"a log without size", configured(func(c *bootstrapv1.KubeletConfigurationSpec) { c.ContainerLogMaxSize = "0" }), []string{
		`spec.kubelet.configuration.containerLogMaxSize: Invalid value: "0": must be a positive number of bytes, for example 10Mi`}},
	{"a part longer than the whole", configured(func(c *bootstrapv1.KubeletConfigurationSpec) {
		c.ShutdownGracePeriod, c.ShutdownGracePeriodCriticalPods = &metav1.Duration{Duration: time.Second}, &metav1.Duration{Duration: time.Minute}
	}), []string{`spec.kubelet.configuration.shutdownGracePeriodCriticalPods: Invalid value: "1m0s": must be from 0 to shutdownGracePeriod, 1s`}},

	{"a download", downloaded("/usr/local/bin/kubelet", "https://a.example/kubelet"), nil},
	{"a download by FTP", downloaded("/usr/local/bin/kubelet", "ftp://a.example/kubelet"), []string{
		`spec.software.downloads[0].urls[0]: Invalid value: "ftp://a.example/kubelet": must be a URL that starts with https:// or http://`}},
	{"a download beside its path", downloaded("/usr/../etc/passwd", "https://a.example/kubelet"), []string{
		`spec.software.downloads[0].path: Invalid value: "/usr/../etc/passwd": must be an absolute path of a file, without . and .. and double slashes`}},

	{"mirrors", func(s *spec) {
		s.RegistryMirrors = []bootstrapv1.RegistryMirror{{Registry: "registry.k8s.io", Endpoints: []bootstrapv1.RegistryEndpoint{{URL: "https://a.example:5000/k8s"}}}}
	}, nil},
	{"a registry with a path", func(s *spec) {
		s.RegistryMirrors = []bootstrapv1.RegistryMirror{{Registry: "registry.k8s.io/../a", Endpoints: []bootstrapv1.RegistryEndpoint{{URL: "a.example"}}}}
	}, []string{
		`spec.registryMirrors[0].registry: Invalid value: "registry.k8s.io/../a": must be a host with an optional port, for example registry.k8s.io, or _default`,
		`spec.registryMirrors[0].endpoints[0].url: Invalid value: "a.example": must be a URL that starts with https:// or http://`}},
	{"a proxy without a scheme", func(s *spec) { s.Proxy.HTTPS = "proxy.example:3128" }, []string{
		`spec.proxy.https: Invalid value: "proxy.example:3128": must be a URL that starts with https:// or http://`}},
	{"exceptions from no proxy", func(s *spec) { s.Proxy.No = []string{"a.example, b.example"} }, []string{
		`spec.proxy.no[0]: Invalid value: "a.example, b.example": must be one host, domain or CIDR`,
		`spec.proxy.https: Required value: no is set; set http or https too, or remove no`}},

	{"a file of the controller", func(s *spec) {
		s.Files = []bootstrapv1.File{{Path: "/etc/kok/apiserver-lb.yaml", Content: ptr.To("")}}
	}, []string{`spec.files[0].path: Invalid value: "/etc/kok/apiserver-lb.yaml": belongs to the controller; choose another`}},
	{"a file with a blank in its path", func(s *spec) {
		s.Files = []bootstrapv1.File{{Path: "/etc/a b", Content: ptr.To("")}}
	}, []string{`spec.files[0].path: Invalid value: "/etc/a b": must have no blanks, quotes and characters beyond ASCII`}},
	{"content with another encoding", func(s *spec) {
		s.Files = []bootstrapv1.File{{Path: "/etc/a", Content: ptr.To("hello!"), Encoding: bootstrapv1.Base64}}
	}, []string{`spec.files[0].content: Invalid value: encoding is base64, but the content is not base64: illegal base64 data at input byte 5`}},
	{"a key of two lines", func(s *spec) {
		s.Users = []bootstrapv1.User{{Name: "a", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA a\nssh-ed25519 BBBB b"}}}
	}, []string{`spec.users[0].sshAuthorizedKeys[0]: Invalid value: "ssh-ed25519 AAAA a\nssh-ed25519 BBBB b": must be one public key on one line, for example ssh-ed25519 AAAA... name`}},
	{"a time server with a port", func(s *spec) { s.NTP.Servers = []string{"ntp.example:123"} }, []string{
		`spec.ntp.servers[0]: Invalid value: "ntp.example:123": must be a DNS name or an IP address`}},
}

func TestRefusals(t *testing.T) {
	for _, test := range refusals {
		t.Run(test.name, func(t *testing.T) {
			config := &bootstrapv1.KOKConfig{}
			test.edit(&config.Spec)
			_, err := (&KOKConfig{}).ValidateCreate(t.Context(), config)
			if diff := cmp.Diff(test.want, causes(t, err)); diff != "" {
				t.Errorf("KOKConfig: %s", diff)
			}
			template := &bootstrapv1.KOKConfigTemplate{}
			template.Spec.Template.Spec = config.Spec
			_, err = (&KOKConfigTemplate{}).ValidateCreate(t.Context(), template)
			var got []string
			for _, cause := range causes(t, err) {
				got = append(got, strings.Replace(cause, "spec.template.spec.", "spec.", 1))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("KOKConfigTemplate: %s", diff)
			}
		})
	}
}

func TestAnOldConfigCanBeUsedUnderNewRules(t *testing.T) {
	before := &bootstrapv1.KOKConfig{}
	before.Spec.NTP.Servers = []string{"a b"}
	after := before.DeepCopy()
	after.Labels = map[string]string{"a": "b"}
	if _, err := (&KOKConfig{}).ValidateUpdate(t.Context(), before, after); err != nil {
		t.Errorf("a label was refused: %v", err)
	}
	after.Spec.PreKubeletCommands = []string{"true"}
	if _, err := (&KOKConfig{}).ValidateUpdate(t.Context(), before, after); err == nil {
		t.Error("a change of a malformed spec was allowed")
	}
	after.DeletionTimestamp = ptr.To(metav1.Now())
	if _, err := (&KOKConfig{}).ValidateUpdate(t.Context(), before, after); err != nil {
		t.Errorf("a change while it is deleted was refused: %v", err)
	}
}

func TestTemplatesAreImmutableButInADryRunOfATopology(t *testing.T) {
	before := &bootstrapv1.KOKConfigTemplate{}
	after := before.DeepCopy()
	after.Spec.Template.Spec.PreKubeletCommands = []string{"true"}
	update := func(dry bool, annotations map[string]string) error {
		after := after.DeepCopy()
		after.Annotations = annotations
		ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{DryRun: &dry}})
		_, err := (&KOKConfigTemplate{}).ValidateUpdate(ctx, before, after)
		return err
	}
	topology := map[string]string{clusterv1.TopologyDryRunAnnotation: ""}
	const refusal = "spec.template.spec: Invalid value: is immutable; create a new KOKConfigTemplate and name it in the MachineDeployment or the ClusterClass"
	if err := update(true, topology); err != nil {
		t.Errorf("a topology's dry run: %v", err)
	}
	for name, err := range map[string]error{
		"a change": update(false, nil), "a dry run": update(true, nil), "a change with a topology's annotation": update(false, topology),
	} {
		if got := causes(t, err); len(got) != 1 || got[0] != refusal {
			t.Errorf("%s: %v", name, got)
		}
	}
	labelled := before.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	if _, err := (&KOKConfigTemplate{}).ValidateUpdate(t.Context(), before, labelled); err != nil {
		t.Errorf("a label was refused: %v", err)
	}
}
