package templates

import (
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/golden"
)

// chainedClass lists the versions that its Clusters can have, so that one edit leads over several minors.
const chainedClass = "clusterclass-kok-chained.yaml"

// chainedVersions are those of the class: one patch of each minor that the provider supports.
var chainedVersions = []string{"v1.34.4", "v1.35.4", "v1.36.3"}

const chainedHead = `# The class kok with a list of the versions that its Clusters can have: one edit of a Cluster's version goes over several
# minors, one after the other. Put the patch versions that you run into spec.kubernetesVersions; docs/clusterclass.md says
# when to use it. All else is as in clusterclass-kok.yaml, which explains it.
#
# clusterctl adds it by itself where it is not there yet:
#   CLUSTER_CLASS=kok-chained clusterctl generate cluster <name> --infrastructure idc --flavor topology \
#     --kubernetes-version v1.36.3 --worker-machine-count 2 --target-namespace <namespace> | kubectl apply -f -
`

func TestTheChainedClassIsTheOtherWithAListOfVersions(t *testing.T) {
	_, objects, _ := strings.Cut(read(t, class), "apiVersion:")
	objects = chainedHead + "apiVersion:" + objects
	objects = strings.ReplaceAll(objects, "name: kok", "name: kok-chained")
	list := "\nspec:\n  kubernetesVersions: [" + strings.Join(chainedVersions, ", ") + "]\n"
	golden.Compare(t, "../"+chainedClass, []byte(strings.Replace(objects, "\nspec:\n", list, 1)))
}

func TestTheChainedClassLeadsOverEverySupportedMinor(t *testing.T) {
	listed := one[*clusterv1.ClusterClass](t, render(t, chainedClass)).Spec.KubernetesVersions
	var minors []string
	for i, version := range listed {
		parsed, err := versions.Parse(version)
		if err != nil {
			t.Fatal(err)
		}
		if minor := parsed.MinorString(); !slices.Contains(minors, minor) {
			minors = append(minors, minor)
		}
		if i == 0 {
			continue
		}
		if err := versions.BuiltIn().ValidateUpgrade(listed[i-1], version); err != nil || versions.Compare(listed[i-1], version) >= 0 {
			t.Errorf("%s does not follow %s: %v", version, listed[i-1], err)
		}
	}
	if want := versions.BuiltIn().Minors(); !slices.Equal(minors, want) {
		t.Errorf("it has versions of %v, supported are %v", minors, want)
	}
}
