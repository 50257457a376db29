//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/audit"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// movedPorts is the block of ports of the tenant: its endpoint is known before it is made.
const movedPorts = 29900

// The host cluster is the first management cluster too, and stays the host cluster when another one manages the tenant.
var _ = Describe("A tenant whose host cluster has a kubeconfig", Ordered, Label(move), func() {
	variables := single()
	variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
	t := newTenant("moved", "v1.36.3", variables)
	t.workers = 1
	other := &management{tenant: newTenant("management", "v1.36.3", maps.Clone(variables))}
	other.workers = 1
	var worker *host.Host
	var secrets []string // that go along

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		removeWithHosts(t, other.tenant)
		DeferCleanup(func(ctx SpecContext) {
			if !settings.keep {
				t.undoMove(ctx, other.client)
			}
		}, NodeTimeout(3*creation))
		t.undoMove(ctx, nil) // what an interrupted run left
		other.install(ctx)
		t.prepare = t.writeHostAccess
		template := templateElsewhere(ctx)
		t.template = &template
		t.createWithWorkers(ctx, 1)
		worker = t.worker(ctx)
	}, NodeTimeout(6*creation+3*join+2*installing))

	It("is moved with clusterctl move, and its pods and nodes stay as they are", func(ctx SpecContext) {
		machine := t.machines(ctx)[0]
		registered := len(t.hosts(ctx))
		node, claimed := machine.Status.NodeRef.Name, t.hostOf(ctx, machine)
		since := t.readySince(ctx, node)
		secrets = t.movedSecrets(ctx)
		t.undisturbed(ctx, "move", worker, func() {
			t.moveTo(ctx, other)
			t.expectAllWell(ctx, other.client)
			t.expectMachines(ctx, other.client, t.workers)
		})
		Expect(t.readySince(ctx, node)).To(Equal(since), "the Node was not ready for a while")
		hosts := &infrav1.IDCHostList{}
		Expect(other.client.List(ctx, hosts, client.InNamespace(t.Namespace))).To(Succeed())
		Expect(hosts.Items).To(HaveLen(registered))
		for i := range hosts.Items {
			Expect(hosts.Items[i].Spec.Claim != nil).To(Equal(hosts.Items[i].Name == claimed), "IDCHost %s is claimed", hosts.Items[i].Name)
			Expect(hosts.Items[i].Spec.Quarantine).To(BeNil(), "IDCHost %s", hosts.Items[i].Name)
		}
	}, SpecTimeout(4*creation+2*join))

	It("has left nothing but what runs in the first management cluster", func(ctx SpecContext) {
		objects, err := env.inventory.Namespace(ctx, t.Namespace)
		Expect(err).NotTo(HaveOccurred())
		var left []string
		for _, object := range objects {
			if strings.HasSuffix(object.GroupVersionKind().Group, "cluster.x-k8s.io") ||
				object.GetKind() == "Secret" && slices.Contains(secrets, object.GetName()) {
				left = append(left, object.String())
			}
		}
		Expect(left).To(BeEmpty())
	}, SpecTimeout(creation))

	It("costs no write in its host cluster once it has settled", func(ctx SpecContext) {
		written := countWrites(ctx, openAudit(), func(event *auditv1.Event) bool {
			return audit.IsWrite(event) && event.ObjectRef.Namespace == t.Namespace && event.ObjectRef.Resource != "events"
		})
		figure("move_settled_writes", len(written), "writes")
		Expect(written).To(BeEmpty())
	}, SpecTimeout(creation+(windows+1)*settledTime))

	It("is edited and scaled from there", func(ctx SpecContext) {
		before := t.snapshot(ctx)
		other.patch(ctx, t.object(), `{"spec":{"kubeScheduler":{"replicas":2}}}`)
		other.patch(ctx, t.machineDeployment(), `{"spec":{"replicas":2}}`)
		Eventually(ctx, func(g Gomega) {
			pods, err := t.pods(ctx, names.KubeScheduler)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pods).To(HaveLen(2))
			for i := range pods {
				g.Expect(isReady(&pods[i])).To(BeTrue(), pods[i].Name)
			}
		}).WithTimeout(creation).Should(Succeed(), "kube-scheduler")
		t.expectMachines(ctx, other.client, 2)
		t.expectAllWell(ctx, other.client)
		after := t.snapshot(ctx)
		for name, was := range before {
			Expect(after).To(HaveKeyWithValue(name, was))
		}
	}, SpecTimeout(2*creation+2*join))

	It("rotates its keys, although the link to its host cluster is cut, and it moves in the middle of both phases", func(ctx SpecContext) {
		t.rotateOnTheMove(ctx, other, worker)
	}, SpecTimeout(4*creation+2*join+3*rotating))

	It("is deleted from there, and nothing of it is left in its host cluster", func(ctx SpecContext) {
		Expect(other.client.Delete(ctx, t.clusterObject())).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(other.client.Get(ctx, t.ObjectKey, t.clusterObject())).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
			g.Expect(t.left(ctx)).To(BeEmpty(), "what is left in the host cluster")
		}).WithTimeout(join).Should(Succeed(), "deletion of %s", t.ObjectKey)
		claims := &corev1.ConfigMapList{}
		listAll(ctx, claims, client.MatchingLabels(names.ComponentLabels(t.ObjectKey, ports.Component)))
		Expect(claims.Items).To(BeEmpty(), "claims of ports")
		Eventually(ctx, func(g Gomega) {
			hosts := &infrav1.IDCHostList{}
			g.Expect(other.client.List(ctx, hosts, client.InNamespace(t.Namespace))).To(Succeed())
			for i := range hosts.Items {
				g.Expect(conditions.GetReason(&hosts.Items[i], infrav1.AvailableCondition)).To(Equal(infrav1.FreeReason), hosts.Items[i].Name)
			}
		}).WithTimeout(join).Should(Succeed(), "hosts are clean")
	}, SpecTimeout(2*join+creation))
})

// templateElsewhere is the template with workers with a control plane whose host cluster has a kubeconfig. No address of
// a Service leads there from elsewhere: its endpoint is that of a host node.
func templateElsewhere(ctx context.Context) string {
	GinkgoHelper()
	nodes := env.hostNodes(ctx)
	Expect(nodes).NotTo(BeEmpty(), "host nodes")
	node := nodes[slices.Min(slices.Collect(maps.Keys(nodes)))]
	content, err := os.ReadFile(settings.workersTemplate)
	Expect(err).NotTo(HaveOccurred())
	const hosting = "\n  hosting:\n"
	Expect(strings.Count(string(content), hosting)).To(Equal(1), "spec.hosting in %s", settings.workersTemplate)
	elsewhere := fmt.Sprintf("\n  controlPlaneEndpoint:\n    host: %s\n    port: %d%s    kubeconfigRef:\n      name: %s\n    ports:\n      first: %d\n",
		internalIP(&node), ports.Of(movedPorts).APIServer, hosting, hostAccessSecret, movedPorts)
	file := filepath.Join(GinkgoT().TempDir(), "cluster-template-elsewhere.yaml")
	Expect(os.WriteFile(file, []byte(strings.Replace(string(content), hosting, elsewhere, 1)), 0o600)).To(Succeed())
	return file
}

// movedSecrets are the names of the Secrets that the control plane owns, and of the one with the access to its host cluster.
func (t *tenant) movedSecrets(ctx context.Context) []string {
	GinkgoHelper()
	controlPlane, list := t.controlPlane(ctx), &corev1.SecretList{}
	Expect(env.client.List(ctx, list, client.InNamespace(t.Namespace))).To(Succeed())
	moved := []string{hostAccessSecret}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], controlPlane) {
			moved = append(moved, list.Items[i].Name)
		}
	}
	Expect(moved).To(ContainElements(secret.Name(t.Name, secret.Kubeconfig), secret.Name(t.Name, pki.EncryptionPurpose)))
	return moved
}

func (m *management) patch(ctx context.Context, object client.Object, fields string) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		return m.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(fields)))
	}).Should(Succeed())
}

// expectMachines waits until a management cluster has so many Machines of the tenant, all ready, and Nodes of as many.
func (t *tenant) expectMachines(ctx context.Context, management client.Client, count int) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		t.haveMachines(ctx, g, management, count)
	}).WithTimeout(join).Should(Succeed(), "%d workers of %s", count, t.ObjectKey)
}

// undoMove ends a move that ended anywhere: it unpauses and deletes the Cluster in both management clusters, with a
// kubeconfig of the host cluster that is there and valid. One that fails does not keep the other from it.
func (t *tenant) undoMove(ctx context.Context, other client.Client) {
	GinkgoHelper()
	var errs []error
	if other != nil {
		errs = append(errs, t.removeFrom(ctx, other, "the other management cluster"))
	}
	if err := env.client.Get(ctx, t.ObjectKey, t.clusterObject()); err == nil {
		t.writeHostAccess(ctx)
		errs = append(errs, t.removeFrom(ctx, env.client, "the host cluster"))
	}
	Expect(errors.Join(errs...)).To(Succeed())
}

// removeFrom unpauses and deletes the Cluster, if it is there, and waits until it is gone.
func (t *tenant) removeFrom(ctx context.Context, management client.Client, where string) error {
	cluster := t.clusterObject()
	if err := management.Get(ctx, t.ObjectKey, cluster); err != nil {
		return client.IgnoreNotFound(err)
	}
	env.log.Print("%s still has Cluster %s: unpausing and deleting it", where, t.ObjectKey)
	if err := unpause(ctx, management, cluster); err != nil {
		return err
	}
	if err := client.IgnoreNotFound(management.Delete(ctx, cluster)); err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, time.Second, creation, true, func(ctx context.Context) (bool, error) {
		return apierrors.IsNotFound(management.Get(ctx, t.ObjectKey, cluster)), nil
	})
	if err != nil {
		return fmt.Errorf("%s still has Cluster %s: %w", where, t.ObjectKey, err)
	}
	return nil
}
