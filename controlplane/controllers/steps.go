package controllers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubecontrollermanager"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubescheduler"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rendering"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/pki"
)

// Steps of a reconcile besides the components, which are steps of their own names.
const (
	stepKeyMaterial   = "key-material"
	stepPorts         = "ports"
	stepEndpoint      = "endpoint"
	stepCertificates  = "certificates"
	stepKubeconfig    = "kubeconfig"
	stepLoadBalancer  = "load-balancer"
	stepTenantObjects = "tenant-objects"
	stepAddons        = "addons"
)

// graph is the order in which a control plane is made. What does not depend on each other runs
// together. While one waits or fails, those after it adopt nothing new, and keep up what is stored of them.
func (r *Reconciler) graph() *flow.Graph[*scope] {
	return flow.New(observeStep,
		flow.Step[*scope]{Name: stepKeyMaterial, Run: r.ensureKeyMaterial},
		// Key material tells whether anything was ever made in a host cluster: it is made before all else.
		flow.Step[*scope]{Name: stepPorts, After: []string{stepKeyMaterial}, Run: r.claimPorts, Keep: keepHosted(r.claimPorts)},
		flow.Step[*scope]{Name: stepEndpoint, After: []string{stepPorts}, Run: r.applyServices, Keep: r.keepServices},
		flow.Step[*scope]{Name: stepCertificates, After: []string{stepKeyMaterial, stepEndpoint}, Run: r.ensureCertificates},
		flow.Step[*scope]{Name: stepKubeconfig, After: []string{stepKeyMaterial, stepEndpoint}, Run: r.ensureKubeconfig},
		flow.Step[*scope]{Name: names.EtcdData, After: []string{stepCertificates}, Run: r.applyEtcd(etcd.Data), Keep: r.keepEtcd(etcd.Data)},
		flow.Step[*scope]{Name: names.EtcdEvents, After: []string{stepCertificates}, Run: r.applyEtcd(etcd.Events), Keep: r.keepEtcd(etcd.Events)},
		flow.Step[*scope]{Name: names.KubeAPIServer, After: []string{names.EtcdData, names.EtcdEvents}, Run: applyComponent(kubeapiserver.Component), Keep: keepComponent(kubeapiserver.Component)},
		flow.Step[*scope]{Name: names.KubeControllerManager, After: []string{names.KubeAPIServer}, Run: applyComponent(kubecontrollermanager.Component), Keep: keepComponent(kubecontrollermanager.Component)},
		flow.Step[*scope]{Name: names.KubeScheduler, After: []string{names.KubeAPIServer}, Run: applyComponent(kubescheduler.Component), Keep: keepComponent(kubescheduler.Component)},
		flow.Step[*scope]{Name: stepLoadBalancer, After: []string{names.KubeAPIServer}, Run: r.ensureLoadBalancer, Keep: r.keepLoadBalancer},
		flow.Step[*scope]{Name: stepTenantObjects, After: []string{names.KubeAPIServer, stepKubeconfig}, Run: r.applyTenantObjects},
		flow.Step[*scope]{Name: stepAddons, After: []string{stepTenantObjects}, Run: r.applyAddons},
	)
}

// keepHosted goes on with a step that needs no keys while they are lost, once the control plane itself tells that
// something was made.
func keepHosted(run func(context.Context, *scope) (string, error)) func(context.Context, *scope) error {
	return func(ctx context.Context, s *scope) error {
		if !tellsHosted(s.controlPlane) {
			return nil
		}
		_, err := run(ctx, s)
		return err
	}
}

// keepServices goes on with Services while keys are lost, and not while their ports are not known.
func (r *Reconciler) keepServices(ctx context.Context, s *scope) error {
	if s.input.Ports == (ports.Ports{}) {
		return nil
	}
	return keepHosted(r.applyServices)(ctx, s)
}

func (r *Reconciler) ensureKeyMaterial(ctx context.Context, s *scope) (string, error) {
	keys, err := s.store.Ensure(ctx, pki.Request{
		Cluster:    s.key,
		Owner:      s.owner(),
		HostOwner:  s.hostOwner(),
		Encryption: s.controlPlane.Spec.EncryptionAtRest,
		UsedBy: func(ctx context.Context) (string, error) {
			return keysUsedBy(ctx, s)
		},
	})
	if err != nil {
		return "", err
	}
	s.keys = keys
	// One event each: Kubernetes folds events of one reason into a series, and keeps only the first text.
	if len(keys.Generated) > 0 {
		r.recorder.Eventf(s.controlPlane, nil, corev1.EventTypeNormal, "KeyMaterialGenerated", "GenerateKey",
			"Generated %s", strings.Join(keys.Generated, ", "))
	}
	if len(keys.Copied) > 0 {
		copied := make([]string, 0, len(keys.Copied))
		for _, where := range keys.Copied {
			copied = append(copied, where.String())
		}
		r.recorder.Eventf(s.controlPlane, nil, corev1.EventTypeWarning, "KeyMaterialRestored", "RestoreKey",
			"Restored %s from the other copy", strings.Join(copied, ", "))
	}
	return "", nil
}

// keysUsedBy asks the API server for a component that uses key material, or for data of one; empty
// when none was ever applied.
func keysUsedBy(ctx context.Context, s *scope) (string, error) {
	for _, kind := range []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
		appsv1.SchemeGroupVersion.WithKind("Deployment"),
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := s.host.Live.List(ctx, list, client.InNamespace(s.key.Namespace),
			client.MatchingLabels(names.Labels(s.key)), client.Limit(1)); err != nil {
			return "", fmt.Errorf("look for components of cluster %s: %w", s.key, err)
		}
		if len(list.Items) > 0 {
			return fmt.Sprintf("%s %s", kind.Kind, list.Items[0].Name), nil
		}
	}
	if ptr.Deref(s.controlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		return "a control plane that was initialized", nil
	}
	return "", nil
}

// claimPorts claims the block of host ports and writes it into spec before anything uses it: a
// person who pins another block later must be refused. Pods on the pod network need none.
func (r *Reconciler) claimPorts(ctx context.Context, s *scope) (string, error) {
	if s.input.OnPodNetwork() {
		s.input.Ports = ports.OnPodNetwork(s.input.Network.APIServerPort)
		return "", nil
	}
	pinned := s.controlPlane.Spec.Hosting.Ports.First
	first, err := s.host.Claims.Claim(ctx, s.key, pinned)
	if err != nil {
		return "", err
	}
	if pinned == 0 {
		written := s.controlPlane.DeepCopy()
		written.Spec.Hosting.Ports = controlplanev1.PortBlock{First: first}
		if err := r.Client.Patch(ctx, written, client.MergeFromWithOptions(s.controlPlane.DeepCopy(), client.MergeFromWithOptimisticLock{})); err != nil {
			return "", fmt.Errorf("write spec.hosting.ports: %w", err)
		}
		s.controlPlane.Spec.Hosting.Ports = written.Spec.Hosting.Ports
		s.input.Spec.Hosting.Ports = written.Spec.Hosting.Ports
		r.recorder.Eventf(s.controlPlane, nil, corev1.EventTypeNormal, "PortsClaimed", "ClaimPorts",
			"Claimed the host ports %d to %d", first, first+controlplanev1.PortBlockSize-1)
	}
	s.input.Ports = ports.Of(first)
	return "", nil
}

// applyServices makes the Services of all components and learns their addresses. An address is
// given once and kept: certificates and etcd members name it. From then on every Service asks for the one
// that was recorded, also those that are there: they may be deleted at any moment.
func (r *Reconciler) applyServices(ctx context.Context, s *scope) (string, error) {
	recorded, exposed, err := recordedAddresses(ctx, s)
	if err != nil {
		return "", err
	}
	present, err := presentServices(ctx, s)
	if err != nil {
		return "", err
	}
	misplaced, problem := otherAddresses(recorded, present)
	s.note(problem)
	if err := rememberMembers(ctx, s, recorded, present); err != nil {
		return "", err
	}
	in := s.input
	in.Addresses, in.Exposure = recorded, exposed
	var applied []client.Object
	for _, component := range rendering.Components {
		if component.Services == nil {
			continue
		}
		services, err := component.Services(&in)
		if err != nil {
			return "", err
		}
		wanted, kept := patchedServices(component, &in, services, present)
		for _, service := range wanted {
			if misplaced[service.GetName()] {
				s.input.Addresses[service.GetName()] = recorded[service.GetName()]
			} else {
				applied = append(applied, service)
			}
		}
		for _, service := range kept {
			s.input.Addresses[service.Name] = cmp.Or(recorded[service.Name], service.Spec.ClusterIP)
		}
	}
	applied, err = applyAll(ctx, s, applied)
	if err != nil {
		return "", err
	}
	for _, object := range applied {
		service := object.(*corev1.Service)
		s.input.Addresses[service.Name] = service.Spec.ClusterIP
		present[service.Name] = service
	}
	if err := deleteFormerServices(ctx, s, present); err != nil {
		return "", err
	}
	waiting := s.expose(present[names.Object(s.key.Name, names.KubeAPIServer)], exposed)
	if err := recordAddresses(ctx, s); err != nil || waiting != "" {
		return waiting, err
	}
	s.controlPlane.Spec.ControlPlaneEndpoint = endpointOf(s.cluster, s.controlPlane, controlplanev1.APIEndpoint{
		Host: cmp.Or(s.input.Exposure.Address, s.input.Addresses[names.Object(s.key.Name, names.KubeAPIServer)]), Port: s.input.Network.APIServerPort,
	})
	return "", nil
}

// otherAddresses finds Services that somebody made with another address than the one recorded. Only a person
// can take them away; all else goes on by the addresses that are recorded.
func otherAddresses(recorded map[string]string, present map[string]*corev1.Service) (misplaced map[string]bool, problem error) {
	misplaced = map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(present)) {
		if address := present[name].Spec.ClusterIP; recorded[name] != "" && address != recorded[name] {
			misplaced[name] = true
			problem = errors.Join(problem, fmt.Errorf("address %s of Service %s is not %s, which certificates and etcd members name: delete the Service, and it is made again with that",
				address, client.ObjectKeyFromObject(present[name]), recorded[name]))
		}
	}
	return misplaced, problem
}

// patchedServices are the Services of a component as patches want them. While a patch is refused, which
// only a person can resolve, those that there are stay as they are, and missing ones come back without it.
func patchedServices(component components.Component, in *components.Input, services []*corev1.Service, present map[string]*corev1.Service) (wanted []client.Object, kept []*corev1.Service) {
	for _, service := range services {
		wanted = append(wanted, service)
	}
	patched, err := component.Patched(in, wanted)
	if err == nil {
		return patched, nil
	}
	wanted = nil
	for _, service := range services {
		if live := present[service.Name]; live != nil {
			kept = append(kept, live)
		} else {
			wanted = append(wanted, service)
		}
	}
	return wanted, kept
}

// recordedAddresses are those that were given before: of every Service, and by the one of API servers.
func recordedAddresses(ctx context.Context, s *scope) (map[string]string, components.Exposure, error) {
	objects, err := s.revisions.Newest(ctx, s.key, names.Services)
	if err != nil {
		return nil, components.Exposure{}, err
	}
	addresses, exposed := map[string]string{}, components.Exposure{}
	for _, object := range objects {
		if service, ok := object.(*corev1.Service); ok {
			addresses[service.Name] = service.Spec.ClusterIP
			exposed = cmp.Or(exposed, readExposure(service))
		}
	}
	return addresses, exposed, nil
}

func presentServices(ctx context.Context, s *scope) (map[string]*corev1.Service, error) {
	list := &corev1.ServiceList{}
	if err := s.host.Client.List(ctx, list, client.InNamespace(s.key.Namespace), client.MatchingLabels(names.Labels(s.key))); err != nil {
		return nil, fmt.Errorf("list the Services of cluster %s: %w", s.key, err)
	}
	present := map[string]*corev1.Service{}
	for i := range list.Items {
		present[list.Items[i].Name] = &list.Items[i]
	}
	return present, nil
}

func recordAddresses(ctx context.Context, s *scope) error {
	hash := sha256.New()
	sorted := slices.Sorted(maps.Keys(s.input.Addresses))
	for _, name := range sorted {
		fmt.Fprintf(hash, "%s=%s\n", name, s.input.Addresses[name])
	}
	if exposed := s.input.Exposure; exposed != (components.Exposure{}) {
		fmt.Fprintf(hash, "%+v\n", exposed)
	}
	_, err := s.revisions.Rendering(ctx, s.key, names.Services, hex.EncodeToString(hash.Sum(nil)[:8]), time.Time{}, func() ([]client.Object, error) {
		var services []client.Object
		for _, name := range sorted {
			service := &corev1.Service{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       corev1.ServiceSpec{ClusterIP: s.input.Addresses[name]},
			}
			if name == names.Object(s.key.Name, names.KubeAPIServer) {
				writeExposure(service, s.input.Exposure)
			}
			services = append(services, service)
		}
		return services, nil
	})
	return err
}

func (r *Reconciler) ensureCertificates(ctx context.Context, s *scope) (string, error) {
	secrets, err := Certificates(&s.input, s.keys, s.controlPlane.Spec.ControlPlaneEndpoint.Host, s.controlPlane.Spec.KubeAPIServer.CertSANs)
	if err != nil {
		return "", err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, secret := range secrets {
		secret.Owner = s.hostOwner()
		group.Go(func() error {
			result, err := s.store.EnsureLeaves(ctx, s.keys, secret)
			s.renewAt(result.RenewAt)
			return err
		})
	}
	return "", group.Wait()
}

func (r *Reconciler) ensureKubeconfig(ctx context.Context, s *scope) (string, error) {
	result, err := s.store.EnsureKubeconfig(ctx, s.keys, pki.KubeconfigRequest{
		Cluster: s.key,
		Owner:   s.owner(),
		Server:  "https://" + endpointAddress(s.controlPlane),
	})
	s.renewAt(result.RenewAt)
	return "", err
}

// applyEtcd applies one etcd cluster. Its configuration files are written on every change of
// membership, its workload only when the inputs change.
func (r *Reconciler) applyEtcd(cluster etcd.Cluster) func(context.Context, *scope) (string, error) {
	component := cluster.Render()
	return func(ctx context.Context, s *scope) (string, error) {
		files, err := etcdFiles(ctx, s, cluster)
		if err != nil {
			return "", err
		}
		if _, err := applyAll(ctx, s, files); err != nil {
			return "", err
		}
		if waiting, err := formerPods(ctx, s, component.Name, r.Clock.Now()); waiting != "" || err != nil {
			return waiting, err
		}
		objects, err := renderedEtcd(ctx, s, cluster, false)
		if err != nil {
			return "", err
		}
		return applyRendering(ctx, s, component.Name, objects)
	}
}

// applyComponent applies the component's rendering.
func applyComponent(component components.Component) func(context.Context, *scope) (string, error) {
	return func(ctx context.Context, s *scope) (string, error) {
		held := s.held()
		objects, err := rendered(ctx, s, component, &s.input, held != "")
		if err != nil {
			return "", err
		}
		if component.Scale != nil {
			component.Scale(&s.input, objects)
		}
		if waiting, err := applyRendering(ctx, s, component.Name, objects); waiting != "" || err != nil {
			return waiting, err
		}
		if waiting, err := heldBack(ctx, s, component, held); waiting != "" || err != nil {
			return waiting, err
		}
		return formerVersion(ctx, s, component.Name)
	}
}

func applyRendering(ctx context.Context, s *scope, component string, objects []client.Object) (string, error) {
	applied, err := applyAll(ctx, s, objects)
	if err != nil {
		return "", err
	}
	if err := deleteSuperseded(ctx, s, component, objects); err != nil {
		return "", err
	}
	for _, object := range applied {
		if state := s.stateOf(component, object); state != nil {
			s.remember(component, object)
			return state.waiting(component, s.upgrading()), nil
		}
	}
	return "", nil
}

// rendered is the component's rendering: the one that is stored while its inputs are the same, else a new
// one. While renderings are held, no component adopts a new one.
func rendered(ctx context.Context, s *scope, component components.Component, in *components.Input, held bool) ([]client.Object, error) {
	if held {
		stored, err := s.revisions.Kept(ctx, s.key, component.Name)
		if err != nil || len(stored) > 0 {
			return stored, err
		}
	}
	hash, err := component.Inputs(in).Hash()
	if err != nil {
		return nil, err
	}
	return s.revisions.Rendering(ctx, s.key, component.Name, hash, s.rolloutAfter, func() ([]client.Object, error) {
		if s.unsupported != nil {
			return nil, s.unsupported
		}
		return component.Rendered(in)
	})
}

// applyAll applies objects of one step together and returns them as they are now. One that fails does not
// cut the requests of others: a creation of a Service that is cut leaves its address taken for minutes.
func applyAll(ctx context.Context, s *scope, objects []client.Object) ([]client.Object, error) {
	live := make([]client.Object, len(objects))
	group := errgroup.Group{}
	for i, object := range objects {
		if owner := s.hostOwner(); owner != nil {
			object.SetOwnerReferences([]metav1.OwnerReference{*owner})
		}
		group.Go(func() (err error) {
			live[i], _, err = s.host.Applier.Apply(ctx, object)
			return err
		})
	}
	return live, group.Wait()
}

// isRace reports whether an error only says that another write was faster or that a cache was
// late: the next reconcile sees the new state.
func isRace(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
