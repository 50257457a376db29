package cloudinit

import (
	"maps"
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
)

// places puts a value at every place of a KOKConfig that takes free text, one at a time.
var places = map[string]struct {
	put func(*Input, string)
	// get finds the value in the document; nil for places that only files show.
	get func(*document, map[string]string) string
}{
	"file content": {
		func(in *Input, v string) { in.Spec.Files = []bootstrapv1.File{{Path: "/etc/a", Content: &v}} },
		func(_ *document, files map[string]string) string { return files["/etc/a"] },
	},
	"file content from a Secret": {
		func(in *Input, v string) {
			key := bootstrapv1.SecretKey{Name: "a", Key: "b"}
			in.Contents = map[bootstrapv1.SecretKey][]byte{key: []byte(v)}
			in.Spec.Files = []bootstrapv1.File{{Path: "/etc/a", ContentFrom: &bootstrapv1.FileSource{Secret: key}}}
		},
		func(_ *document, files map[string]string) string { return files["/etc/a"] },
	},
	"file path": {
		func(in *Input, v string) { in.Spec.Files = []bootstrapv1.File{{Path: v, Content: ptr.To("")}} },
		func(d *document, _ map[string]string) string { return d.WriteFiles[len(d.WriteFiles)-1].Path },
	},
	"file owner": {
		func(in *Input, v string) {
			in.Spec.Files = []bootstrapv1.File{{Path: "/etc/a", Owner: v, Content: ptr.To("")}}
		},
		func(d *document, _ map[string]string) string { return d.WriteFiles[len(d.WriteFiles)-1].Owner },
	},
	"command before": {
		func(in *Input, v string) { in.Spec.PreKubeletCommands = []string{v} },
		func(_ *document, files map[string]string) string {
			return strings.TrimSuffix(files[stepDir+"pre-kubelet-00"], "\n")
		},
	},
	"command after": {
		func(in *Input, v string) { in.Spec.PostKubeletCommands = []string{v} },
		func(_ *document, files map[string]string) string {
			return strings.TrimSuffix(files[stepDir+"post-kubelet-00"], "\n")
		},
	},
	"user": {
		func(in *Input, v string) { in.Spec.Users = []bootstrapv1.User{{Name: v}} },
		func(d *document, _ map[string]string) string { return d.Users[0].Name },
	},
	"sudo rule": {
		func(in *Input, v string) { in.Spec.Users = []bootstrapv1.User{{Name: "a", Sudo: v}} },
		func(d *document, _ map[string]string) string { return d.Users[0].Sudo },
	},
	"SSH key": {
		func(in *Input, v string) {
			in.Spec.Users = []bootstrapv1.User{{Name: "a", SSHAuthorizedKeys: []string{v}}}
		},
		func(d *document, _ map[string]string) string { return d.Users[0].SSHAuthorizedKeys[0] },
	},
	"NTP server": {
		func(in *Input, v string) { in.Spec.NTP.Servers = []string{v} },
		func(d *document, _ map[string]string) string { return d.NTP.Servers[0] },
	},
	"package": {
		func(in *Input, v string) {
			in.Spec.Software = bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwarePackages, Packages: []bootstrapv1.Package{{Name: v}}}
		},
		func(d *document, _ map[string]string) string { return d.Packages[0].name },
	},
	"package version": {
		func(in *Input, v string) {
			in.Spec.Software = bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwarePackages, Packages: []bootstrapv1.Package{{Name: "a", Version: v}}}
		},
		func(d *document, _ map[string]string) string { return d.Packages[0].version },
	},
	"repository": {
		func(in *Input, v string) {
			in.Spec.Software = bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwarePackages, Repositories: []bootstrapv1.PackageRepository{{Name: "a", Source: v, Key: v}}}
		},
		func(d *document, _ map[string]string) string { return d.APT.Sources["a"].Source },
	},
	"download URL": {
		func(in *Input, v string) { in.Spec.Software = download(v, "/usr/bin/a") },
		func(_ *document, files map[string]string) string {
			return strings.TrimSuffix(files[downloadPrefix+"00.urls"], "\n")
		},
	},
	"download path": {
		func(in *Input, v string) { in.Spec.Software = download("https://a.example", v) },
		func(_ *document, files map[string]string) string { return fetchArg(files, 4) },
	},
	"node label": {
		func(in *Input, v string) { in.Spec.Kubelet.NodeLabels = map[string]string{"a": v} },
		func(_ *document, files map[string]string) string {
			return argValue(files, "--node-labels=a=")
		},
	},
	"kubelet argument": {
		func(in *Input, v string) { in.Spec.Kubelet.ExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: &v}} },
		func(_ *document, files map[string]string) string { return argValue(files, "--v=") },
	},
	"kubelet argument's name": {
		func(in *Input, v string) {
			in.Spec.Kubelet.ExtraArgs = []bootstrapv1.Arg{{Name: v, Value: ptr.To("x")}}
		},
		func(_ *document, files map[string]string) string {
			words := kubeletWords(files)
			return strings.TrimSuffix(strings.TrimPrefix(words[len(words)-1], "--"), "=x")
		},
	},
	"taint": {
		func(in *Input, v string) {
			in.Spec.Kubelet.Taints = []corev1.Taint{{Key: v, Effect: corev1.TaintEffectNoSchedule}}
		},
		func(_ *document, files map[string]string) string {
			return keptConfiguration(files).RegisterWithTaints[1].Key
		},
	},
	"eviction threshold": {
		func(in *Input, v string) {
			in.Spec.Kubelet.Configuration.EvictionHard = map[string]string{"memory.available": v}
		},
		func(_ *document, files map[string]string) string {
			return keptConfiguration(files).EvictionHard["memory.available"]
		},
	},
	"mirror": {
		func(in *Input, v string) {
			in.Spec.RegistryMirrors = []bootstrapv1.RegistryMirror{{Registry: "a.example", Endpoints: []bootstrapv1.RegistryEndpoint{{URL: v}}}}
		},
		func(_ *document, files map[string]string) string {
			var hosts struct {
				Host map[string]registryHost `toml:"host"`
			}
			if err := toml.Unmarshal([]byte(files[registryDir+"a.example/hosts.toml"]), &hosts); err != nil {
				return err.Error()
			}
			for name := range hosts.Host {
				return name
			}
			return ""
		},
	},
	"registry": {
		func(in *Input, v string) {
			in.Spec.RegistryMirrors = []bootstrapv1.RegistryMirror{{Registry: v, Endpoints: []bootstrapv1.RegistryEndpoint{{URL: "https://b.example"}}}}
		},
		func(_ *document, files map[string]string) string {
			for path := range files {
				if rest, found := strings.CutPrefix(path, registryDir); found {
					return strings.TrimSuffix(rest, "/hosts.toml")
				}
			}
			return ""
		},
	},
	"proxy": {
		func(in *Input, v string) { in.Spec.Proxy.HTTP = v },
		func(_ *document, files map[string]string) string {
			line, _, _ := strings.Cut(files[proxyFile], "\n")
			return strings.TrimSuffix(strings.TrimPrefix(line, `HTTP_PROXY="`), `"`)
		},
	},
}

func download(url, path string) bootstrapv1.SoftwareSpec {
	return bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwareURLs, Downloads: []bootstrapv1.Download{{
		Path: path, URLs: []string{url}, SHA256: strings.Repeat("0", 64), Mode: "0755",
	}}}
}

// bootstrapLines are the command lines of the bootstrap unit.
func bootstrapLines(files map[string]string) []string {
	var lines []string
	for line := range strings.SplitSeq(files[unitDir+bootstrapUnit], "\n") {
		if command, found := strings.CutPrefix(line, "ExecStart="); found {
			lines = append(lines, command)
		}
	}
	return lines
}

func fetchArg(files map[string]string, index int) string {
	words, err := split(bootstrapLines(files)[1])
	if err != nil {
		return err.Error()
	}
	return words[index]
}

func kubeletWords(files map[string]string) []string {
	lines := strings.Split(strings.TrimSpace(files[kubeletDropIn]), "\n")
	line, found := strings.CutSuffix(lines[len(lines)-1], " $KUBELET_EXTRA_ARGS")
	words, err := split(strings.TrimPrefix(line, "ExecStart="))
	if err != nil || !found || len(lines) != 4 {
		return []string{"the drop-in is another"}
	}
	return words
}

func argValue(files map[string]string, prefix string) string {
	for _, word := range kubeletWords(files) {
		if value, found := strings.CutPrefix(word, prefix); found {
			return value
		}
	}
	return "there is no " + prefix
}

func keptConfiguration(files map[string]string) *kubeletv1beta1.KubeletConfiguration {
	parsed := &kubeletv1beta1.KubeletConfiguration{RegisterWithTaints: make([]corev1.Taint, 2)}
	if err := yaml.UnmarshalStrict([]byte(files[KubeletConfiguration]), parsed); err != nil {
		parsed.RegisterWithTaints[1].Key = err.Error()
	}
	return parsed
}

// FuzzValuesStayInTheirPlace gives a value to every place in turn. Either it is refused, or it is at its
// place, whole, and everything else is as it is with an innocent value.
func FuzzValuesStayInTheirPlace(f *testing.F) {
	names := slices.Sorted(maps.Keys(places))
	data, err := Render(minimal("v1.36.3"))
	if err != nil {
		f.Fatal(err)
	}
	seeds := []string{
		"plain", "/usr/bin/plain", "https://plain.example/a", "", " ", "a b", "two\nlines", "a\nruncmd:\n- [rm, -rf, /]\n", "\"", "'", "`id`", "$(id)", "${HOME}", "%h%%",
		"#cloud-config", "## template: jinja\n{{ ds }}", "- a", "a: b", "&a *a", "!!binary a", "|\n a", "---\n...", "\\", "\\\"", "\\n", "a\\", "\x00", "\xff", "\u2028", "\u0085", "\r\n",
		"; rm -rf /", "a ; b", "../../etc/shadow", "/etc/../etc/shadow", "/etc/kok-apiserver-lb/config.yaml", "/etc/a b", "a,b=c", "--config=/a", "https://a.example/'\"]\n[x]", "https://a.example/\\", "a:b", "root:root",
		"true", "null", "1e3", "0x10", "~", "deb https://a.example / \ndeb x", "ALL=(ALL) ALL\nother ALL=ALL", "/usr/bin/$$a%i", "https://a.example/$a%i",
	}
	for place := range names {
		for _, seed := range seeds {
			f.Add(uint8(place), seed)
		}
	}
	f.Fuzz(func(t *testing.T, place uint8, value string) {
		name := names[int(place)%len(names)]
		in := minimal("v1.36.3")
		places[name].put(&in, value)
		rendered, err := Render(in)
		if err != nil {
			return
		}
		d, err := unmarshal(rendered)
		if err != nil {
			t.Fatalf("%s: %q: %v", name, value, err)
		}
		files := contents(t, rendered)
		want := value
		switch {
		case value == "" && name == "file owner":
			want = "root:root"
		case value == "" && name == "proxy":
			return
		}
		if got := places[name].get(d, files); got != want {
			t.Errorf("%s: %q became %q", name, value, got)
		}
		sameOtherwise(t, name, value, d, files, contents(t, data))
	})
}

// sameOtherwise compares what the machine does with what it does by default.
func sameOtherwise(t *testing.T, name, value string, d *document, files, before map[string]string) {
	t.Helper()
	want := [][]string{{"systemctl", "daemon-reload"}, {"systemctl", "start", "kok-bootstrap.service"}}
	if diff := cmp.Diff(want, d.RunCmd); diff != "" {
		t.Errorf("%s: %q changes runcmd: %s", name, value, diff)
	}
	for path, content := range before {
		switch path {
		case kubeletDropIn, KubeletConfiguration, unitDir + bootstrapUnit:
		default:
			if files[path] != content {
				t.Errorf("%s: %q changes %s", name, value, path)
			}
		}
	}
	var programs []string
	for _, line := range bootstrapLines(files) {
		words, err := split(line)
		if err != nil {
			t.Errorf("%s: %q: %q: %v", name, value, line, err)
			continue
		}
		programs = append(programs, words[0])
	}
	var usual []string
	for _, line := range bootstrapLines(before) {
		usual = append(usual, strings.Fields(line)[0])
	}
	if extra := len(programs) - len(usual); extra > 1 || !slices.Equal(slices.DeleteFunc(slices.Clone(programs), func(p string) bool { return p == "/bin/sh" }), usual) {
		t.Errorf("%s: %q runs %v", name, value, programs)
	}
}
