//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"golang.org/x/crypto/bcrypt"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/providers"
)

const (
	publishedVersion = "v0.2.0"
	pullSecret       = "registry"
	registryUser     = "somebody"
	registryHost     = "cloud-1"
	registryPort     = "5000"
	registryUnit     = "e2e-registry.service"
	registryFolder   = "/var/lib/e2e-registry"
	registryProgram  = "/usr/local/bin/e2e-registry"
)

// registryConfig is that of distribution: https://distribution.github.io/distribution/about/configuration. registryPassword is
// what it has more when it asks for one.
const (
	registryPassword = `auth:
  htpasswd: {realm: e2e, path: ` + registryFolder + `/htpasswd}
`
	registryConfig = `version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: ` + registryFolder + `/images}
http:
  addr: :` + registryPort + `
  secret: ` + registryUnit + `
  tls: {certificate: ` + registryFolder + `/tls.crt, key: ` + registryFolder + `/tls.key}
`
)

// What is published is installed as a stranger does: from out/release and a registry, by nodes that never had the images.
var _ = Describe("A release in a registry", Ordered, Label(install), func() {
	t := newTenant("published", "v1.36.3", single())
	r := &registry{}
	// The pods of etcd pull the agent's image from it. The variable of clusterctl init is enough.
	t.variables["KOK_IMAGE_PULL_SECRET"] = pullSecret
	t.prepare = func(ctx context.Context) { r.giveTenant(ctx, t.Namespace) }
	folder, err := filepath.Abs("out/release")

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		expectNobodyElse(ctx)
		Expect(err).NotTo(HaveOccurred())
		// Another commit makes other images: nodes must not have them from an earlier run.
		Expect(env.run(ctx, "make", "release", "VERSION="+publishedVersion, "GIT_COMMIT=e2e-"+rand.Text())).To(Succeed())
		r.start(ctx)
		DeferCleanup(func(ctx SpecContext) {
			if !settings.keep {
				reinstall(ctx)
			}
		}, NodeTimeout(4*creation))
		reinstall(ctx)
	}, NodeTimeout(2*building))
	removeAfter(t) // before the providers go

	It("is not pushed with a wrong password, to a registry that is not trusted, or to none, and make push says why", func(ctx SpecContext) {
		r.expectPushed(ctx, r.address, "guess", r.authorities, "has to have a user and a password for "+r.address)
		r.expectPushed(ctx, r.address, r.password, "", "CA_FILE=... names the file")
		r.expectPushed(ctx, r.address, r.password, filepath.Join(folder, "SHA256SUMS"), "has no certificate in PEM format")
		r.expectPushed(ctx, net.JoinHostPort(r.host.Address.String(), "1"), r.password, r.authorities, "connection refused")
	})

	It("is pushed by make push, again and again", func(ctx SpecContext) {
		r.expectPushed(ctx, r.address, r.password, r.authorities, "")
		r.expectPushed(ctx, r.address, r.password, r.authorities, "")
	})

	It("comes by clusterctl upgrade, and without a password the managers' pods say so", func(ctx SpecContext) {
		r.clusterctl(ctx, folder, "upgrade", "apply")
		expectPullProblem(ctx, "401 Unauthorized")
	}, SpecTimeout(2*creation))

	It("does not run with a wrong password, and the pods say so", func(ctx SpecContext) {
		r.giveManagers(ctx, "guess")
		expectPullProblem(ctx, "401 Unauthorized")
	}, SpecTimeout(creation))

	It("does not run with an image that is cut short, and the pods say so", func(ctx SpecContext) {
		blobs := r.layers(folder)
		for _, blob := range blobs {
			r.exec(ctx, "mv", filepath.Join(blob, "data"), filepath.Join(blob, "whole"))
			r.exec(ctx, "cp", filepath.Join(blob, "whole"), filepath.Join(blob, "data"))
			r.exec(ctx, "truncate", "--size=1000", filepath.Join(blob, "data"))
		}
		r.giveManagers(ctx, r.password)
		expectPullProblem(ctx, "unexpected EOF")
		for _, blob := range blobs {
			r.exec(ctx, "mv", filepath.Join(blob, "whole"), filepath.Join(blob, "data"))
		}
	}, SpecTimeout(2*creation))

	It("does not run where the registry lacks its image, and the pods name it", func(ctx SpecContext) {
		lacked := providers.Own("", r.address+"/kok", "")[0]
		image, _, _ := strings.Cut(strings.TrimPrefix(lacked.Image, r.address+"/kok/"), ":")
		repository := filepath.Join(registryFolder, "images/docker/registry/v2/repositories/kok", image)
		r.exec(ctx, "mv", repository, repository+"-away")
		r.giveManagers(ctx, r.password)
		expectPullProblemOf(ctx, lacked.Manager, And(ContainSubstring(r.address+"/kok/"+image+"@sha256:"), ContainSubstring("not found")))
		r.exec(ctx, "mv", repository+"-away", repository)
	}, SpecTimeout(2*creation))

	It("runs, with images that nodes pulled by digest", func(ctx SpecContext) {
		r.giveManagers(ctx, r.password)
		r.expectRunning(ctx)
	}, SpecTimeout(2*creation))

	It("comes by clusterctl init as well, and nodes pull it with the password that the managers have", func(ctx SpecContext) {
		uninstallAll(ctx)
		r.forgetImages(ctx)
		r.clusterctl(ctx, folder, "init")
		expectPullProblem(ctx, "401 Unauthorized")
		r.giveManagers(ctx, r.password)
		r.expectRunning(ctx)
	}, SpecTimeout(5*creation))

	It("makes a tenant", func(ctx SpecContext) {
		t.create(ctx)
		t.expectAllWell(ctx, env.client)
	}, SpecTimeout(2*creation))
})

// reinstall installs the providers that the suite was given, and leaves nothing of another release.
func reinstall(ctx context.Context) {
	GinkgoHelper()
	uninstallAll(ctx)
	installGiven(ctx)
}

// installGiven installs the providers that the suite was given.
func installGiven(ctx context.Context) {
	GinkgoHelper()
	given := newRelease(todaysTree(), settings.programs)
	Expect(env.installer(settings.repository, given.version, given.providers).Install(ctx)).To(Succeed())
}

// registry is distribution's, with TLS, and with a password unless it is open, on a host of the lab.
type registry struct {
	host *host.Host
	// address is the host's, with the port; authorities the file with the certificate that signs the registry's.
	address, authorities string
	password             string
	// open lets everybody in without a password.
	open bool
}

// start starts the registry, and tells all nodes to trust its certificate.
func (r *registry) start(ctx context.Context) {
	GinkgoHelper()
	cache, err := artifacts.CacheDir()
	Expect(err).NotTo(HaveOccurred())
	program, err := artifacts.EnsureRegistry(ctx, cache, func(step string) { env.log.Print("%s", step) })
	Expect(err).NotTo(HaveOccurred())
	r.host, err = env.lab.Host(registryHost)
	Expect(err).NotTo(HaveOccurred())
	r.address = net.JoinHostPort(r.host.Address.String(), registryPort)
	r.password = rand.Text()
	hash, err := bcrypt.GenerateFromPassword([]byte(r.password), bcrypt.MinCost)
	Expect(err).NotTo(HaveOccurred())
	certificate, key, err := cert.GenerateSelfSignedCertKey(r.host.Address.String(), nil, nil)
	Expect(err).NotTo(HaveOccurred())
	r.authorities = filepath.Join(GinkgoT().TempDir(), "ca.crt")
	Expect(os.WriteFile(r.authorities, certificate, 0o600)).To(Succeed())
	binary, err := os.ReadFile(program)
	Expect(err).NotTo(HaveOccurred())
	config := registryConfig
	if !r.open {
		config += registryPassword
	}

	DeferCleanup(func(ctx SpecContext) {
		if !settings.keep {
			r.remove(ctx)
		}
	})
	r.remove(ctx)
	for file, content := range map[string][]byte{
		registryProgram: binary, "config.yml": []byte(config), "htpasswd": fmt.Appendf(nil, "%s:%s\n", registryUser, hash),
		"tls.crt": certificate, "tls.key": key,
	} {
		if !filepath.IsAbs(file) {
			file = filepath.Join(registryFolder, file)
		}
		put(ctx, r.host, file, "0700", content)
	}
	r.exec(ctx, "systemd-run", "--unit="+registryUnit, registryProgram, "serve", filepath.Join(registryFolder, "config.yml"))
	hosts := "server = \"https://" + r.address + "\"\nca = \"" + r.trustFolder() + "/ca.crt\"\n"
	for _, node := range r.nodes() {
		put(ctx, node, filepath.Join(r.trustFolder(), "ca.crt"), "0644", certificate)
		put(ctx, node, filepath.Join(r.trustFolder(), "hosts.toml"), "0644", []byte(hosts))
	}
	Eventually(ctx, func() error {
		connection, err := net.DialTimeout("tcp", r.address, time.Second)
		if err == nil {
			err = connection.Close()
		}
		return err
	}).Should(Succeed(), "the registry does not listen")
}

// trustFolder is where containerd reads how to reach the registry.
func (r *registry) trustFolder() string { return "/etc/containerd/certs.d/" + r.address }

// nodes are the hosts of the host cluster.
func (r *registry) nodes() []*host.Host {
	GinkgoHelper()
	hosts, err := env.lab.Hosts()
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(hosts, (*host.Host).Worker)
}

// remove leaves nothing of the registry on any host.
func (r *registry) remove(ctx context.Context) {
	GinkgoHelper()
	_, err := r.host.Exec(ctx, nil, "systemctl", "stop", registryUnit)
	if err != nil {
		Expect(err).To(MatchError(ContainSubstring("not loaded")))
	}
	r.exec(ctx, "rm", "-rf", registryFolder, registryProgram)
	for _, node := range r.nodes() {
		_, err := node.Exec(ctx, nil, "rm", "-rf", r.trustFolder())
		Expect(err).NotTo(HaveOccurred())
	}
}

// put writes a file on a host.
func put(ctx context.Context, h *host.Host, file, mode string, content []byte) {
	GinkgoHelper()
	_, err := h.Exec(ctx, bytes.NewReader(content), "install", "-D", "--mode="+mode, "/dev/stdin", file)
	Expect(err).NotTo(HaveOccurred())
}

func (r *registry) exec(ctx context.Context, argv ...string) {
	GinkgoHelper()
	_, err := r.host.Exec(ctx, nil, argv...)
	Expect(err).NotTo(HaveOccurred())
}

// dockerConfig is docker's configuration file with a password for a registry.
func dockerConfig(address, password string) []byte {
	GinkgoHelper()
	config, err := json.Marshal(map[string]any{"auths": map[string]any{
		address: map[string]string{"username": registryUser, "password": password},
	}})
	Expect(err).NotTo(HaveOccurred())
	return config
}

// expectPushed runs make push, which succeeds, or has a problem.
func (r *registry) expectPushed(ctx context.Context, address, password, authorities, problem string) {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	Expect(os.WriteFile(filepath.Join(folder, "config.json"), dockerConfig(address, password), 0o600)).To(Succeed())
	push := env.command(ctx, "make", "push", "REGISTRY="+address+"/kok", "CA_FILE="+authorities)
	push.Env = append(push.Env, "DOCKER_CONFIG="+folder)
	push.Stderr = nil
	output, err := push.CombinedOutput()
	env.log.Print("%s", output)
	if problem == "" {
		Expect(err).NotTo(HaveOccurred())
		return
	}
	Expect(err).To(HaveOccurred())
	Expect(string(output)).To(ContainSubstring(problem))
	Expect(string(output)).NotTo(ContainSubstring(password))
}

// giveManagers gives every manager a Secret with a password for the registry, and a new pod, which pulls at once.
func (r *registry) giveManagers(ctx context.Context, password string) {
	GinkgoHelper()
	for _, p := range providers.Own("", "", "") {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.Manager.Namespace, Name: pullSecret}}
		_, err := controllerutil.CreateOrUpdate(ctx, env.client, secret, func() error {
			secret.Type = corev1.SecretTypeDockerConfigJson
			secret.Data = map[string][]byte{corev1.DockerConfigJsonKey: dockerConfig(r.address, password)}
			return nil
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(env.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(p.Manager.Namespace))).To(Succeed())
	}
}

// giveTenant gives a tenant a Secret with the password for the registry, which its addons may have.
func (r *registry) giveTenant(ctx context.Context, namespace string) {
	GinkgoHelper()
	Expect(env.client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pullSecret, Labels: map[string]string{giveaway.Label: "true"}},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: dockerConfig(r.address, r.password)},
	})).To(Succeed())
}

// clusterctl has clusterctl install the published release, from its folder alone.
func (r *registry) clusterctl(ctx context.Context, folder string, command ...string) {
	GinkgoHelper()
	c := env.command(ctx, env.clusterctl, append(command, "--config", filepath.Join(folder, "clusterctl.yaml"),
		"--control-plane", "kok:"+publishedVersion, "--bootstrap", "kok:"+publishedVersion, "--infrastructure", "idc:"+publishedVersion)...)
	c.Env = append(c.Env, "KOK_RELEASE="+folder, "KOK_IMAGE_REGISTRY="+r.address+"/kok", "KOK_IMAGE_PULL_SECRET="+pullSecret)
	Expect(c.Run()).To(Succeed())
}

// expectRunning waits until every manager is of the published release, and has its image by digest.
func (r *registry) expectRunning(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		installed, err := installedVersions(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		for _, p := range providers.Own("", "", "") {
			g.Expect(installed).To(HaveKeyWithValue(p.Label, publishedVersion))
			pods := podsOf(ctx, g, p.Manager)
			g.Expect(pods).To(HaveLen(1), "pods of %s", p.Manager)
			g.Expect(isReady(&pods[0])).To(BeTrue(), "pod %s is not ready", pods[0].Name)
			g.Expect(pods[0].Spec.Containers[0].Image).To(And(HavePrefix(r.address+"/kok/kok-"), ContainSubstring("@sha256:")))
		}
	}).WithTimeout(creation).Should(Succeed())
}

// forgetImages takes from all Nodes the images that they pulled from the registry.
func (r *registry) forgetImages(ctx context.Context) {
	GinkgoHelper()
	nodes := &corev1.NodeList{}
	listAll(ctx, nodes)
	for i := range nodes.Items {
		node := labHost(nodes.Items[i].Name)
		listed, err := node.Exec(ctx, nil, "ctr", "--namespace", "k8s.io", "images", "list", "--quiet")
		Expect(err).NotTo(HaveOccurred(), node.Name)
		pulled := slices.DeleteFunc(strings.Fields(string(listed)), func(image string) bool { return !strings.HasPrefix(image, r.address+"/") })
		if len(pulled) > 0 {
			_, err = node.Exec(ctx, nil, append([]string{"ctr", "--namespace", "k8s.io", "images", "remove", "--sync"}, pulled...)...)
			Expect(err).NotTo(HaveOccurred(), node.Name)
		}
	}
}

// podsOf are the pods of a Deployment.
func podsOf(ctx context.Context, g Gomega, key client.ObjectKey) []corev1.Pod {
	deployment, pods := &appsv1.Deployment{}, &corev1.PodList{}
	g.Expect(env.client.Get(ctx, key, deployment)).To(Succeed())
	g.Expect(env.client.List(ctx, pods, client.InNamespace(key.Namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels))).To(Succeed())
	return pods.Items
}

// expectPullProblem waits until the pods of all managers say why they have no image.
func expectPullProblem(ctx context.Context, problem string) {
	GinkgoHelper()
	for _, p := range providers.Own("", "", "") {
		expectPullProblemOf(ctx, p.Manager, ContainSubstring(problem))
	}
}

// expectPullProblemOf waits until a pod of a manager says why it has no image.
func expectPullProblemOf(ctx context.Context, manager client.ObjectKey, problem types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		var said []string
		for _, pod := range podsOf(ctx, g, manager) {
			for _, container := range pod.Status.ContainerStatuses {
				if waiting := container.State.Waiting; waiting != nil {
					said = append(said, waiting.Message)
				}
			}
		}
		g.Expect(said).To(ContainElement(problem), "pods of %s", manager)
	}).WithTimeout(creation).Should(Succeed())
}

// layers are the folders in which the registry keeps the programs of the images for this machine's architecture.
func (r *registry) layers(release string) []string {
	GinkgoHelper()
	images, err := layout.ImageIndexFromPath(filepath.Join(release, "images"))
	Expect(err).NotTo(HaveOccurred())
	all, err := images.IndexManifest()
	Expect(err).NotTo(HaveOccurred())
	var folders []string
	for _, described := range all.Manifests {
		if !described.MediaType.IsIndex() {
			continue // a signature
		}
		index, err := images.ImageIndex(described.Digest)
		Expect(err).NotTo(HaveOccurred())
		found, err := partial.FindImages(index, match.Platforms(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(HaveLen(1))
		layers, err := found[0].Layers()
		Expect(err).NotTo(HaveOccurred())
		digest, err := layers[len(layers)-1].Digest()
		Expect(err).NotTo(HaveOccurred())
		folders = append(folders, filepath.Join(registryFolder, "images/docker/registry/v2/blobs/sha256", digest.Hex[:2], digest.Hex))
	}
	return folders
}
