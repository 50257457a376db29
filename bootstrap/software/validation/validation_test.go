package validation

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

// valid is a document with one component of each kind.
func valid() *software.Document {
	return &software.Document{
		Name: "workers", Version: "v1.36.3",
		Mirrors: []software.Mirror{{Prefix: "https://dl.k8s.io/", Endpoints: []software.Endpoint{{URL: "https://mirror/"}}}},
		Components: []bootstrapv1.SoftwareComponent{{
			Name: "containerd",
			Variants: []bootstrapv1.SoftwareVariant{{Archive: bootstrapv1.SoftwareArchive{
				URLs: []string{"https://dl.k8s.io/containerd.tar.gz"}, SHA256: strings.Repeat("a", 64),
				Unpack: []bootstrapv1.SoftwareUnpack{{From: "bin/", To: "/usr/local/bin/"}},
			}}},
			Files: []bootstrapv1.SoftwareFile{{Path: "/etc/containerd/config.toml", Content: ptr.To(""), Mode: "0644"}},
			Unit:  bootstrapv1.SoftwareUnit{Name: "containerd.service", Content: "[Service]"},
			Check: bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckCRI},
		}, {
			Name: "driver",
			Variants: []bootstrapv1.SoftwareVariant{{
				Packages:     []bootstrapv1.Package{{Name: "nvidia-driver", Version: "1:2.3-4"}},
				Repositories: []bootstrapv1.PackageRepository{{Name: "nvidia", Source: "deb https://nvidia /"}},
			}},
		}},
		Kernel: bootstrapv1.SoftwareKernel{Modules: []string{"br_netfilter"}, Sysctls: map[string]string{"net.ipv4.ip_forward": "1", "net/ipv4/conf/eth0.1/forwarding": "1"}},
	}
}

func TestValidate(t *testing.T) {
	if err := Validate(*valid()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(d *software.Document)
		want  string
	}{
		"without components":             {func(d *software.Document) { d.Components = nil }, "components: there is none"},
		"with a name that is a path":     {func(d *software.Document) { d.Components[0].Name = "../x" }, `the name "../x"`},
		"with a name twice":              {func(d *software.Document) { d.Components[1].Name = "containerd" }, "is there twice"},
		"with a mirror without endpoint": {func(d *software.Document) { d.Mirrors[0].Endpoints[0].URL = "" }, "mirrors[0].endpoints[0]"},
		"with a digest that is a path":   {func(d *software.Document) { d.Components[0].Variants[0].Archive.SHA256 = "../x" }, "component containerd: variants[0].archive.sha256"},
		"with urls and an image":         {func(d *software.Document) { d.Components[0].Variants[0].Archive.Image = "a/b:c" }, "exactly one of urls and image"},
		"with an archive and packages": {func(d *software.Document) {
			d.Components[0].Variants[0].Packages = d.Components[1].Variants[0].Packages
		}, "exactly one of archive and packages"},
		"with a URL of another scheme":          {func(d *software.Document) { d.Components[0].Variants[0].Archive.URLs[0] = "file:///etc/shadow" }, "archive.urls[0]"},
		"with nothing to unpack":                {func(d *software.Document) { d.Components[0].Variants[0].Archive.Unpack = nil }, "archive.unpack: there is none"},
		"with a folder that goes to a file":     {func(d *software.Document) { d.Components[0].Variants[0].Archive.Unpack[0].To = "/usr/bin/x" }, "it must end with a slash"},
		"with a download that goes to a folder": {func(d *software.Document) { d.Components[0].Variants[0].Archive.Unpack[0].From = "" }, "it must be a file"},
		"with a from that leaves the archive":   {func(d *software.Document) { d.Components[0].Variants[0].Archive.Unpack[0].From = "a/../../b/" }, "must not leave its folder"},
		"with a relative path":                  {func(d *software.Document) { d.Components[0].Files[0].Path = "etc/x" }, "must be absolute"},
		"with a path that has ..":               {func(d *software.Document) { d.Components[0].Files[0].Path = "/etc/../x" }, "must be absolute"},
		"with a path of the program":            {func(d *software.Document) { d.Components[0].Files[0].Path = "/opt/kok-software/state.json" }, "belongs to others"},
		"with the folder of the program":        {func(d *software.Document) { d.Components[0].Files[0].Path = "/opt/kok-software" }, "belongs to others"},
		"with a path of the bootstrap data":     {func(d *software.Document) { d.Components[0].Files[0].Path = "/etc/kok/software.json" }, "belongs to others"},
		"with a path of the kernel":             {func(d *software.Document) { d.Components[0].Files[0].Path = "/proc/sys/x" }, "belongs to others"},
		"with a path of two components":         {func(d *software.Document) { d.Components[1].Files = d.Components[0].Files }, "belongs to the component containerd"},
		"with a setuid bit":                     {func(d *software.Document) { d.Components[0].Files[0].Mode = "4755" }, "setuid"},
		"with a file without content":           {func(d *software.Document) { d.Components[0].Files[0].Content = nil }, "files[0].content"},
		"with a unit that is a path":            {func(d *software.Document) { d.Components[0].Unit.Name = "../x.service" }, "unit.name"},
		"with the content of no unit":           {func(d *software.Document) { d.Components[0].Unit.Name = "" }, "unit.name must be set"},
		"with a check of another machine": {func(d *software.Document) {
			d.Components[0].Check = bootstrapv1.SoftwareCheck{Type: "HTTP", URL: "http://10.0.0.1:1/"}
		}, "check.url"},
		"with a check of no unit":              {func(d *software.Document) { d.Components[0].Check = bootstrapv1.SoftwareCheck{Type: "Unit"} }, "check.unit"},
		"with an unknown check":                {func(d *software.Document) { d.Components[0].Check.Type = "Exec" }, "check.type"},
		"with a package that is an option":     {func(d *software.Document) { d.Components[1].Variants[0].Packages[0].Name = "-o=x" }, "packages[0]"},
		"with a source of two lines":           {func(d *software.Document) { d.Components[1].Variants[0].Repositories[0].Source = "deb a b\ndeb c d" }, "repositories[0]"},
		"with a module that is a path":         {func(d *software.Document) { d.Kernel.Modules[0] = "/tmp/x.ko" }, "kernel.modules"},
		"with a sysctl that leaves its folder": {func(d *software.Document) { d.Kernel.Sysctls["net/../../etc/passwd"] = "x" }, "kernel.sysctls"},
		"with a sysctl of two lines":           {func(d *software.Document) { d.Kernel.Sysctls["net.ipv4.ip_forward"] = "1\nx = 2" }, "must be one line"},
	} {
		t.Run(name, func(t *testing.T) {
			d := valid()
			c.spoil(d)
			if err := Validate(*d); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestRead(t *testing.T) {
	good, err := json.Marshal(valid())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ content, want string }{
		"a document":                        {string(good), ""},
		"an unknown field is refused":       {`{"name": "x", "componnets": []}`, `unknown field "componnets"`},
		"something after it is refused":     {string(good) + "{}", "something after the document"},
		"what is no JSON is refused":        {"name: x", "invalid character"},
		"a document too long is refused":    {strings.Repeat(" ", maxSize) + string(good), "longer than"},
		"a document that is wrong, as well": {`{"name": "x", "version": "v1", "components": []}`, "components: there is none"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "software.json")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Read(path)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || software.ResultOf(err).Reason != software.NotInstalled) {
				t.Error(err)
			}
		})
	}
	t.Run("a document that is not there is named", func(t *testing.T) {
		if _, err := Read("/nowhere/software.json"); err == nil || !strings.Contains(err.Error(), "read /nowhere/software.json") {
			t.Error(err)
		}
	})
}
