package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/mirror"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

const (
	// system is what bare hosts run.
	system = "debian-12"
	// release is the version that the mirror has this tree's programs as.
	release = "v0.1.0"
)

// joinBare has machines join on hosts with nothing but their distribution, in place of those that have their software. All
// that they install, and the images of their pods, comes from a mirror beside them. parts says where their time went.
func (b *bench) joinBare(ctx context.Context) (took map[string]time.Duration, parts parts, err error) {
	if err := b.leave(ctx); err != nil {
		return nil, parts, err
	}
	folder, err := os.MkdirTemp("", "kok-bench-join-")
	if err != nil {
		return nil, parts, err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // a temporary folder
	content, err := mirror.Prepare(ctx, folder, mirror.Sources{
		Kubernetes: []string{b.Tenant.Version}, Programs: b.programs, ReleaseVersion: release, Images: b.Set.WorkerImages,
	}, func(step string) { b.Log.Print("%s", step) })
	if err != nil {
		return nil, parts, err
	}
	m, err := mirror.Start(ctx, b.Lab, content)
	if err != nil {
		return nil, parts, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	pool := &workers.Pool{Lab: b.Lab, Client: b.Client, Namespace: name, Owner: name, Log: b.Log}
	if _, err := pool.EnsureBare(ctx, system, b.together); err != nil {
		return nil, parts, err
	}
	if err := b.useSoftware(ctx, m); err != nil {
		return nil, parts, err
	}
	if err := b.waitFree(ctx, b.together); err != nil {
		return nil, parts, err
	}
	if took, err = b.join(ctx, b.together); err != nil {
		return nil, parts, err
	}
	parts, err = b.parts(ctx, took)
	return took, parts, err
}

// leave removes all machines, and the hosts that they had.
func (b *bench) leave(ctx context.Context) error {
	if err := b.patchMachines(ctx, `{"spec":{"replicas":0}}`); err != nil {
		return err
	}
	err := b.Log.Wait(ctx, "the end of the machines", limit, nil, func(ctx context.Context) (bool, string, error) {
		left, err := b.machines(ctx)
		return len(left) == 0, fmt.Sprintf("%d are left", len(left)), err
	})
	if err != nil {
		return err
	}
	if err := b.Client.DeleteAllOf(ctx, &infrav1.IDCHost{}, client.InNamespace(name)); err != nil {
		return fmt.Errorf("delete the IDCHosts in namespace %s: %w", name, err)
	}
	return b.RemoveOwned(ctx, name)
}

// useSoftware has the machines to come install what the mirror has, and pull images from it.
func (b *bench) useSoftware(ctx context.Context, m *mirror.Mirror) error {
	described, err := m.Software(ctx, name, name, b.Tenant.Version)
	if err != nil {
		return err
	}
	if err := b.Client.Create(ctx, described); err != nil {
		return fmt.Errorf("make KOKSoftware %s: %w", client.ObjectKeyFromObject(described), err)
	}
	template := &bootstrapv1.KOKConfigTemplate{}
	if err := b.Client.Get(ctx, client.ObjectKey{Namespace: name, Name: name + "-workers"}, template); err != nil {
		return err
	}
	next := &bootstrapv1.KOKConfigTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name + "-bare"}, Spec: *template.Spec.DeepCopy()}
	next.Spec.Template.Spec.Software = bootstrapv1.SoftwareSpec{Mode: bootstrapv1.SoftwareDescribed, ByVersion: name}
	next.Spec.Template.Spec.RegistryMirrors = workers.RegistryMirrors(m)
	if err := b.Client.Create(ctx, next); err != nil {
		return fmt.Errorf("make KOKConfigTemplate %s: %w", client.ObjectKeyFromObject(next), err)
	}
	return b.patchMachines(ctx, fmt.Sprintf(`{"spec":{"template":{"spec":{"bootstrap":{"configRef":{"name":%q}}}}}}`, next.Name))
}

// patchMachines changes the MachineDeployment.
func (b *bench) patchMachines(ctx context.Context, fields string) error {
	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name + "-workers"}}
	return b.Client.Patch(ctx, deployment, client.RawPatch(types.MergePatchType, []byte(fields)))
}
