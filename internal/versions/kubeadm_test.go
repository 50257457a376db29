//go:build envtest

package versions_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

// Tags that kubeadm names are those of images that Kubernetes publishes.
func TestTheTableNamesWhatKubeadmNames(t *testing.T) {
	kubeadm := artifacts.DefaultVersions().Host
	etcd, coreDNS := tagsOfKubeadm(t, kubeadm)
	for _, version := range append(artifacts.OlderVersions(), kubeadm) {
		release, err := versions.BuiltIn().Release(version)
		if err != nil {
			t.Error(err)
			continue
		}
		parsed, err := versions.Parse(version)
		if err != nil {
			t.Fatal(err)
		}
		if want := etcd[int(parsed.Minor)]; release.Etcd != want {
			t.Errorf("the table has etcd %s for %s, and kubeadm %s names %q", release.Etcd, release.Minor, kubeadm, want)
		}
		if release.CoreDNS != coreDNS {
			t.Errorf("the table has CoreDNS %s for %s, and kubeadm %s names %q", release.CoreDNS, release.Minor, kubeadm, coreDNS)
		}
	}
	if minors := versions.BuiltIn().Minors(); len(minors) != 1+len(artifacts.OlderVersions()) {
		t.Errorf("the table has %v, and not all were compared", minors)
	}
}

// tagsOfKubeadm reads the source of kubeadm: the tags of etcd's image by Kubernetes' minor, and that of CoreDNS' image.
func tagsOfKubeadm(t *testing.T, version string) (etcd map[int]string, coreDNS string) {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "k8s.io/kubernetes@"+version)
	download.Dir, download.Stderr = t.TempDir(), os.Stderr
	output, err := download.Output()
	if err != nil {
		t.Fatal(err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(output, &module); err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(module.Dir, "cmd/kubeadm/app/constants/constants.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	etcd = map[int]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 {
			return true
		}
		switch spec.Names[0].Name {
		case "CoreDNSVersion":
			coreDNS = text(t, spec.Values[0])
		case "SupportedEtcdVersion":
			for _, element := range spec.Values[0].(*ast.CompositeLit).Elts {
				pair := element.(*ast.KeyValueExpr)
				minor, err := strconv.Atoi(pair.Key.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				etcd[minor] = text(t, pair.Value)
			}
		}
		return true
	})
	return etcd, coreDNS
}

// text is the value of a literal.
func text(t *testing.T, expression ast.Expr) string {
	t.Helper()
	literal, ok := expression.(*ast.BasicLit)
	if !ok {
		t.Fatalf("%T is no literal", expression)
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
