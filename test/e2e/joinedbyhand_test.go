//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/cert"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	bootstraptokens "github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/tokens"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// joinedByHand owns the host that a person joins by hand: no pool of others takes it.
const joinedByHand = "joined-by-hand"

// joinByHand adds a host to the lab, and has the real kubeadm join it to the tenant, as a person does who has no machines of Cluster API. The
// host is the tenant's node then, and carries no record of this inventory. It goes when the spec ends.
func (t *tenant) joinByHand(ctx context.Context, built *artifacts.Kubeadm) *host.Host {
	GinkgoHelper()
	Expect(env.lab.RemoveOwned(ctx, joinedByHand)).To(Succeed())
	h, err := env.lab.AddWorker(ctx, joinedByHand, []string{filepath.Join(settings.programs, "kok-apiserver-lb")}, func(step string) { env.log.Print("%s", step) })
	Expect(err).NotTo(HaveOccurred())
	name := nodeName(ctx, h)
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(t.api.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}))).To(Succeed())
	})
	DeferCleanup(func(ctx SpecContext) { Expect(env.lab.RemoveOwned(ctx, joinedByHand)).To(Succeed()) })
	prepareForKubeadm(h, built.Program)
	Expect(loadWorkerImages(ctx, h.Name)).To(Succeed())

	told := t.toldByTemplate(ctx)
	t.writeFiles(ctx, h, told.Files)
	for _, command := range told.PreKubeadmCommands {
		_, err := h.Exec(ctx, nil, "sh", "-c", command)
		Expect(err).NotTo(HaveOccurred())
	}
	const file = "/root/join.yaml"
	Expect(h.WriteFile(file, t.joinConfiguration(ctx, told), 0o600)).To(Succeed())
	said, err := h.Exec(ctx, nil, "kubeadm", "join", "--config", file)
	env.log.Print("kubeadm on %s: %s", h.Name, said)
	Expect(err).NotTo(HaveOccurred())
	t.expectNodeWorks(ctx, name)
	return h
}

// nodeName is what kubeadm calls a host.
func nodeName(ctx context.Context, h *host.Host) string {
	GinkgoHelper()
	name, err := h.Exec(ctx, nil, "uname", "-n")
	Expect(err).NotTo(HaveOccurred())
	return strings.ToLower(strings.TrimSpace(string(name)))
}

// toldByTemplate is what the tenant's template tells workers that kubeadm joins.
func (t *tenant) toldByTemplate(ctx context.Context) kubeadmv1.KubeadmConfigSpec {
	GinkgoHelper()
	object, template := t.kubeadmConfigTemplate(), &kubeadmv1.KubeadmConfigTemplate{}
	get(ctx, client.ObjectKeyFromObject(object), object)
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, template)).To(Succeed())
	return template.Spec.Template.Spec
}

// writeFiles writes what a template has for a machine: the load balancer, its configuration and the cluster CA.
func (t *tenant) writeFiles(ctx context.Context, h *host.Host, files []kubeadmv1.File) {
	GinkgoHelper()
	Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		mode, err := strconv.ParseUint(file.Permissions, 8, 32)
		Expect(err).NotTo(HaveOccurred(), file.Path)
		content := []byte(file.Content)
		if file.ContentFrom.IsDefined() {
			content = t.secret(ctx, file.ContentFrom.Secret.Name).Data[file.ContentFrom.Secret.Key]
		}
		Expect(content).NotTo(BeEmpty(), file.Path)
		Expect(h.WriteFile(file.Path, content, fs.FileMode(mode))).To(Succeed())
	}
}

// joinConfiguration is what kubeadm joins by: what the template has for the lab's machines, and a token that the tenant's administrator makes.
func (t *tenant) joinConfiguration(ctx context.Context, told kubeadmv1.KubeadmConfigSpec) []byte {
	GinkgoHelper()
	authorities, err := cert.ParseCertsPEM(t.access.CAData)
	Expect(err).NotTo(HaveOccurred())
	digest := sha256.Sum256(authorities[0].RawSubjectPublicKeyInfo)
	registration := told.JoinConfiguration.NodeRegistration
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration",
		"discovery": map[string]any{"bootstrapToken": map[string]any{
			"apiServerEndpoint": told.JoinConfiguration.Discovery.BootstrapToken.APIServerEndpoint,
			"token":             t.joinToken(ctx), "caCertHashes": []string{"sha256:" + hex.EncodeToString(digest[:])},
		}},
		"nodeRegistration": map[string]any{"ignorePreflightErrors": registration.IgnorePreflightErrors, "kubeletExtraArgs": registration.KubeletExtraArgs},
	})
	Expect(err).NotTo(HaveOccurred())
	return content
}

// joinToken is a bootstrap token as "kubeadm token create" makes it.
func (t *tenant) joinToken(ctx context.Context) string {
	GinkgoHelper()
	token, err := bootstraptokens.New()
	Expect(err).NotTo(HaveOccurred())
	id, secret, _ := strings.Cut(token, ".")
	_, err = t.api.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: bootstraputil.BootstrapTokenSecretName(id)}, Type: bootstrapapi.SecretTypeBootstrapToken,
		StringData: map[string]string{
			bootstrapapi.BootstrapTokenIDKey: id, bootstrapapi.BootstrapTokenSecretKey: secret,
			bootstrapapi.BootstrapTokenExpirationKey:       time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
			bootstrapapi.BootstrapTokenUsageAuthentication: "true", bootstrapapi.BootstrapTokenUsageSigningKey: "true",
			bootstrapapi.BootstrapTokenExtraGroupsKey: bootstraptokens.Group,
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return token
}

// expectNodeWorks waits until a Node of the tenant and all pods on it are ready.
func (t *tenant) expectNodeWorks(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		node, err := t.api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(node.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.NodeReady), HaveField("Status", corev1.ConditionTrue))))
		pods, err := t.api.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods.Items).NotTo(BeEmpty())
		for i := range pods.Items {
			g.Expect(isReady(&pods.Items[i])).To(BeTrue(), "pod %s is ready", pods.Items[i].Name)
		}
	}).WithTimeout(join).Should(Succeed(), "Node %s and its pods are ready", name)
}
