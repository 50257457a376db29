// Package floor starts a control plane as plain processes on the lab's hosts: the programs, arguments, files and
// certificates that the provider gives to its containers, without the containers. It is as fast as that control plane
// can be on these hosts.
package floor

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubecontrollermanager"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubescheduler"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/controllers"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

const (
	// directory on every host; it is on the file system of the host cluster's local volumes.
	directory = "/var/lib/local-volumes/kok-bench-floor"
	// firstPort is below the range of tenants' blocks.
	firstPort = 19980
	// cluster is the name of the floor's control plane.
	cluster = "floor"
	// loopback is where each process finds the kube-apiserver of its own host.
	loopback = "127.0.0.1"
)

// process is one process of the floor.
type process struct {
	component, name string
	host            *host.Host
	argv            []string
	// files are its configuration and certificates, by path on the host.
	files map[string][]byte
	// data are directories that it starts with, empty.
	data []string
	// url is its readiness path.
	url string
}

// rendering is everything of one floor.
type rendering struct {
	processes []*process
	keys      *pki.KeyMaterial
}

// renderer renders components as the provider does and finds what their pods mount.
type renderer struct {
	config *Config
	input  components.Input
	// mounted holds the Secrets and ConfigMaps that pods mount.
	mounted client.Client
}

func render(ctx context.Context, config *Config) (*rendering, error) {
	r := &renderer{config: config, mounted: fake.NewClientBuilder().Build()}
	r.input = components.Input{
		Cluster: client.ObjectKey{Namespace: "default", Name: cluster},
		Version: config.Version, Spec: components.Reduce(config.Spec), Network: config.Network, Ports: ports.Of(firstPort),
		Addresses: map[string]string{names.Object(cluster, names.KubeAPIServer): loopback},
	}
	// In kubeconfigs is the port of a tenant's Service.
	r.input.Network.APIServerPort = components.DefaultAPIServerPort
	r.input.Ports.APIServer = components.DefaultAPIServerPort
	for _, members := range []etcd.Cluster{etcd.Data, etcd.Events} {
		for i, member := range members.Members(&r.input) {
			r.input.Addresses[member] = r.host(i).Address.String()
		}
	}
	keys, err := r.certificates(ctx)
	if err != nil {
		return nil, err
	}
	result := &rendering{keys: keys}
	for _, component := range []components.Component{
		etcd.Data.Render(), etcd.Events.Render(), kubeapiserver.Component, kubecontrollermanager.Component, kubescheduler.Component,
	} {
		processes, err := r.component(ctx, component)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", component.Name, err)
		}
		result.processes = append(result.processes, processes...)
	}
	return result, nil
}

// host gives the hosts that have a kube-apiserver in turn.
func (r *renderer) host(i int) *host.Host {
	return r.config.Hosts[i%min(len(r.config.Hosts), int(r.config.Shape.APIServers))]
}

// certificates makes key material and leaves in memory, and the configuration of etcd.
func (r *renderer) certificates(ctx context.Context) (*pki.KeyMaterial, error) {
	access := pki.Access{Cached: r.mounted, Live: r.mounted, Writer: r.mounted}
	store := &pki.Store{Management: access, Host: access, Clock: clock.RealClock{}}
	keys, err := store.Ensure(ctx, pki.Request{
		Cluster: r.input.Cluster, Encryption: r.config.Spec.EncryptionAtRest,
		UsedBy: func(context.Context) (string, error) { return "", nil },
	})
	if err != nil {
		return nil, err
	}
	secrets, err := controllers.Certificates(&r.input, keys, "", nil)
	if err != nil {
		return nil, err
	}
	for _, secret := range secrets {
		if _, err := store.EnsureLeaves(ctx, keys, secret); err != nil {
			return nil, err
		}
	}
	for _, members := range []etcd.Cluster{etcd.Data, etcd.Events} {
		files, err := members.Config(&r.input, false)
		if err != nil {
			return nil, err
		}
		if err := r.mounted.Create(ctx, files); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// component gives the processes of a component: one a replica, on hosts in turn.
func (r *renderer) component(ctx context.Context, component components.Component) ([]*process, error) {
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
	first := 0
	if component.Name == names.KubeScheduler {
		first = 1 // not all on the same hosts
	}
	var processes []*process
	for i := range int(r.config.Shape.Replicas(component.Name)) {
		p, err := r.process(ctx, component.Name, i, r.host(first+i), template, claims)
		if err != nil {
			return nil, err
		}
		processes = append(processes, p)
	}
	return processes, nil
}

// process turns a pod into a process: what the pod mounts becomes directories, whose paths take the place of mount
// paths in arguments and files.
func (r *renderer) process(ctx context.Context, component string, i int, h *host.Host, template *corev1.PodTemplateSpec, claims []corev1.PersistentVolumeClaim) (*process, error) {
	container := &template.Spec.Containers[0]
	p := &process{
		component: component, name: fmt.Sprintf("%s-%d", names.Object(cluster, component), i), host: h, files: map[string][]byte{},
	}
	replace := make([]string, 0, 2*len(container.VolumeMounts)+4)
	for _, variable := range container.Env {
		value := p.name
		if variable.ValueFrom.FieldRef.FieldPath == "status.hostIP" {
			value = h.Address.String()
		}
		replace = append(replace, "$("+variable.Name+")", value)
	}
	for _, mount := range container.VolumeMounts {
		place := filepath.Join(directory, p.name, mount.Name)
		replace = append(replace, mount.MountPath+"/", place+"/")
		if err := r.fill(ctx, p, mount.Name, place, template.Spec.Volumes, claims); err != nil {
			return nil, err
		}
	}
	paths := strings.NewReplacer(replace...)
	for name, content := range p.files {
		p.files[name] = []byte(paths.Replace(string(content)))
	}
	p.argv = append(p.argv, container.Command...)
	for _, argument := range container.Args {
		p.argv = append(p.argv, paths.Replace(argument))
	}
	var err error
	p.url, err = probe.URL(container, h.Address.String())
	return p, err
}

// fill finds what a volume holds.
func (r *renderer) fill(ctx context.Context, p *process, name, place string, volumes []corev1.Volume, claims []corev1.PersistentVolumeClaim) error {
	for _, claim := range claims {
		if claim.Name == name {
			p.data = append(p.data, place)
			return nil
		}
	}
	for _, volume := range volumes {
		if volume.Name != name {
			continue
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
			p.files[filepath.Join(place, item.Path)] = content[item.Key]
		}
		return nil
	}
	return fmt.Errorf("%s mounts %s, which is no volume of its pod", p.name, name)
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
	return nil, nil, fmt.Errorf("volume %s is of a kind that the floor does not know", volume.Name)
}

// endpoint is where a kube-apiserver of the floor serves.
func endpoint(h *host.Host) string {
	return "https://" + net.JoinHostPort(h.Address.String(), fmt.Sprint(components.DefaultAPIServerPort))
}

// Config says which floor is started.
type Config struct {
	Shape shape.Shape
	// Hosts carry it.
	Hosts []*host.Host
	// Version, Spec and Network are those of the tenant that it is compared with; Spec has its defaults.
	Version string
	Spec    controlplanev1.KOKControlPlaneSpec
	Network components.Network
}
