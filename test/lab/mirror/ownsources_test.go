package mirror

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

// ownOf is a mirror with small programs.
func ownOf(t *testing.T) Own {
	t.Helper()
	programs := t.TempDir()
	for _, program := range []string{installer, balancer, "hello"} {
		write(t, filepath.Join(programs, program), program)
	}
	return Own{
		Sources:       Sources{Kubernetes: []string{kubernetes, "v1.35.4"}, Programs: programs, ReleaseVersion: "v0.2.0", WithoutPackages: true},
		ProgramImages: map[string]string{"example.com/hello:one": filepath.Join(programs, "hello"), "example.com/hello:two": filepath.Join(programs, "hello")},
	}
}

func TestACommandServesWhatItsArgumentsSay(t *testing.T) {
	want, got := ownOf(t), Own{}
	flags := pflag.NewFlagSet(Command, pflag.ContinueOnError)
	got.AddFlags(flags)
	if err := flags.Parse(want.arguments()[1:]); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAMirrorIsAnotherOneWhen(t *testing.T) {
	for name, test := range map[string]struct {
		change func(t *testing.T, o *Own)
		same   bool
	}{
		"nothing changed":               {func(*testing.T, *Own) {}, true},
		"the load balancer was rebuilt": {func(t *testing.T, o *Own) { write(t, filepath.Join(o.Programs, balancer), "newer") }, false},
		"the installer was rebuilt":     {func(t *testing.T, o *Own) { write(t, filepath.Join(o.Programs, installer), "newer") }, false},
		"the program of an image was":   {func(t *testing.T, o *Own) { write(t, filepath.Join(o.Programs, "hello"), "newer") }, false},
		"it has another version":        {func(_ *testing.T, o *Own) { o.Kubernetes = o.Kubernetes[:1] }, false},
		"it has another image": {func(_ *testing.T, o *Own) {
			o.Images = append(o.Images, artifacts.ProgramImage("example.com/other:one", "/other"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := ownOf(t)
			before, err := o.key()
			if err != nil {
				t.Fatal(err)
			}
			test.change(t, &o)
			now, err := o.key()
			if err != nil {
				t.Fatal(err)
			}
			if (before == now) != test.same {
				t.Errorf("before %s, now %s", before, now)
			}
		})
	}
}

func TestAMirrorWithoutItsProgramsHasNoKey(t *testing.T) {
	o := ownOf(t)
	if err := os.Remove(filepath.Join(o.Programs, installer)); err != nil {
		t.Fatal(err)
	}
	if _, err := o.key(); err == nil {
		t.Error("it has one")
	}
}

func TestAMirrorHasKubeProxyOfItsVersionsAlone(t *testing.T) {
	image := func(name string) artifacts.Image { return artifacts.Image{Name: name} }
	all := []artifacts.Image{image("registry.k8s.io/kube-proxy:v1.35.4"), image("registry.k8s.io/kube-proxy:v1.36.3"), image("registry.k8s.io/pause:3.10")}
	if got := ofVersions(all, []string{"v1.36.3"}); !slices.EqualFunc(got, all[1:], func(a, b artifacts.Image) bool { return a.Name == b.Name }) || len(all) != 3 || all[0].Name == "" {
		t.Errorf("it has %v of %v", got, all)
	}
}
