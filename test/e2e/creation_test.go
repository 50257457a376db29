//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// creation makes tenant a and checks what Cluster API's contract promises of it.
func (j *journey) creation() {
	It("makes a highly available tenant from the template", func(ctx SpecContext) {
		began := time.Now()
		j.a.create(ctx)
		env.log.Print("every part of %s was ready after %.1f s", j.a.ObjectKey, time.Since(began).Seconds())
		version, err := j.a.api.Discovery().ServerVersion()
		Expect(err).NotTo(HaveOccurred())
		Expect(version.GitVersion).To(Equal(j.a.version))
	})

	It("reports its replicas, versions and generation as the contract says", func(ctx SpecContext) {
		apiServers := int32(j.a.wantedPods(ctx)[names.KubeAPIServer])
		controlPlane := j.a.controlPlane(ctx)
		Expect(controlPlane.Status).To(MatchFields(IgnoreExtras, Fields{
			"Replicas":                    HaveValue(Equal(apiServers)),
			"ReadyReplicas":               HaveValue(Equal(apiServers)),
			"AvailableReplicas":           HaveValue(Equal(apiServers)),
			"UpToDateReplicas":            HaveValue(Equal(apiServers)),
			"DesiredReplicas":             HaveValue(Equal(apiServers)),
			"Versions":                    Equal([]clusterv1.StatusVersion{{Version: j.a.version, Replicas: apiServers}}),
			"ExternalManagedControlPlane": HaveValue(BeTrue()),
			"ObservedGeneration":          Equal(controlPlane.Generation),
			"Selector":                    Not(BeEmpty()),
		}))
		Expect(controlPlane.Status.Initialization.ControlPlaneInitialized).To(HaveValue(BeTrue()))
		Expect(controlPlane.Spec.Replicas).To(j.a.mode.specReplicas())
	})

	It("is mirrored by Cluster API's core", func(ctx SpecContext) {
		apiServers := int32(j.a.wantedPods(ctx)[names.KubeAPIServer])
		endpoint := j.a.controlPlane(ctx).Spec.ControlPlaneEndpoint
		Eventually(ctx, func(g Gomega) {
			cluster := j.a.cluster(ctx)
			g.Expect(cluster.Spec.ControlPlaneEndpoint.Host).To(Equal(endpoint.Host))
			g.Expect(cluster.Spec.ControlPlaneEndpoint.Port).To(Equal(endpoint.Port))
			g.Expect(cluster.Status.Initialization.ControlPlaneInitialized).To(HaveValue(BeTrue()))
			for _, name := range []string{clusterv1.ClusterControlPlaneInitializedCondition, clusterv1.ClusterControlPlaneAvailableCondition} {
				g.Expect(conditions.IsTrue(cluster, name)).To(BeTrue(), "%s: %s", name, conditions.GetMessage(cluster, name))
			}
			g.Expect(cluster.Status.ControlPlane).To(PointTo(MatchFields(IgnoreExtras, Fields{
				// The contract has it from spec.replicas, which a DaemonSet has not.
				"DesiredReplicas":   j.a.mode.specReplicas(),
				"Replicas":          HaveValue(Equal(apiServers)),
				"ReadyReplicas":     HaveValue(Equal(apiServers)),
				"AvailableReplicas": HaveValue(Equal(apiServers)),
				"UpToDateReplicas":  HaveValue(Equal(apiServers)),
				"Versions":          Equal([]clusterv1.StatusVersion{{Version: j.a.version, Replicas: apiServers}}),
			})))
		}).Should(Succeed())
		// Cluster API's core never calls a Cluster without infrastructure Available: its
		// InfrastructureReady stays Unknown.
	})

	It("gives Secrets of the shape that Cluster API names", func(ctx SpecContext) {
		controlPlane := j.a.controlPlane(ctx)
		for purpose, keys := range map[secret.Purpose][]string{
			secret.ClusterCA:      {secret.TLSCrtDataName, secret.TLSKeyDataName},
			secret.EtcdCA:         {secret.TLSCrtDataName, secret.TLSKeyDataName},
			secret.FrontProxyCA:   {secret.TLSCrtDataName, secret.TLSKeyDataName},
			secret.ServiceAccount: {secret.TLSCrtDataName, secret.TLSKeyDataName},
			secret.Kubeconfig:     {secret.KubeconfigDataName},
		} {
			found := j.a.secret(ctx, secret.Name(j.a.Name, purpose))
			Expect(found.Type).To(Equal(clusterv1.ClusterSecretType), found.Name)
			Expect(found.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, j.a.Name), found.Name)
			Expect(metav1.IsControlledBy(found, controlPlane)).To(BeTrue(), found.Name)
			Expect(found.Data).To(HaveLen(len(keys)), found.Name)
			for _, key := range keys {
				Expect(found.Data[key]).NotTo(BeEmpty(), "%s of %s", key, found.Name)
			}
		}
		kubeconfig, err := clientcmd.Load(j.a.secret(ctx, secret.Name(j.a.Name, secret.Kubeconfig)).Data[secret.KubeconfigDataName])
		Expect(err).NotTo(HaveOccurred())
		endpoint := controlPlane.Spec.ControlPlaneEndpoint
		Expect(kubeconfig.Clusters).To(HaveKey(j.a.Name))
		Expect(kubeconfig.Clusters[j.a.Name].Server).To(Equal("https://" + net.JoinHostPort(endpoint.Host, strconv.Itoa(int(endpoint.Port)))))
	})

	It("lists where its API servers are reached as addresses of the tenant's API, and is reached there", func(ctx SpecContext) {
		want := j.a.advertised(ctx)
		Eventually(ctx, func(g Gomega) {
			slices, err := j.a.api.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(ctx,
				metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
			g.Expect(err).NotTo(HaveOccurred())
			var addresses []string
			for _, slice := range slices.Items {
				g.Expect(slice.Ports).To(HaveLen(1))
				for _, endpoint := range slice.Endpoints {
					for _, host := range endpoint.Addresses {
						addresses = append(addresses, address(host, *slice.Ports[0].Port))
					}
				}
			}
			g.Expect(addresses).To(ConsistOf(want))
		}).Should(Succeed())
		j.a.expectReached(ctx)
	})

	It("installs the addons; one that is switched off goes, and comes back", func(ctx SpecContext) {
		mode := func(mode controlplanev1.AddonMode) {
			GinkgoHelper()
			patch(ctx, j.a.controlPlane(ctx), fmt.Sprintf(`{"spec":{"addons":{"coreDNS":{"mode":%q}}}}`, mode))
		}
		has := func(ctx context.Context, coreDNS bool) {
			GinkgoHelper()
			Eventually(ctx, func(g Gomega) {
				_, err := j.a.api.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, "kube-proxy", metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				_, err = j.a.api.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
				service, serviceErr := j.a.api.CoreV1().Services(metav1.NamespaceSystem).Get(ctx, "kube-dns", metav1.GetOptions{})
				if coreDNS {
					g.Expect(errors.Join(err, serviceErr)).NotTo(HaveOccurred())
					g.Expect(service.Spec.ClusterIP).To(HaveSuffix(".10"))
				} else {
					g.Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
					g.Expect(serviceErr).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
				}
				g.Expect(conditions.IsTrue(j.a.controlPlane(ctx), conditionsv1.AddonsInstalledCondition)).To(BeTrue())
			}).Should(Succeed())
		}
		has(ctx, true)
		mode(controlplanev1.AddonNone)
		has(ctx, false)
		mode(controlplanev1.AddonManaged)
		has(ctx, true)
	})

	It("shows at a glance how it is", func(ctx SpecContext) {
		// The table that kubectl prints is the API server's.
		raw, err := env.clientset.RESTClient().Get().
			AbsPath("/apis", controlplanev1.GroupVersion.String(), "namespaces", j.a.Namespace, "kokcontrolplanes", j.a.Name).
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())
		table := &metav1.Table{}
		Expect(json.Unmarshal(raw, table)).To(Succeed())
		Expect(table.Rows).To(HaveLen(1))
		shown := map[string]any{}
		for i, column := range table.ColumnDefinitions {
			if column.Priority == 0 {
				shown[column.Name] = table.Rows[0].Cells[i]
			}
		}
		apiServers := BeNumerically("==", j.a.wantedPods(ctx)[names.KubeAPIServer])
		Expect(shown).To(MatchKeys(IgnoreExtras, Keys{
			"Name": Equal(j.a.Name), "Cluster": Equal(j.a.Name), "Available": Equal(string(corev1.ConditionTrue)),
			"APIServers": apiServers, "Desired": apiServers, "Etcd": Equal("3/3 3/3"), "Version": Equal(j.a.version),
			"Endpoint": Equal(j.a.controlPlane(ctx).Spec.ControlPlaneEndpoint.Host), "Age": Not(BeEmpty()),
		}))
		Expect(env.run(ctx, env.kubectl, "get", "kokcontrolplanes,clusters", "--namespace", j.a.Namespace)).To(Succeed())
		Expect(env.run(ctx, env.clusterctl, "describe", "cluster", j.a.Name, "--namespace", j.a.Namespace,
			"--show-conditions", "all", "--config", clusterctlConfig())).To(Succeed())
	})
}
