//go:build e2e

package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

// Files on the host that its bootstrap looks for.
const (
	// holdFile keeps the bootstrap waiting while it is there, failFile makes it fail.
	holdFile = "/etc/lab-hold"
	failFile = "/etc/lab-fail"

	rackHasNoPower = "the rack has no power"
	preKubelet     = "while [ -e " + holdFile + " ]; do sleep 1; done\n" +
		"if [ -e " + failFile + " ]; then echo " + rackHasNoPower + " >&2; exit 3; fi"
)

// onlyWorker is a tenant for which one host is there.
type onlyWorker struct {
	*tenant
	worker *host.Host
	access *lab.Access
	// host is the IDCHost.
	host client.ObjectKey
}

// prepare makes the tenant, without Machines, and the host, which is free.
func (w *onlyWorker) prepare(ctx context.Context) {
	GinkgoHelper()
	w.create(ctx)
	w.scale(ctx, 0)
	w.changeBootstrap(ctx)
	pool := &workers.Pool{
		Lab: env.lab, Client: env.client, Namespace: w.Namespace, Log: env.log,
		Programs: []string{filepath.Join(settings.programs, "kok-apiserver-lb")},
	}
	names, err := pool.Ensure(ctx, 1)
	Expect(err).NotTo(HaveOccurred())
	// The lab may have more: this tenant knows one.
	for _, name := range names[1:] {
		Expect(env.client.Delete(ctx, &infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}})).To(Succeed())
	}
	w.host = client.ObjectKey{Namespace: w.Namespace, Name: names[0]}
	w.worker = labHost(names[0])
	w.access, err = env.lab.WorkerAccess(names[0])
	Expect(err).NotTo(HaveOccurred())
	Expect(w.quickstart().InstallNetwork(ctx, env.network)).To(Succeed())
}

// changeBootstrap gives the Machines to come a command that can be held and can be made to fail.
func (w *onlyWorker) changeBootstrap(ctx context.Context) {
	GinkgoHelper()
	template := &bootstrapv1.KOKConfigTemplate{}
	get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name + "-workers"}, template)
	next := &bootstrapv1.KOKConfigTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name + "-may-fail"}, Spec: *template.Spec.DeepCopy(),
	}
	next.Spec.Template.Spec.PreKubeletCommands = []string{preKubelet}
	Expect(env.client.Create(ctx, next)).To(Succeed())
	patch(ctx, w.machineDeployment(), fmt.Sprintf(`{"spec":{"template":{"spec":{"bootstrap":{"configRef":{"name":%q}}}}}}`, next.Name))
}

// fault is something that is wrong with a host.
type fault struct {
	name string
	// condition of the IDCHost that is false while it lasts, with the reason and these parts of the message.
	condition, reason string
	says              []string
	// cause and undo make it and put it right; undo does nothing when nothing is wrong.
	cause, undo func(ctx context.Context)
	// whileClaimed is whether it can also come while cloud-init works, and go without a trace.
	whileClaimed bool
}

func (w *onlyWorker) faults() []fault {
	const stateOfCloudInit = "/var/lib/cloud"
	return []fault{
		{
			name: "another host key than those that are pinned", whileClaimed: true,
			condition: infrav1.ReachableCondition, reason: infrav1.HostKeyMismatchReason,
			says:  []string{"has the host key SHA256:", "which is not among hostKeys", "put the new ones into hostKeys"},
			cause: func(ctx context.Context) { public, _ := anotherKey(); w.setHostKeys(ctx, public) },
			undo:  func(ctx context.Context) { w.setHostKeys(ctx, w.access.HostKey) },
		}, {
			name: "a key in the Secret that it does not accept", whileClaimed: true,
			condition: infrav1.ReachableCondition, reason: infrav1.AuthenticationFailedReason,
			says:  []string{"does not accept the key", "authorized_keys", "put the right key into the Secret"},
			cause: func(ctx context.Context) { _, private := anotherKey(); w.setKey(ctx, private) },
			undo:  func(ctx context.Context) { w.setKey(ctx, w.access.PrivateKey) },
		}, {
			name: "a user who may not become root", whileClaimed: true,
			condition: infrav1.HealthyCondition, reason: infrav1.SudoMissingReason,
			says:  []string{"may not run commands as root without a password", "NOPASSWD: ALL", "/etc/sudoers.d"},
			cause: func(context.Context) { w.setSudo("# nobody\n") },
			undo:  func(context.Context) { w.setSudo(w.access.User + " ALL=(ALL) NOPASSWD:ALL\n") },
		}, {
			name:      "no room for what cloud-init reads",
			condition: infrav1.HealthyCondition, reason: infrav1.DiskFullReason,
			says: []string{"the file system of " + stateOfCloudInit + " has 0 MiB free", "1024 MiB are needed", "make room on it"},
			cause: func(ctx context.Context) {
				w.exec(ctx, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", stateOfCloudInit)
				w.exec(ctx, "fallocate", "--length", "1000KiB", stateOfCloudInit+"/full")
			},
			undo: func(ctx context.Context) {
				if _, err := w.worker.Exec(ctx, nil, "mountpoint", "--quiet", stateOfCloudInit); err == nil {
					w.exec(ctx, "umount", stateOfCloudInit)
				}
			},
		}, {
			name:      "no power",
			condition: infrav1.ReachableCondition, reason: infrav1.HostAwayReason,
			says:  []string{"cannot be reached", "check that it is switched on, its address, its network and its SSH server"},
			cause: func(ctx context.Context) { Expect(env.lab.PowerOff(ctx, w.host.Name)).To(Succeed()) },
			undo:  func(ctx context.Context) { Expect(env.lab.PowerOn(ctx, w.host.Name)).To(Succeed()) },
		},
	}
}

// anotherKey is a key pair that nobody knows: the public key in one line, and the private key in OpenSSH's format.
func anotherKey() (public string, private []byte) {
	GinkgoHelper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	block, err := ssh.MarshalPrivateKey(key, "")
	Expect(err).NotTo(HaveOccurred())
	signer, err := ssh.NewSignerFromKey(key)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))), pem.EncodeToMemory(block)
}

func (w *onlyWorker) setSudo(rule string) {
	GinkgoHelper()
	Expect(w.worker.WriteFile("/etc/sudoers.d/"+w.access.User, []byte(rule), 0o440)).To(Succeed())
}

func (w *onlyWorker) exec(ctx context.Context, argv ...string) {
	GinkgoHelper()
	_, err := w.worker.Exec(ctx, nil, argv...)
	Expect(err).NotTo(HaveOccurred())
}

// write puts an empty file on the host until the end of the spec, or until it is removed.
func (w *onlyWorker) write(ctx context.Context, path string) {
	GinkgoHelper()
	w.exec(ctx, "touch", path)
	DeferCleanup(func(ctx SpecContext) { w.removeFile(ctx, path) }, NodeTimeout(join))
}

func (w *onlyWorker) removeFile(ctx context.Context, path string) {
	GinkgoHelper()
	w.exec(ctx, "rm", "--force", path)
}

// holdCloudInit makes a Machine whose bootstrap waits in cloud-init, and returns its name.
func (w *onlyWorker) holdCloudInit(ctx context.Context) string {
	GinkgoHelper()
	w.write(ctx, holdFile)
	w.scale(ctx, 1)
	w.expectHeld(ctx)
	return w.machines(ctx)[0].Name
}

func (w *onlyWorker) expectHeld(ctx context.Context) {
	GinkgoHelper()
	w.expectWaiting(ctx, infrav1.BootstrappedCondition, infrav1.BootstrappingReason, "on IDCHost "+w.host.Name+" cloud-init: stage modules-final")
}
