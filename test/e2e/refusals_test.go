//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"os/exec"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// What is refused, and in which words, is tested one by one against an API server alone; this is what a
// person with kubectl sees of it.
var _ = DescribeTable("kubectl says what is wrong and what would be right", Label(full, features),
	func(ctx SpecContext, edit func(*controlplanev1.KOKControlPlane), field, advice string) {
		controlPlane := newTenant("refused", "v1.36.3", nil).object()
		controlPlane.Namespace = "default"
		edit(controlPlane)
		out, err := kubectlApply(ctx, controlPlane)
		Expect(err).To(HaveOccurred(), "kubectl accepted it")
		Expect(out).To(And(ContainSubstring(field), ContainSubstring(advice)))
	},
	Entry("a version that is none", func(c *controlplanev1.KOKControlPlane) { c.Spec.Version = "latest" },
		"spec.version", "of the form v1.36.3"),
	Entry("a version that is not supported", func(c *controlplanev1.KOKControlPlane) { c.Spec.Version = "v1.20.0" },
		"spec.version", "supported are"),
	Entry("an even number of members", func(c *controlplanev1.KOKControlPlane) { c.Spec.Etcd.Data.Replicas = ptr.To[int32](2) },
		"spec.etcd.data.replicas", "must be odd"),
	Entry("replicas of a DaemonSet", func(c *controlplanev1.KOKControlPlane) { c.Spec.Replicas = ptr.To[int32](3) },
		"replicas", "label more nodes"),
	Entry("an argument that the controller owns", func(c *controlplanev1.KOKControlPlane) {
		c.Spec.KubeAPIServer.ExtraArgs = []controlplanev1.Arg{{Name: "etcd-servers", Value: ptr.To("https://example.com")}}
	}, "spec.kubeAPIServer.extraArgs", "etcd-servers"),
	Entry("anonymous access", func(c *controlplanev1.KOKControlPlane) {
		c.Spec.KubeAPIServer.ExtraArgs = []controlplanev1.Arg{{Name: "anonymous-auth", Value: ptr.To("true")}}
	}, "spec.kubeAPIServer.extraArgs", "anonymous-auth"),
	Entry("ports in the range of NodePorts", func(c *controlplanev1.KOKControlPlane) { c.Spec.Hosting.Ports.First = 30000 },
		"spec.hosting.ports", "30000"),
)

// kubectlApply applies an object as a person does and gives what kubectl said.
func kubectlApply(ctx context.Context, object any) (string, error) {
	GinkgoHelper()
	manifest, err := yaml.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(ctx, env.kubectl, "--kubeconfig", env.proxy.GetKubeconfigPath(), "apply", "--dry-run=server", "-f", "-")
	cmd.Stdin = bytes.NewReader(manifest)
	out, err := cmd.CombinedOutput()
	env.log.Print("%s", out)
	return string(out), err
}
