package artifacts

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheAPIServerOfTestsIsNotBuiltTwice(t *testing.T) {
	goVersion, err := goToolVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v := DefaultVersions()
	for name, programs := range map[string][]string{
		"the lab built it with the other programs of its hosts": hostPrograms,
		"tests built it by itself":                              {apiServerProgram},
	} {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			kubernetes, err := kubernetesRecipe(v.Host, programs...)
			if err != nil {
				t.Fatal(err)
			}
			etcd := etcdRecipe(v.Etcd).dir(cache, goVersion)
			for _, folder := range []string{etcd, kubernetes.dir(cache, goVersion)} {
				if err := os.MkdirAll(folder, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			got, err := EnsureAPIServer(t.Context(), cache, func(step string) { t.Errorf("it does more than to look: %s", step) })
			if err != nil {
				t.Fatal(err)
			}
			want := APIServer{Etcd: filepath.Join(etcd, "etcd"), KubeAPIServer: filepath.Join(kubernetes.dir(cache, goVersion), "kube-apiserver")}
			if *got != want {
				t.Errorf("%+v, want %+v", *got, want)
			}
		})
	}
}
