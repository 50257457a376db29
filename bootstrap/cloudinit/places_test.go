package cloudinit

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

// place is where a value of others comes into a document.
type place struct {
	// put sets the value, and what it needs around it.
	put func(*Input, string)
	// innocent is a value that is taken, and is nowhere else in the document.
	innocent string
	// unset says that the place, and what belongs to it, is not there when the value is empty.
	unset bool
}

// word is an innocent value for places that take most texts.
const word = "innocent"

// places are by the name of the field in a KOKConfig's spec; "{key}" and "{value}" are those of a map. The last ones are
// no fields of it.
var places = map[string]place{
	"kubelet.nodeLabels{key}":   {put: labels(func(v string) map[string]string { return map[string]string{v: "x"} }), innocent: word},
	"kubelet.nodeLabels{value}": {put: labels(func(v string) map[string]string { return map[string]string{"x": v} }), innocent: word},
	"kubelet.taints[].key":      {put: taint(func(t *corev1.Taint, v string) { t.Key = v }), innocent: word},
	"kubelet.taints[].value":    {put: taint(func(t *corev1.Taint, v string) { t.Value = v }), innocent: word},
	"kubelet.taints[].effect":   {put: taint(func(t *corev1.Taint, v string) { t.Effect = corev1.TaintEffect(v) }), innocent: word},
	"kubelet.extraArgs[].name": {put: func(in *Input, v string) {
		in.Spec.Kubelet.ExtraArgs = []bootstrapv1.Arg{{Name: v, Value: ptr.To("x")}}
	}, innocent: word},
	"kubelet.extraArgs[].value": {put: func(in *Input, v string) { in.Spec.Kubelet.ExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: &v}} }, innocent: word},

	"kubelet.configuration.cgroupDriver":        configured(func(c *kubeletSettings, v string) { c.CgroupDriver = bootstrapv1.CgroupDriver(v) }),
	"kubelet.configuration.evictionHard{key}":   configured(func(c *kubeletSettings, v string) { c.EvictionHard = map[string]string{v: "1"} }),
	"kubelet.configuration.evictionHard{value}": configured(func(c *kubeletSettings, v string) { c.EvictionHard = map[string]string{"a": v} }),
	"kubelet.configuration.kubeReserved{key}":   configured(func(c *kubeletSettings, v string) { c.KubeReserved = map[string]string{v: "1"} }),
	"kubelet.configuration.kubeReserved{value}": configured(func(c *kubeletSettings, v string) { c.KubeReserved = map[string]string{"a": v} }),
	"kubelet.configuration.systemReserved{key}": configured(func(c *kubeletSettings, v string) { c.SystemReserved = map[string]string{v: "1"} }),
	"kubelet.configuration.systemReserved{value}": configured(func(c *kubeletSettings, v string) {
		c.SystemReserved = map[string]string{"a": v}
	}),
	"kubelet.configuration.containerLogMaxSize": configured(func(c *kubeletSettings, v string) { c.ContainerLogMaxSize = v }),
	"kubelet.configuration.resolvConf":          configured(func(c *kubeletSettings, v string) { c.ResolvConf = &v }),
	"kubelet.configuration.cpuManagerPolicy":    configured(func(c *kubeletSettings, v string) { c.CPUManagerPolicy = bootstrapv1.CPUManagerPolicy(v) }),
	"kubelet.configuration.topologyManagerPolicy": configured(func(c *kubeletSettings, v string) {
		c.TopologyManagerPolicy = bootstrapv1.TopologyManagerPolicy(v)
	}),
	"kubelet.configuration.featureGates{key}": configured(func(c *kubeletSettings, v string) { c.FeatureGates = map[string]bool{v: true} }),

	"software.packages[].name":       packaged(func(s *bootstrapv1.SoftwareSpec, v string) { s.Packages[0].Name = v }),
	"software.packages[].version":    packaged(func(s *bootstrapv1.SoftwareSpec, v string) { s.Packages[0].Version = v }).unsetWhenEmpty(),
	"software.repositories[].name":   packaged(func(s *bootstrapv1.SoftwareSpec, v string) { s.Repositories[0].Name = v }),
	"software.repositories[].source": packaged(func(s *bootstrapv1.SoftwareSpec, v string) { s.Repositories[0].Source = v }),
	"software.repositories[].key":    packaged(func(s *bootstrapv1.SoftwareSpec, v string) { s.Repositories[0].Key = v }),
	"software.downloads[].path":      downloaded(func(d *bootstrapv1.Download, v string) { d.Path = v }, "/usr/bin/innocent"),
	"software.downloads[].urls[]":    downloaded(func(d *bootstrapv1.Download, v string) { d.URLs[1] = v }, "https://innocent.example/a"),
	"software.downloads[].sha256":    downloaded(func(d *bootstrapv1.Download, v string) { d.SHA256 = v }, strings.Repeat("1a", 32)),
	"software.downloads[].mode":      downloaded(func(d *bootstrapv1.Download, v string) { d.Mode = v }, "0711"),

	"registryMirrors[].registry":             mirrored(func(m *bootstrapv1.RegistryMirror, v string) { m.Registry = v }, "innocent.example"),
	"registryMirrors[].endpoints[].url":      mirrored(func(m *bootstrapv1.RegistryMirror, v string) { m.Endpoints[0].URL = v }, "https://innocent.example/a"),
	"registryMirrors[].endpoints[].caBundle": mirrored(func(m *bootstrapv1.RegistryMirror, v string) { m.Endpoints[0].CABundle = v }, word).unsetWhenEmpty(),

	"proxy.http":  proxied(func(p *bootstrapv1.ProxySpec, v string) { p.HTTP = v }, "http://innocent.example").unsetWhenEmpty(),
	"proxy.https": proxied(func(p *bootstrapv1.ProxySpec, v string) { p.HTTPS = v }, "http://innocent.example").unsetWhenEmpty(),
	"proxy.no[]":  proxied(func(p *bootstrapv1.ProxySpec, v string) { p.HTTP, p.No = "http://proxy.example", []string{v} }, "innocent.example"),

	"files[].path":        written(func(f *bootstrapv1.File, v string) { f.Path = v }, "/etc/innocent"),
	"files[].owner":       written(func(f *bootstrapv1.File, v string) { f.Owner = v }, "innocent:innocent"),
	"files[].permissions": written(func(f *bootstrapv1.File, v string) { f.Permissions = v }, "0711"),
	"files[].content":     written(func(f *bootstrapv1.File, v string) { f.Content = &v }, word),

	"users[].name":                accounted(func(u *bootstrapv1.User, v string) { u.Name = v }),
	"users[].groups[]":            accounted(func(u *bootstrapv1.User, v string) { u.Groups = []string{"a", v} }),
	"users[].shell":               accounted(func(u *bootstrapv1.User, v string) { u.Shell = v }),
	"users[].sudo":                accounted(func(u *bootstrapv1.User, v string) { u.Sudo = v }),
	"users[].sshAuthorizedKeys[]": accounted(func(u *bootstrapv1.User, v string) { u.SSHAuthorizedKeys = []string{"a", v} }),

	"ntp.servers[]":         {put: func(in *Input, v string) { in.Spec.NTP.Servers = []string{"a", v} }, innocent: word},
	"preKubeletCommands[]":  {put: func(in *Input, v string) { in.Spec.PreKubeletCommands = []string{"a", v} }, innocent: word},
	"postKubeletCommands[]": {put: func(in *Input, v string) { in.Spec.PostKubeletCommands = []string{"a", v} }, innocent: word},

	"what a Secret holds": {put: func(in *Input, v string) {
		key := bootstrapv1.SecretKey{Name: "a", Key: "b"}
		in.Contents = map[bootstrapv1.SecretKey][]byte{key: []byte(v)}
		in.Spec.Files = []bootstrapv1.File{{Path: "/etc/a", ContentFrom: &bootstrapv1.FileSource{Secret: key}}}
	}, innocent: word},
	"URL of an installer": described(func(s *Software, v string) { s.Installers[0].URLs[1] = v }, "https://innocent.example/a"),
	"URL of a mirror of an installer": described(func(s *Software, v string) {
		s.Document.Mirrors = []software.Mirror{{Prefix: "https://a.example/", Endpoints: []software.Endpoint{{URL: v, CABundle: "a"}}}}
	}, "https://innocent.example/a"),
	"file of a KOKSoftware":                       described(func(s *Software, v string) { s.Document.Components[0].Files[0].Content = &v }, word),
	"clusterNetwork.serviceDomain of the Cluster": {put: func(in *Input, v string) { in.Cluster.DNSDomain = v }, innocent: "innocent.example"},
	"clusterNetwork.serviceDomain of the Cluster, with a proxy": {put: func(in *Input, v string) {
		in.Cluster.DNSDomain, in.Spec.Proxy.HTTP = v, "http://proxy.example"
	}, innocent: "innocent.example"},
}

// choices are the texts of a spec that are nowhere in a document: they choose what is.
var choices = []string{"format", "software.mode", "software.ref.name", "software.byVersion", "files[].encoding", "files[].contentFrom.secret.name", "files[].contentFrom.secret.key"}

func (p place) unsetWhenEmpty() place {
	p.unset = true
	return p
}

type kubeletSettings = bootstrapv1.KubeletConfigurationSpec

func labels(of func(string) map[string]string) func(*Input, string) {
	return func(in *Input, v string) { in.Spec.Kubelet.NodeLabels = of(v) }
}

func taint(set func(*corev1.Taint, string)) func(*Input, string) {
	return func(in *Input, v string) {
		in.Spec.Kubelet.Taints = []corev1.Taint{{Key: "a", Value: "b", Effect: corev1.TaintEffectNoExecute}}
		set(&in.Spec.Kubelet.Taints[0], v)
	}
}

func configured(set func(*kubeletSettings, string)) place {
	return place{put: func(in *Input, v string) { set(&in.Spec.Kubelet.Configuration, v) }, innocent: word}
}

func packaged(set func(*bootstrapv1.SoftwareSpec, string)) place {
	return place{put: func(in *Input, v string) {
		in.Spec.Software = bootstrapv1.SoftwareSpec{
			Mode: bootstrapv1.SoftwarePackages, Packages: []bootstrapv1.Package{{Name: "a", Version: "1"}, {Name: "b"}},
			Repositories: []bootstrapv1.PackageRepository{{Name: "a", Source: "deb https://a.example /", Key: "a"}},
		}
		set(&in.Spec.Software, v)
	}, innocent: word}
}

func download(url, path string) bootstrapv1.SoftwareSpec {
	return bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwareURLs, Downloads: []bootstrapv1.Download{{
		Path: path, URLs: []string{url}, SHA256: strings.Repeat("0", 64), Mode: "0755",
	}}}
}

func downloaded(set func(*bootstrapv1.Download, string), innocent string) place {
	return place{put: func(in *Input, v string) {
		in.Spec.Software = download("https://a.example", "/usr/bin/a")
		first := &in.Spec.Software.Downloads[0]
		first.URLs = append(first.URLs, "https://b.example")
		set(first, v)
	}, innocent: innocent}
}

func described(set func(*Software, string), innocent string) place {
	return place{put: func(in *Input, v string) {
		in.Spec.Software = bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwareDescribed, ByVersion: "a"}
		in.Software = &Software{
			Installers: []bootstrapv1.SoftwareInstaller{{
				Architecture: "amd64", SHA256: strings.Repeat("0", 64), URLs: []string{"https://a.example/kok-software", "https://b.example/kok-software"},
			}},
			Document: software.Document{Name: "a-v1.36.3", Version: "v1.36.3", Components: []bootstrapv1.SoftwareComponent{{
				Name: "containerd", Files: []bootstrapv1.SoftwareFile{{Path: "/etc/a", Content: ptr.To("a"), Mode: "0644"}},
			}}},
		}
		set(in.Software, v)
	}, innocent: innocent}
}

func mirrored(set func(*bootstrapv1.RegistryMirror, string), innocent string) place {
	return place{put: func(in *Input, v string) {
		in.Spec.RegistryMirrors = []bootstrapv1.RegistryMirror{{
			Registry: "a.example", Exclusive: ptr.To(true), Endpoints: []bootstrapv1.RegistryEndpoint{{URL: "https://b.example", CABundle: "a"}},
		}}
		set(&in.Spec.RegistryMirrors[0], v)
	}, innocent: innocent}
}

// proxied has packages, too: apt gets the proxies.
func proxied(set func(*bootstrapv1.ProxySpec, string), innocent string) place {
	return place{put: func(in *Input, v string) {
		in.Spec.Software = bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwarePackages, Packages: []bootstrapv1.Package{{Name: "a"}}}
		set(&in.Spec.Proxy, v)
	}, innocent: innocent}
}

func written(set func(*bootstrapv1.File, string), innocent string) place {
	return place{put: func(in *Input, v string) {
		in.Spec.Files = []bootstrapv1.File{{Path: "/etc/a", Content: ptr.To("a")}}
		set(&in.Spec.Files[0], v)
	}, innocent: innocent}
}

func accounted(set func(*bootstrapv1.User, string)) place {
	return place{put: func(in *Input, v string) {
		in.Spec.Users = []bootstrapv1.User{{Name: "a"}}
		set(&in.Spec.Users[0], v)
	}, innocent: word}
}

// texts are the places in a type that hold text, named as the API names them.
func texts(t reflect.Type, name string) []string {
	switch t.Kind() {
	case reflect.String:
		return []string{name}
	case reflect.Pointer:
		return texts(t.Elem(), name)
	case reflect.Slice:
		return texts(t.Elem(), name+"[]")
	case reflect.Map:
		return append(texts(t.Key(), name+"{key}"), texts(t.Elem(), name+"{value}")...)
	case reflect.Struct:
		var found []string
		if t == reflect.TypeFor[metav1.Duration]() || t == reflect.TypeFor[metav1.Time]() {
			return nil
		}
		for i := range t.NumField() {
			field, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			found = append(found, texts(t.Field(i).Type, strings.TrimPrefix(name+"."+field, "."))...)
		}
		return found
	default:
		return nil
	}
}
