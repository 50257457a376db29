// Package processes turns the provider's pods into plain processes: the programs, arguments, files and certificates
// that the provider gives to its containers, without the containers. Of a pod it takes the first container alone: API
// servers have no server of konnectivity beside them, and reach no worker.
package processes

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/controllers"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
)

// loopback is where each process finds the kube-apiserver of its own host.
const loopback = "127.0.0.1"

// Config says which control plane is rendered.
type Config struct {
	// Cluster is the name of the control plane.
	Cluster string
	Shape   shape.Shape
	// Version, Spec and Network are those of a tenant; Spec has its defaults.
	Version string
	Spec    controlplanev1.KOKControlPlaneSpec
	Network components.Network
	// Address is where a replica of a component runs.
	Address func(component string, replica int) netip.Addr
	// Directory is what all paths of processes are under.
	Directory string
	// FirstPort is the first of the block of ports that etcd and others use; kube-apiserver has its usual one.
	FirstPort int32
}

// Process is one process of a control plane.
type Process struct {
	Component, Name string
	// Address is the one that its component was given.
	Address netip.Addr
	Argv    []string
	// Files are its configuration and certificates, by path.
	Files map[string][]byte
	// Data are directories that it starts with, empty.
	Data []string
	// URL is its readiness path.
	URL string
}

// Rendering is everything of one control plane.
type Rendering struct {
	Processes []*Process
	// Keys has its certificate authorities.
	Keys *pki.KeyMaterial
}

// renderer renders components as the provider does and finds what their pods mount.
type renderer struct {
	config *Config
	input  components.Input
	// mounted holds the Secrets and ConfigMaps that pods mount.
	mounted client.Client
}

// Render makes key material and certificates, and renders all components as the provider does.
func Render(ctx context.Context, config *Config) (*Rendering, error) {
	r := &renderer{config: config, mounted: fake.NewClientBuilder().Build()}
	r.input = components.Input{
		Cluster: client.ObjectKey{Namespace: "default", Name: config.Cluster},
		Version: config.Version, Spec: components.Reduce(config.Spec), Network: config.Network, Ports: ports.Of(config.FirstPort),
		Addresses: map[string]string{names.APIService(config.Cluster): loopback},
	}
	// In kubeconfigs is the port of a tenant's Service.
	r.input.Network.APIServerPort = components.DefaultAPIServerPort
	r.input.Ports.APIServer = components.DefaultAPIServerPort
	for component, members := range map[string]etcd.Cluster{names.EtcdData: etcd.Data, names.EtcdEvents: etcd.Events} {
		for i, member := range members.Members(&r.input) {
			r.input.Addresses[member] = config.Address(component, i).String()
		}
	}
	keys, err := r.certificates(ctx)
	if err != nil {
		return nil, err
	}
	result := &Rendering{Keys: keys}
	for _, component := range registry.Components {
		processes, err := r.component(ctx, component)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", component.Name, err)
		}
		result.Processes = append(result.Processes, processes...)
	}
	return result, nil
}

// certificates makes key material and leaves in memory, and the configuration of etcd.
func (r *renderer) certificates(ctx context.Context) (*pki.KeyMaterial, error) {
	access := secrets.Access{Cached: r.mounted, Live: r.mounted, Writer: r.mounted}
	store := &pki.Store{Management: access, Host: access}
	keys, err := store.Ensure(ctx, pki.Request{
		Cluster: r.input.Cluster, Encryption: r.config.Spec.EncryptionAtRest,
		UsedBy: func(context.Context) (string, error) { return "", nil },
	})
	if err != nil {
		return nil, err
	}
	wanted, err := controllers.Certificates(&r.input, keys, "", nil)
	if err != nil {
		return nil, err
	}
	issuer := certificates.Issuer{Keys: keys, Clock: clock.RealClock{}}
	for _, secret := range wanted {
		if _, err := issuer.EnsureLeaves(ctx, access, secret); err != nil {
			return nil, err
		}
	}
	for _, members := range etcd.All {
		files, err := members.Config(&r.input, etcd.Membership{})
		if err != nil {
			return nil, err
		}
		if err := r.mounted.Create(ctx, files); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// component gives the processes of a component: one a replica.
func (r *renderer) component(ctx context.Context, component components.Component) ([]*Process, error) {
	objects, err := component.Objects(component.Inputs(&r.input))
	if err != nil {
		return nil, err
	}
	var template *corev1.PodTemplateSpec
	var claims []corev1.PersistentVolumeClaim
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.ConfigMap:
			if err := r.mounted.Create(ctx, o); err != nil {
				return nil, err
			}
		case *appsv1.StatefulSet:
			template, claims = &o.Spec.Template, o.Spec.VolumeClaimTemplates
		case *appsv1.DaemonSet:
			template = &o.Spec.Template
		case *appsv1.Deployment:
			template = &o.Spec.Template
		}
	}
	var processes []*Process
	for i := range int(r.config.Shape.Replicas(component.Name)) {
		p, err := r.process(ctx, component.Name, i, template, claims)
		if err != nil {
			return nil, err
		}
		processes = append(processes, p)
	}
	return processes, nil
}

// process turns the first container of a pod into a process: what it mounts becomes directories, whose paths take the place
// of mount paths in arguments and files.
func (r *renderer) process(ctx context.Context, component string, i int, template *corev1.PodTemplateSpec, claims []corev1.PersistentVolumeClaim) (*Process, error) {
	container := &template.Spec.Containers[0]
	p := &Process{
		Component: component, Name: fmt.Sprintf("%s-%d", names.Object(r.config.Cluster, component), i),
		Address: r.config.Address(component, i), Files: map[string][]byte{},
	}
	replace := make([]string, 0, 2*len(container.VolumeMounts)+4)
	for _, variable := range container.Env {
		if variable.ValueFrom.FieldRef == nil {
			continue // A plain process has no limits.
		}
		value := p.Name
		if variable.ValueFrom.FieldRef.FieldPath == "status.hostIP" {
			value = p.Address.String()
		}
		replace = append(replace, "$("+variable.Name+")", value)
	}
	for _, mount := range container.VolumeMounts {
		place := filepath.Join(r.config.Directory, p.Name, mount.Name)
		replace = append(replace, mount.MountPath+"/", place+"/")
		if err := r.fill(ctx, p, mount.Name, place, template.Spec.Volumes, claims); err != nil {
			return nil, err
		}
	}
	paths := strings.NewReplacer(replace...)
	for name, content := range p.Files {
		p.Files[name] = []byte(paths.Replace(string(content)))
	}
	p.Argv = append(p.Argv, container.Command...)
	for _, argument := range container.Args {
		p.Argv = append(p.Argv, paths.Replace(argument))
	}
	var err error
	p.URL, err = probe.URL(container, p.Address.String())
	return p, err
}

// fill finds what a volume holds.
func (r *renderer) fill(ctx context.Context, p *Process, name, place string, volumes []corev1.Volume, claims []corev1.PersistentVolumeClaim) error {
	for _, claim := range claims {
		if claim.Name == name {
			p.Data = append(p.Data, place)
			return nil
		}
	}
	for _, volume := range volumes {
		if volume.Name != name {
			continue
		}
		if volume.EmptyDir != nil {
			p.Data = append(p.Data, place)
			return nil
		}
		content, items, err := r.content(ctx, volume)
		if err != nil {
			return err
		}
		if len(items) == 0 {
			for key := range content {
				items = append(items, corev1.KeyToPath{Key: key, Path: key})
			}
		}
		for _, item := range items {
			p.Files[filepath.Join(place, item.Path)] = content[item.Key]
		}
		return nil
	}
	return fmt.Errorf("%s mounts %s, which is no volume of its pod", p.Name, name)
}

func (r *renderer) content(ctx context.Context, volume corev1.Volume) (map[string][]byte, []corev1.KeyToPath, error) {
	key := client.ObjectKey{Namespace: r.input.Cluster.Namespace}
	switch {
	case volume.Secret != nil:
		key.Name = volume.Secret.SecretName
		secret := &corev1.Secret{}
		err := r.mounted.Get(ctx, key, secret)
		return secret.Data, volume.Secret.Items, err
	case volume.ConfigMap != nil:
		key.Name = volume.ConfigMap.Name
		config := &corev1.ConfigMap{}
		err := r.mounted.Get(ctx, key, config)
		content := map[string][]byte{}
		for name, text := range config.Data {
			content[name] = []byte(text)
		}
		return content, volume.ConfigMap.Items, err
	}
	return nil, nil, fmt.Errorf("volume %s is of a kind that has no plain counterpart", volume.Name)
}
