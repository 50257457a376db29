//go:build envtest

package versions_test

import (
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/kubeadm"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

// Tags that kubeadm names are those of images that Kubernetes publishes.
func TestTheTableNamesWhatKubeadmNames(t *testing.T) {
	newest := artifacts.DefaultVersions().Host
	named, err := kubeadm.Read(t.Context(), t.TempDir(), newest)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range append(artifacts.OlderVersions(), newest) {
		release, err := versions.BuiltIn().Release(version)
		if err != nil {
			t.Error(err)
			continue
		}
		parsed, err := versions.Parse(version)
		if err != nil {
			t.Fatal(err)
		}
		if want := named.Etcd[int(parsed.Minor)]; release.Etcd != want {
			t.Errorf("the table has etcd %s for %s, and kubeadm %s names %q", release.Etcd, release.Minor, newest, want)
		}
		if release.CoreDNS != named.CoreDNS {
			t.Errorf("the table has CoreDNS %s for %s, and kubeadm %s names %q", release.CoreDNS, release.Minor, newest, named.CoreDNS)
		}
	}
	if minors := versions.BuiltIn().Minors(); len(minors) != 1+len(artifacts.OlderVersions()) {
		t.Errorf("the table has %v, and not all were compared", minors)
	}
}
