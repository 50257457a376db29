//go:build envtest

package templates

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// reconciles is how often topologies are compared with their objects before nothing is believed to be written.
const reconciles = 3

// compared are the resources of a topology, which its controller applies in dry runs to learn whether they are as it
// wants them. Machines and what is made for them have controllers that apply without, after each start.
var compared = sets.New("kokcontrolplanes", "idcclusters", "kokconfigtemplates", "idcmachinetemplates", "machinedeployments", "machinehealthchecks")

// latelyConnected have a controller that writes their status when its connection to the tenant comes after it starts.
const latelyConnected = "machinehealthchecks"

// nothingIsWritten starts Cluster API's manager anew, which has it apply everything in dry runs, and then has it
// reconcile some more.
func nothingIsWritten(t *testing.T, blue *managed) {
	blue.running(t, blue.cluster(t).Spec.Topology.Version)
	// Cluster API connects at its own pace, and then writes this.
	eventually(t, "the connection to the tenant", func() error {
		cluster := blue.cluster(t)
		if !conditions.IsTrue(cluster, clusterv1.ClusterRemoteConnectionProbeCondition) {
			return fmt.Errorf("condition %+v", conditions.Get(cluster, clusterv1.ClusterRemoteConnectionProbeCondition))
		}
		return nil
	})
	blue.settle(t)
	before := blue.resourceVersions(t)
	for range 2 {
		seen := len(blue.requests(t))
		blue.restartManager(t)
		blue.reconcile(t)
		tried := sets.New[string]()
		for _, request := range blue.requests(t)[seen:] {
			switch {
			case request.dryRun:
				tried.Insert(request.resource)
			case strings.HasSuffix(request.text, "/"+latelyConnected+"/blue-workers/status"):
			case compared.Has(request.resource) || request.resource == "clusters":
				t.Errorf("it was written: %s", request.text)
			}
		}
		if missing := compared.Difference(tried); missing.Len() > 0 {
			t.Errorf("%v were not compared", sets.List(missing))
		}
	}
	if after := blue.resourceVersions(t); !maps.Equal(before, after) {
		t.Errorf("the objects are %v, before %v", after, before)
	}
}

// reconcile waits until topologies were compared with their objects several times from now on.
func (m *management) reconcile(t *testing.T) {
	t.Helper()
	begin := m.topologyReconciles(t)
	eventually(t, "reconciles", func() error {
		if m.topologyReconciles(t) < begin+reconciles {
			return errors.New("there were fewer")
		}
		return nil
	})
}

// settle waits until nothing is written any more.
func (c *managed) settle(t *testing.T) {
	t.Helper()
	eventually(t, "the end of writes", func() error {
		before := c.resourceVersions(t)
		c.reconcile(t)
		if changed := changes(before, c.resourceVersions(t)); len(changed) > 0 {
			return errors.New("something is written still")
		}
		return nil
	})
}

// resourceVersions are those of all objects of Cluster API and its providers, whoever writes them. Of those that are
// connected late it is the generation, which a status does not change.
func (c *managed) resourceVersions(t *testing.T) fields {
	t.Helper()
	found := fields{}
	for kind, group := range map[string]schema.GroupVersion{
		"Cluster": clusterv1.GroupVersion, "ClusterClass": clusterv1.GroupVersion, "MachineDeployment": clusterv1.GroupVersion,
		"MachineSet": clusterv1.GroupVersion, "Machine": clusterv1.GroupVersion, "MachineHealthCheck": clusterv1.GroupVersion,
		"KOKControlPlane": controlplanev1.GroupVersion, "KOKControlPlaneTemplate": controlplanev1.GroupVersion,
		"KOKConfig": bootstrapv1.GroupVersion, "KOKConfigTemplate": bootstrapv1.GroupVersion,
		"IDCCluster": infrav1.GroupVersion, "IDCClusterTemplate": infrav1.GroupVersion,
		"IDCMachine": infrav1.GroupVersion, "IDCMachineTemplate": infrav1.GroupVersion,
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(group.WithKind(kind + "List"))
		if err := c.client.List(t.Context(), list, client.InNamespace(needed["NAMESPACE"])); err != nil {
			t.Fatal(err)
		}
		for _, object := range list.Items {
			version := object.GetResourceVersion()
			if kind == "MachineHealthCheck" {
				version = strconv.FormatInt(object.GetGeneration(), 10)
			}
			found[kind+" "+object.GetName()] = version
		}
	}
	return found
}
