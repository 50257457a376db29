//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	bootstraptokens "github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/tokens"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/providers"
	quickstart "github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

// createWithWorkers makes the tenant and its workers, beside spare hosts, and waits until a pod reaches a Service.
func (t *tenant) createWithWorkers(ctx context.Context, spare int) {
	GinkgoHelper()
	t.create(ctx)
	t.haveHosts(ctx, t.workers+spare)
	q := t.quickstart()
	Expect(q.InstallNetwork(ctx, env.network)).To(Succeed())
	Expect(q.WaitWorkers(ctx)).To(Succeed())
	Expect(q.Hello(ctx)).To(Succeed())
	t.expectWorkers(ctx, t.workers)
}

// haveHosts gives the tenant so many hosts in all, with programs besides what every worker has: new ones get them, and
// those that an earlier run left, before a Machine can have them.
func (t *tenant) haveHosts(ctx context.Context, count int, programs ...string) []string {
	GinkgoHelper()
	pool := &workers.Pool{
		Lab: env.lab, Client: env.client, Namespace: t.Namespace, Log: env.log,
		Programs: append(programs, filepath.Join(settings.programs, "kok-apiserver-lb")),
		Load: func(ctx context.Context, names ...string) error {
			for _, name := range names {
				for _, program := range programs {
					lendProgram(labHost(name), program)
				}
			}
			return loadWorkerImages(ctx, names...)
		},
	}
	hosts, err := pool.Ensure(ctx, count)
	Expect(err).NotTo(HaveOccurred())
	return hosts
}

// workerImages are the programs of images that workers of the lab have beside the tenant's own, by these images.
func workerImages() map[string]string {
	images := providers.OnWorkers(settings.programs, settings.registry, settings.tag)
	images[quickstart.HelloImage] = filepath.Join(settings.programs, "hello")
	return images
}

// loadWorkerImages gives hosts the workerImages.
func loadWorkerImages(ctx context.Context, hosts ...string) error {
	var errs []error
	for image, program := range workerImages() {
		errs = append(errs, env.lab.LoadProgram(ctx, image, program, hosts...))
	}
	return errors.Join(errs...)
}

// lendProgram puts a program in the place of a worker's own, which comes back with the end of the spec, or of its container:
// a host may outlast both. What runs goes on as it is.
func lendProgram(h *host.Host, program string) {
	GinkgoHelper()
	path := "/usr/local/bin/" + filepath.Base(program)
	wanted, err := os.ReadFile(program)
	Expect(err).NotTo(HaveOccurred())
	own, err := os.ReadFile(h.DiskPath(path))
	Expect(err).NotTo(HaveOccurred(), "%s of worker %s, which was there before", path, h.Name)
	if bytes.Equal(own, wanted) {
		return
	}
	Expect(h.WriteFile(path, wanted, 0o755)).To(Succeed())
	DeferCleanup(func() { Expect(h.WriteFile(path, own, 0o755)).To(Succeed()) })
}

// userOfAMachine is a user that goes with a machine.
const userOfAMachine = "deploy"

// usersOfAMachine are a new user who may become root, and the host's own one; both let a key in that nobody has.
func usersOfAMachine(own string) []bootstrapv1.User {
	key, _ := anotherKey()
	return []bootstrapv1.User{
		{Name: userOfAMachine, Sudo: "ALL=(ALL) NOPASSWD:ALL", SSHAuthorizedKeys: []string{key}},
		{Name: own, SSHAuthorizedKeys: []string{key}},
	}
}

// expectClean waits until a host is free, and looks at it: nothing of a node is left.
func expectClean(ctx context.Context, free *infrav1.IDCHost) {
	GinkgoHelper()
	expectFree(ctx, free)
	h := labHost(free.Name)
	look := func(argv ...string) string {
		output, err := h.Exec(ctx, nil, argv...)
		Expect(err).NotTo(HaveOccurred(), "%q on %s", argv, h.Name)
		return string(output)
	}
	// find ends with an error for each path that is not there.
	left, _ := h.Exec(ctx, nil, "find", "/etc/hostname", "/etc/kubernetes", "/var/lib/kubelet", "/etc/cni/net.d", "/etc/kok", "/etc/kok-apiserver-lb",
		"/var/lib/kok-infrastructure", "/var/lib/cloud/seed/nocloud", "-not", "-type", "d")
	Expect(string(left)).To(Equal("/etc/hostname\n"), "what is left of a node on %s", h.Name)
	Expect(look("grep", "^# User rules", "/etc/sudoers.d/90-cloud-init-users")).To(Equal("# User rules for debian\n"), "sudo rules beside those of the user that %s had before", h.Name)
	// kok-prepare.service is the lab's, and the host's own user has a file of no keys.
	Expect(look("find", "/home", "/etc/systemd/system", "-type", "f", "-size", "+0", "(", "-name", "authorized_keys", "-o", "-name", "kok-*", ")",
		"-not", "-name", "kok-prepare.service")).To(BeEmpty(), "keys and units on %s", h.Name)
	Expect(look("ip", "-brief", "link")).NotTo(Or(ContainSubstring("flannel"), ContainSubstring("cni0")), h.Name)
	Expect(look("nft", "list", "tables")).NotTo(Or(ContainSubstring("kube-proxy"), ContainSubstring("flannel")), h.Name)
	Expect(look("iptables-save")).NotTo(ContainSubstring("KUBE-"), h.Name)
	Expect(look("getent", "passwd")).NotTo(ContainSubstring(userOfAMachine+":"), h.Name)
	Expect(look("systemctl", "list-units", "--plain", "--no-legend", "--state=active,activating,failed", "kubelet.service", "kok-apiserver-lb*", "kok-bootstrap*", "kok-cloud-init*")).To(BeEmpty(), h.Name)
}

// right is something that somebody may ask the tenant for.
type right struct {
	verb, group, resource, subresource, namespace, name string
}

// Rights that nodes and machines that are to become nodes need, and some that none of them may have.
var (
	neededRights  = []right{{verb: "create", group: "certificates.k8s.io", resource: "certificatesigningrequests"}}
	nobodysRights = []right{
		{verb: "list", resource: "secrets"},
		{verb: "get", resource: "secrets", namespace: metav1.NamespaceSystem, name: "any"},
		{verb: "list", resource: "configmaps", namespace: metav1.NamespaceSystem},
		{verb: "create", resource: "pods", subresource: "exec", namespace: metav1.NamespaceDefault},
		{verb: "get", resource: "nodes", subresource: "proxy", name: "any"},
		{verb: "create", resource: "namespaces"},
		{verb: "impersonate", resource: "users", name: "admin"},
		{verb: "update", group: "certificates.k8s.io", resource: "certificatesigningrequests", subresource: "approval"},
		{verb: "create", group: "certificates.k8s.io", resource: "certificatesigningrequests", subresource: "nodeclient"},
		{verb: "create", group: "rbac.authorization.k8s.io", resource: "clusterrolebindings"},
		{verb: "create", group: "admissionregistration.k8s.io", resource: "mutatingwebhookconfigurations"},
	}
)

// expectRights asks the tenant what a node, and who has a bootstrap token, may do.
func (t *tenant) expectRights(ctx context.Context, node string) {
	GinkgoHelper()
	for user, groups := range map[string][]string{
		"system:node:" + node:     {"system:nodes", "system:authenticated"},
		"system:bootstrap:abcdef": {"system:bootstrappers", bootstraptokens.Group, "system:authenticated"},
	} {
		for allowed, rights := range map[bool][]right{true: neededRights, false: nobodysRights} {
			for _, r := range rights {
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User: user, Groups: groups, ResourceAttributes: &authorizationv1.ResourceAttributes{
						Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.subresource, Namespace: r.namespace, Name: r.name,
					},
				}}
				review, err := t.api.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
				Expect(review.Status.Allowed).To(Equal(allowed), "%s: %+v: %s", user, r, review.Status.Reason)
			}
		}
	}
}
