//go:build envtest

package versions_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

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

// docs/decisions/upgrades.md#supported-versions-are-one-table says why tags may be newer than those of a version's own kubeadm. Etcd keeps its minor.
func TestNoTagIsOlderThanWhatKubeadmOfTheVersionItselfNames(t *testing.T) {
	for _, of := range append(artifacts.OlderVersions(), artifacts.DefaultVersions().Host) {
		release, err := versions.BuiltIn().Release(of)
		if err != nil {
			t.Error(err)
			continue
		}
		named, err := kubeadm.Read(t.Context(), t.TempDir(), of)
		if err != nil {
			t.Fatal(err)
		}
		etcd, wanted := version.MustParseSemantic(release.Etcd), version.MustParseSemantic(named.DefaultEtcd)
		if etcd.LessThan(wanted) || etcd.Major() != wanted.Major() || etcd.Minor() != wanted.Minor() {
			t.Errorf("the table has etcd %s for %s, and kubeadm %s names %s", etcd, release.Minor, of, wanted)
		}
		coreDNS, wanted := version.MustParseSemantic(release.CoreDNS), version.MustParseSemantic(named.CoreDNS)
		if coreDNS.LessThan(wanted) || coreDNS.Major() != wanted.Major() {
			t.Errorf("the table has CoreDNS %s for %s, and kubeadm %s names %s", coreDNS, release.Minor, of, wanted)
		}
	}
}
