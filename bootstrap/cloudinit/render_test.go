package cloudinit

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

func TestRenderIsDeterministic(t *testing.T) {
	first := render(t, full("v1.36.3"))
	for range 20 {
		if !bytes.Equal(first, render(t, full("v1.36.3"))) {
			t.Fatal("two documents of one input differ")
		}
	}
}

// Which minors there are is the control plane's to say: a table that is changed needs no other program here.
func TestAMinorThatNobodyKnowsGetsWhatTheNewestGets(t *testing.T) {
	if diff := cmp.Diff(contents(t, render(t, minimal("v1.36.0"))), contents(t, render(t, minimal("v1.99.0")))); diff != "" {
		t.Errorf("v1.36 (-) and v1.99 (+) differ:\n%s", diff)
	}
	for _, version := range []string{"v1.34.0-rc.1", "v1.34.0"} {
		if _, err := Render(minimal(version)); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*Input)
		says string
	}{
		"a kubelet that is too old":     {func(in *Input) { in.Version = "v1.33.1" }, "spec.version of the Machine: v1.33 is not supported; the oldest kubelet that machines can have is v1.34"},
		"a malformed version":           {func(in *Input) { in.Version = "v1.36" }, `spec.version of the Machine: "v1.36" is not a Kubernetes version`},
		"no version":                    {func(in *Input) { in.Version = "" }, "spec.version of the Machine"},
		"no token":                      {func(in *Input) { in.Token = "" }, "the bootstrap token is malformed"},
		"no CA":                         {func(in *Input) { in.Cluster.CABundle = nil }, "CA bundle is empty"},
		"no API server":                 {func(in *Input) { in.Cluster.APIServers = nil }, "no address of an API server"},
		"an API server without a port":  {func(in *Input) { in.Cluster.APIServers = []string{"192.0.2.1"} }, `"192.0.2.1": want host:port`},
		"a domain of two words":         {func(in *Input) { in.Cluster.DNSDomain = "a b" }, `spec.clusterNetwork.serviceDomain of the Cluster: "a b"`},
		"no Service range":              {func(in *Input) { in.Cluster.ServiceCIDRs = nil }, "spec.clusterNetwork.services.cidrBlocks"},
		"a small Service range":         {func(in *Input) { in.Cluster.ServiceCIDRs = []string{"10.96.0.0/30"} }, "10.96.0.0/30"},
		"another format":                {func(in *Input) { in.Spec.Format = "ignition" }, `spec.format: "ignition"`},
		"a file of the controller":      {file(CAFile), "spec.files[0].path"},
		"a file below the controller's": {file("/etc/kok/bootstrap/zz"), "spec.files[0].path"},
		"a file twice": {func(in *Input) {
			in.Spec.Files = []bootstrapv1.File{{Path: "/etc/a", Content: ptr.To("")}, {Path: "/etc/a", Content: ptr.To("")}}
		}, "spec.files[1].path"},
		"a relative path":           {file("etc/a"), `spec.files[0].path: "etc/a": must be an absolute path`},
		"a file without content":    {func(in *Input) { in.Spec.Files = []bootstrapv1.File{{Path: "/etc/a"}} }, "exactly one of content and contentFrom"},
		"a Secret that nobody read": {func(in *Input) { in.Spec = full("v1.36.3").Spec }, "Secret motd with key text was not read"},
		"content that is no base64": {func(in *Input) {
			in.Spec.Files = []bootstrapv1.File{{Path: "/etc/a", Encoding: bootstrapv1.Base64, Content: ptr.To("!")}}
		}, "is not base64"},
		"content that is no gzip": {func(in *Input) {
			in.Spec.Files = []bootstrapv1.File{{Path: "/etc/a", Encoding: bootstrapv1.GzipBase64, Content: ptr.To("aGVsbG8=")}}
		}, "is not gzip"},
		"an argument of the controller": {func(in *Input) {
			in.Spec.Kubelet.ExtraArgs = []bootstrapv1.Arg{{Name: "authorization-mode", Value: ptr.To("AlwaysAllow")}}
		}, "belongs to the controller"},
		"a download over a file of ours": {func(in *Input) { in.Spec.Software = download("https://a.example", onworker.Kubeconfig) }, "software.downloads[0].path"},
	} {
		t.Run(name, func(t *testing.T) {
			in := minimal("v1.36.3")
			test.edit(&in)
			data, err := Render(in)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v and %d bytes, want %q", err, len(data), test.says)
			}
			if err != nil && strings.Contains(err.Error(), "0123456789abcdef") {
				t.Errorf("the message has the token: %v", err)
			}
		})
	}
}

func file(path string) func(*Input) {
	return func(in *Input) { in.Spec.Files = []bootstrapv1.File{{Path: path, Content: ptr.To("")}} }
}

func TestTokenIsFoundInTheDocument(t *testing.T) {
	for name, in := range map[string]Input{"minimal": minimal("v1.36.3"), "full": full("v1.34.1")} {
		if got, err := Token(render(t, in)); err != nil || got != testToken {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, data := range map[string]string{
		"nothing": "", "no YAML": "{", "another document": "#cloud-config\nruncmd: []\n", "an unknown key": "#cloud-config\nbootcmd: []\n",
	} {
		if got, err := Token([]byte(data)); err == nil {
			t.Errorf("%s: found %q", name, got)
		}
	}
}

// TestOtherCAsChangeNothingElse compares what Trust makes with what Render makes for the same CAs.
func TestOtherCAsChangeNothingElse(t *testing.T) {
	for name, in := range map[string]Input{"minimal": minimal("v1.36.3"), "full": full("v1.34.1"), "software": withSoftware("v1.35.4")} {
		t.Run(name, func(t *testing.T) {
			before := render(t, in)
			if same, err := Trust(before, in.Cluster.CABundle); err != nil || !bytes.Equal(same, before) {
				t.Errorf("the same CAs change the document: %v", err)
			}
			in.Cluster.CABundle = []byte("-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n")
			after, err := Trust(before, in.Cluster.CABundle)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(after, render(t, in)) {
				t.Errorf("the document is not that of these CAs:\n%s", after)
			}
		})
	}
	if _, err := Trust([]byte("#cloud-config\nruncmd: []\n"), []byte("a")); err == nil {
		t.Error("another document was changed")
	}
}

// TestWiringCannotBeReplaced keeps the list of owned arguments and what is rendered in step.
func TestWiringCannotBeReplaced(t *testing.T) {
	in := full("v1.36.3")
	in.Spec.Kubelet.ExtraArgs = nil
	args, err := kubeletArgs(&in)
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if _, owned := OwnedArg(name); !owned {
			t.Errorf("--%s can be replaced", name)
		}
	}
}

// TestFilesCannotBeReplaced keeps the list of reserved paths and what is rendered in step.
func TestFilesCannotBeReplaced(t *testing.T) {
	for path := range contents(t, render(t, minimal("v1.36.3"))) {
		if !ReservedPath(path) {
			t.Errorf("%s can be replaced", path)
		}
	}
	// The unit that is rendered takes its environment from it, and the infrastructure provider puts the provider ID there.
	if !ReservedPath(onworker.KubeletEnvironment) {
		t.Errorf("%s can be replaced", onworker.KubeletEnvironment)
	}
}

// TestNoCredentialButTheToken: a machine joins with its own identity, never with an administrator's.
func TestNoCredentialButTheToken(t *testing.T) {
	for path, content := range contents(t, render(t, minimal("v1.36.3"))) {
		if strings.Contains(content, "PRIVATE KEY") || strings.Contains(content, "client-key") || strings.Contains(content, "client-certificate") {
			t.Errorf("%s has a credential", path)
		}
		if strings.Contains(content, testToken) != (path == BootstrapKubeconfig) {
			t.Errorf("%s: the token is at another place than %s", path, BootstrapKubeconfig)
		}
	}
}

// TestCredentialsInURLsAreForRootAlone: every user of a machine can ask systemd for the command lines of a unit.
func TestCredentialsInURLsAreForRootAlone(t *testing.T) {
	in := minimal("v1.36.3")
	in.Spec.Software = download("https://us3r:p4ss@a.example/kubelet", "/usr/bin/kubelet")
	in.Spec.Proxy.HTTPS = "http://us3r:p4ss@proxy.example:3128"
	data := render(t, in)
	d, err := unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range d.WriteFiles {
		holds := strings.Contains(contents(t, data)[file.Path], "p4ss")
		if wanted := file.Path == onworker.ProxyFile || file.Path == downloadPrefix+"00.urls"; holds != wanted || holds && file.Permissions != "0600" {
			t.Errorf("%s, which has mode %s, holds credentials: %t", file.Path, file.Permissions, holds)
		}
	}
}

func TestNoTaintIsThereTwice(t *testing.T) {
	uninitialized := corev1.Taint{Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}
	dedicated := corev1.Taint{Key: "dedicated", Value: "edge", Effect: corev1.TaintEffectNoSchedule}
	evicts := corev1.Taint{Key: uninitialized.Key, Effect: corev1.TaintEffectNoExecute}
	valued := corev1.Taint{Key: uninitialized.Key, Value: "true", Effect: corev1.TaintEffectNoSchedule}
	for name, test := range map[string]struct{ set, want []corev1.Taint }{
		"Cluster API's is there by itself":      {nil, []corev1.Taint{uninitialized}},
		"and besides others":                    {[]corev1.Taint{dedicated}, []corev1.Taint{uninitialized, dedicated}},
		"and besides one with another effect":   {[]corev1.Taint{evicts}, []corev1.Taint{uninitialized, evicts}},
		"it is not added when it is set":        {[]corev1.Taint{dedicated, uninitialized}, []corev1.Taint{dedicated, uninitialized}},
		"nor when it is set with another value": {[]corev1.Taint{valued}, []corev1.Taint{valued}},
	} {
		t.Run(name, func(t *testing.T) {
			in := minimal("v1.36.3")
			in.Spec.Kubelet.Taints = test.set
			configuration := &kubeletv1beta1.KubeletConfiguration{}
			if err := yaml.UnmarshalStrict([]byte(contents(t, render(t, in))[KubeletConfiguration]), configuration); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, configuration.RegisterWithTaints); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMirrorsAreAskedInOrder(t *testing.T) {
	hosts := contents(t, render(t, full("v1.36.3")))[registryDir+"registry.k8s.io/hosts.toml"]
	var parsed struct {
		Server string                  `toml:"server"`
		Host   map[string]registryHost `toml:"host"`
	}
	if err := toml.Unmarshal([]byte(hosts), &parsed); err != nil {
		t.Fatal(err)
	}
	first, second := strings.Index(hosts, "host.'https://z.example/k8s'"), strings.Index(hosts, "host.'http://a.example:5000'")
	if len(parsed.Host) != 2 || first < 0 || second < first || parsed.Server != "https://z.example/k8s" {
		t.Errorf("%+v in %s", parsed, hosts)
	}
}

func TestFilesThatStepsFetchAreListed(t *testing.T) {
	in := full("v1.36.3")
	second := in.Spec.Software.Downloads[0]
	second.Path = "/usr/bin/<b>"
	in.Spec.Software.Downloads = append(in.Spec.Software.Downloads, second)
	var listed []string
	if err := json.Unmarshal([]byte(contents(t, render(t, in))[onworker.DownloadsFile]), &listed); err != nil {
		t.Fatal(err)
	}
	want := []string{"/usr/local/bin/kok-apiserver-lb", "/usr/local/bin/kok-apiserver-lb.part", "/usr/bin/<b>", "/usr/bin/<b>.part"}
	if !slices.Equal(listed, want) {
		t.Errorf("%q", listed)
	}
	if !strings.Contains(string(asset("fetch.sh")), "$path"+partSuffix) {
		t.Error("the fetch program writes elsewhere")
	}
	if list, there := contents(t, render(t, minimal("v1.36.3")))[onworker.DownloadsFile]; there {
		t.Errorf("without downloads there is %q", list)
	}
}

func TestStepsAreInOrder(t *testing.T) {
	lines := bootstrapLines(contents(t, render(t, full("v1.36.3"))))
	last := -1
	for _, step := range []string{
		"/bin/rm --force " + onworker.SentinelFile, "/bin/sh " + fetchProgram, "/bin/sh -e " + onworker.StepDir + "pre-kubelet-00", "/bin/mkdir --parents --mode=0755 /var/lib/kubelet/pki", "systemctl daemon-reload",
		"systemctl restart containerd.service", "systemctl restart kok-apiserver-lb.service", "systemctl restart kubelet.service",
		"/bin/sh -e " + onworker.StepDir + "post-kubelet-00", "/usr/bin/install",
	} {
		at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, step) })
		if at <= last {
			t.Errorf("step %q is number %d, after %d", step, at, last)
		}
		last = at
	}
	if last != len(lines)-1 {
		t.Errorf("the sentinel file is not the last step of %v", lines)
	}
}
