// Package workers makes machines of the lab known to Cluster API: each is an IDCHost that a tenant's
// Machines may claim. For bare ones it describes what they install themselves, from a mirror of the lab.
package workers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/progress"
)

// KeySecret is the Secret with the SSH key that all workers of the lab let in.
const KeySecret = "lab-ssh"

// Pool is the lab's workers, as IDCHosts of one namespace.
type Pool struct {
	Lab    *lab.Lab
	Client client.Client
	// Namespace is that of the IDCHosts: machines of Clusters in it can have them.
	Namespace string
	// Owner is set where workers are for one program alone (host.Host.Owner): no others are used, nor by others.
	Owner string
	// Programs are installed on new workers, such as kok-apiserver-lb.
	Programs []string
	// Load, if it is set, gives workers the images that no registry has, before machines can have them: those that come
	// later go with a machine.
	Load func(ctx context.Context, names ...string) error
	Log  *progress.Log
}

// Ensure makes the pool have at least a number of workers, and returns the names of all. Those that are
// there already are kept, those that machines of another namespace have are left to them.
func (p *Pool) Ensure(ctx context.Context, count int) (names []string, err error) {
	if names, err = p.there(ctx, ""); err != nil {
		return nil, err
	}
	for len(names) < count {
		added, err := p.Lab.AddWorker(ctx, p.Owner, p.Programs, func(step string) { p.Log.Print("%s", step) })
		if err != nil {
			return nil, fmt.Errorf("add a worker to the lab: %w", err)
		}
		names = append(names, added.Name)
	}
	if p.Load != nil {
		if err := p.Load(ctx, names...); err != nil {
			return nil, fmt.Errorf("load images into workers of the lab: %w", err)
		}
	}
	return names, p.registerAll(ctx, names)
}

// EnsureBare makes the pool have at least a number of bare workers with a system, and returns the names of all that have it.
// They get no programs and no images: all comes with their machines.
func (p *Pool) EnsureBare(ctx context.Context, system string, count int) (names []string, err error) {
	if names, err = p.there(ctx, system); err != nil {
		return nil, err
	}
	for len(names) < count {
		added, err := p.Lab.AddBare(ctx, p.Owner, system, func(step string) { p.Log.Print("%s", step) })
		if err != nil {
			return nil, fmt.Errorf("add a bare worker to the lab: %w", err)
		}
		names = append(names, added.Name)
	}
	return names, p.registerAll(ctx, names)
}

// there are the workers with a system, or with software, that the pool has already.
func (p *Pool) there(ctx context.Context, system string) ([]string, error) {
	all, err := p.Lab.Hosts()
	if err != nil {
		return nil, err
	}
	known := &infrav1.IDCHostList{}
	if err := p.Client.List(ctx, known); err != nil {
		return nil, fmt.Errorf("list IDCHosts: %w", err)
	}
	return p.usable(system, all, known.Items), nil
}

func (p *Pool) registerAll(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := p.register(ctx, name); err != nil {
			return err
		}
	}
	p.Log.Print("%d IDCHosts in namespace %s", len(names), p.Namespace)
	return nil
}

// SystemLabel is on IDCHosts of bare workers. Its value is the system.
const SystemLabel = "example.com/system"

// usable are the workers of the lab that the pool may have: bare ones with a system, or those with software.
func (p *Pool) usable(system string, all []*host.Host, known []infrav1.IDCHost) (names []string) {
	taken := map[string]bool{}
	for i := range known {
		taken[known[i].Name] = taken[known[i].Name] || known[i].Namespace != p.Namespace && known[i].Spec.Claim != nil
	}
	for _, h := range all {
		if h.Worker() && h.System == system && h.Owner == p.Owner && !taken[h.Name] {
			names = append(names, h.Name)
		}
	}
	return names
}

// register writes what a person writes to make a machine known: its address, its host key, and a Secret
// with the key that it lets in.
func (p *Pool) register(ctx context.Context, name string) error {
	access, err := p.Lab.WorkerAccess(name)
	if err != nil {
		return fmt.Errorf("read how worker %s is reached: %w", name, err)
	}
	h, err := p.Lab.Host(name)
	if err != nil {
		return err
	}
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: KeySecret}}
	if _, err := controllerutil.CreateOrPatch(ctx, p.Client, key, func() error {
		key.Type = corev1.SecretTypeSSHAuth
		key.Data = map[string][]byte{corev1.SSHAuthPrivateKey: access.PrivateKey}
		return nil
	}); err != nil {
		return fmt.Errorf("write Secret %s: %w", client.ObjectKeyFromObject(key), err)
	}
	known := &infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name}}
	if _, err := controllerutil.CreateOrPatch(ctx, p.Client, known, func() error {
		known.Spec.SSHServer = infrav1.SSHServer{
			Address: access.Address, Port: 22, User: access.User,
			KeySecretRef: infrav1.SecretReference{Name: KeySecret}, HostKeys: []string{access.HostKey},
		}
		known.Spec.FailureDomain = host.SiteIDC
		if h.System != "" {
			metav1.SetMetaDataLabel(&known.ObjectMeta, SystemLabel, h.System)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("write IDCHost %s: %w", client.ObjectKeyFromObject(known), err)
	}
	return nil
}
