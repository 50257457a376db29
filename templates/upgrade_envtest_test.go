//go:build envtest

package templates

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

const (
	controlPlaneVersion = "KOKControlPlane spec.version"
	workersVersion      = "MachineDeployment spec.template.spec.version"
)

func setVersion(version string) func(*clusterv1.Topology) {
	return func(topology *clusterv1.Topology) { topology.Version = version }
}

// until waits for a version, and checks that nothing else has changed.
func (c *managed) until(t *testing.T, before, want fields) {
	t.Helper()
	eventually(t, fmt.Sprint(want), func() error {
		if got := changes(before, c.fields(t)); !maps.Equal(got, want) {
			return fmt.Errorf("changed are %v", got)
		}
		return nil
	})
}

// reason waits until the topology waits for something.
func (c *managed) reason(t *testing.T, want string) {
	t.Helper()
	eventually(t, want, func() error {
		cluster := c.cluster(t)
		condition := conditions.Get(cluster, clusterv1.ClusterTopologyReconciledCondition)
		if condition == nil || condition.ObservedGeneration < cluster.Generation || condition.Reason != want {
			return fmt.Errorf("it is %+v", condition)
		}
		return nil
	})
}

func rolledOut(t *testing.T, blue *managed) {
	before := blue.fields(t)
	after := metav1.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := blue.edit(t, func(topology *clusterv1.Topology) { topology.ControlPlane.Rollout.After = after }); err != nil {
		t.Fatal(err)
	}
	blue.reconciled(t)
	expect(t, changes(before, blue.fields(t)), fields{"KOKControlPlane spec.rollout.after": `"2030-01-01T00:00:00Z"`})
}

func upgraded(t *testing.T, blue *managed) {
	const next = "v1.34.4"
	before := blue.fields(t)
	if err := blue.edit(t, setVersion(next)); err != nil {
		t.Fatal(err)
	}
	blue.reason(t, clusterv1.ClusterTopologyReconciledClusterUpgradingReason)
	expect(t, changes(before, blue.fields(t)), fields{controlPlaneVersion: `"` + next + `"`})
	blue.running(t, first, next)
	blue.reconcile(t)
	// A held upgrade goes neither back nor on: Cluster API refuses both, and the way out is its cause.
	blue.refuses(t, first, "version cannot be decreased")
	blue.refuses(t, "v1.34.5", "control plane is still completing a previous upgrade")
	expect(t, changes(before, blue.fields(t)), fields{controlPlaneVersion: `"` + next + `"`})
	blue.running(t, next)
	blue.reconciled(t)
	expect(t, changes(before, blue.fields(t)), fields{controlPlaneVersion: `"` + next + `"`, workersVersion: `"` + next + `"`})
	blue.refuses(t, first, "version cannot be decreased")
}

// refuses checks that the topology cannot have a version.
func (c *managed) refuses(t *testing.T, version, why string) {
	t.Helper()
	if err := c.edit(t, setVersion(version)); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%s is not refused with %q: %v", version, why, err)
	}
}

// classLabel is what objects of the second class have.
const classLabel = "example.com/class"

// successor is the class under another name, with other settings, and with the versions that it is for.
func successor(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	return copied(t, "kok-next", func(kind string, modify modifier) {
		switch kind {
		case "KOKControlPlaneTemplate", "IDCClusterTemplate", "KOKConfigTemplate":
			modify("next", "spec", "template", "metadata", "labels", classLabel)
		}
		switch kind {
		case "ClusterClass":
			modify([]any{"v1.34.4", "v1.35.4", "v1.36.3", "v1.36.4"}, "spec", "kubernetesVersions")
		case "KOKControlPlaneTemplate":
			modify(int64(3), "spec", "template", "spec", "addons", "coreDNS", "replicas")
		case "KOKConfigTemplate":
			modify("next", "spec", "template", "spec", "kubelet", "nodeLabels", classLabel)
		}
	})
}

func rebased(t *testing.T, blue *managed) {
	blue.refuses(t, "v1.36.3", "version cannot be increased")
	blue.create(t, successor(t)...)
	blue.classReady(t, "kok-next")
	before := blue.fields(t)
	// A template of workers is replaced when it is another.
	names := func() []string {
		cluster, workers := blue.cluster(t), &clusterv1.MachineDeployment{}
		blue.get(t, blue.name+"-workers", workers)
		return []string{cluster.Spec.ControlPlaneRef.Name, cluster.Spec.InfrastructureRef.Name, workers.Spec.Template.Spec.InfrastructureRef.Name}
	}
	kept := names()
	if err := blue.edit(t, func(topology *clusterv1.Topology) { topology.ClassRef.Name = "kok-next" }); err != nil {
		t.Fatal(err)
	}
	blue.reconciled(t)
	expect(t, changes(before, blue.fields(t)), fields{
		"KOKControlPlane spec.addons.coreDNS.replicas":                          "3",
		"KOKConfigTemplate spec.template.spec.kubelet.nodeLabels." + classLabel: `"next"`,
		"KOKConfigTemplate spec.template.metadata.labels." + classLabel:         `"next"`,
	})
	for _, object := range []client.Object{&controlplanev1.KOKControlPlane{}, &infrav1.IDCCluster{}} {
		if blue.get(t, blue.name, object); object.GetLabels()[classLabel] != "next" {
			t.Errorf("the labels of the template are not on %T: %v", object, object.GetLabels())
		}
	}
	if got := names(); !slices.Equal(got, kept) {
		t.Errorf("objects were replaced: %v, before %v", got, kept)
	}
}

// upgradedInAChain goes over a minor by one edit: the class has the versions that lie between.
func upgradedInAChain(t *testing.T, blue *managed) {
	before := blue.fields(t)
	if err := blue.edit(t, setVersion("v1.36.3")); err != nil {
		t.Fatal(err)
	}
	blue.until(t, before, fields{controlPlaneVersion: `"v1.35.4"`})
	blue.running(t, "v1.35.4")
	blue.until(t, before, fields{controlPlaneVersion: `"v1.36.3"`})
	blue.running(t, "v1.36.3")
	blue.reconciled(t)
	expect(t, changes(before, blue.fields(t)), fields{controlPlaneVersion: `"v1.36.3"`, workersVersion: `"v1.36.3"`})
}

// upgradedWhenAllowed holds workers back until there are hosts with the new kubelet: they get those and the version at once.
func upgradedWhenAllowed(t *testing.T, blue *managed) {
	const next = "v1.36.4"
	before := blue.fields(t)
	if err := blue.edit(t, func(topology *clusterv1.Topology) {
		topology.Version = next
		topology.Workers.MachineDeployments[0].Metadata.Annotations = map[string]string{clusterv1.ClusterTopologyDeferUpgradeAnnotation: ""}
	}); err != nil {
		t.Fatal(err)
	}
	blue.until(t, before, fields{controlPlaneVersion: `"` + next + `"`})
	blue.running(t, next)
	blue.reason(t, clusterv1.ClusterTopologyReconciledMachineDeploymentsUpgradeDeferredReason)
	expect(t, changes(before, blue.fields(t)), fields{controlPlaneVersion: `"` + next + `"`})
	held, workers := &clusterv1.MachineDeployment{}, &clusterv1.MachineDeployment{}
	blue.get(t, blue.name+"-workers", held)
	if err := blue.edit(t, func(topology *clusterv1.Topology) {
		set("workerHostSelector", `{"kubelet": "v1.36.4"}`)(topology)
		topology.Workers.MachineDeployments[0].Metadata.Annotations = nil
	}); err != nil {
		t.Fatal(err)
	}
	blue.reconciled(t)
	expect(t, changes(before, blue.fields(t)), fields{
		controlPlaneVersion: `"` + next + `"`, workersVersion: `"` + next + `"`,
		"IDCMachineTemplate spec.template.spec.hostSelector.matchLabels.pool":    "",
		"IDCMachineTemplate spec.template.spec.hostSelector.matchLabels.kubelet": `"` + next + `"`,
	})
	if blue.get(t, blue.name+"-workers", workers); workers.Generation != held.Generation+1 {
		t.Errorf("the MachineDeployment was written %d times", workers.Generation-held.Generation)
	}
}

// upgradedByTheList has one of the class that is published with a list.
func upgradedByTheList(t *testing.T, blue *managed) {
	const name = "kok-chained"
	blue.create(t, classOf(t, chainedClass, name)...)
	blue.classReady(t, name)
	oldest, newest := chainedVersions[0], chainedVersions[len(chainedVersions)-1]
	other := blue.another(t, "chained", func(cluster *clusterv1.Cluster) {
		cluster.Spec.Topology.ClassRef.Name, cluster.Spec.Topology.Version = name, oldest
	})
	other.running(t, oldest)
	before := other.fields(t)
	if err := other.edit(t, setVersion(newest)); err != nil {
		t.Fatal(err)
	}
	for _, next := range chainedVersions[1:] {
		other.until(t, before, fields{controlPlaneVersion: `"` + next + `"`})
		other.running(t, next)
	}
	other.reconciled(t)
	expect(t, changes(before, other.fields(t)), fields{controlPlaneVersion: `"` + newest + `"`, workersVersion: `"` + newest + `"`})
}
