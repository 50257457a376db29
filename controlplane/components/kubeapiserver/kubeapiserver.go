// Package kubeapiserver renders kube-apiserver: a DaemonSet on the host nodes or a Deployment, and the
// Service that the management cluster and the other components reach it by.
package kubeapiserver

import (
	_ "embed"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// Names of the leaf certificates in the component's Secret, as the asset's arguments name them.
const (
	ServerCert           = "server"
	EtcdClientCert       = "etcd-client"
	KubeletClientCert    = "kubelet-client"
	FrontProxyClientCert = "front-proxy-client"
	// EtcdCAFile holds the CAs of both etcd clusters.
	EtcdCAFile = "etcd-ca.crt"
)

//go:embed pod.yaml
var pod []byte

// Ports of kube-apiserver and of konnectivity's server beside it. Load balancers of workers know the agents' by its offset.
var (
	HTTPS              = ports.Port{Name: portHTTPS}
	KonnectivityAgent  = ports.Port{Name: portAgents, Offset: controlplanev1.KonnectivityPortOffset}
	KonnectivityAdmin  = ports.Port{Name: "admin", Offset: 10, Loopback: true}
	KonnectivityHealth = ports.Port{Name: "health", Offset: 11, Loopback: true}
)

// Component describes kube-apiserver.
var Component = components.Component{
	Name:       names.KubeAPIServer,
	After:      etcd.Components(),
	Condition:  conditionsv1.ControlPlaneComponentsHealthyCondition,
	Kubernetes: true,
	ServesAPI:  true,
	Keys:       keys,
	Settings: &components.Settings{
		Field: "kubeAPIServer",
		Spec: func(spec *controlplanev1.KOKControlPlaneSpec) *controlplanev1.ComponentSpec {
			return &spec.KubeAPIServer.ComponentSpec
		},
		Arguments: rules,
	},
	Patches: patches.Hosted{
		Workloads: []string{"DaemonSet", "Deployment"}, Containers: []string{names.KubeAPIServer, konnectivityServer}, Services: true,
		Replicas: "set spec.replicas, with spec.kubeAPIServer.workload Deployment",
		Image:    "set spec.kubeAPIServer.image",
		Args:     "set spec.kubeAPIServer.extraArgs",
		Beside:   "set spec.addons.konnectivity.serverImage",
		Config:   "set spec.kubeAPIServer.jwt, spec.kubeAPIServer.audit or spec.addons.konnectivity",
	},
	Workload:     kind,
	OwnHosts:     ownHosts,
	Ports:        []ports.Port{HTTPS, KonnectivityAgent, KonnectivityAdmin, KonnectivityHealth},
	Certificates: wantedCertificates,
	ClearUnused:  clearUnused,
	Services:     services,
	Objects:      objects,
	Scale:        scale,
}

func kind(spec *controlplanev1.KOKControlPlaneSpec) client.Object {
	if spec.KubeAPIServer.IsDeployment() {
		return &appsv1.Deployment{}
	}
	return &appsv1.DaemonSet{}
}

func ownHosts(in *components.Input) (field string, replicas int32) {
	if in.Spec.KubeAPIServer.IsDeployment() {
		return "spec.replicas", in.APIServerReplicas
	}
	return "", 0
}

func clearUnused(in *components.Input) {
	in.Network.PodCIDRs = nil
	keys.Reduce(in)
	in.Spec = controlplanev1.KOKControlPlaneSpec{
		Hosting:         in.Spec.Hosting,
		ImageRepository: in.Spec.ImageRepository,
		ImagePullSecret: in.Spec.ImagePullSecret,
		KubeAPIServer:   in.Spec.KubeAPIServer,
		Addons:          controlplanev1.AddonsSpec{Konnectivity: in.Spec.Addons.Konnectivity},
		Etcd: controlplanev1.EtcdSpec{
			Data:   controlplanev1.EtcdClusterSpec{Replicas: in.Spec.Etcd.Data.Replicas},
			Events: controlplanev1.EtcdEventsSpec{Mode: in.Spec.Etcd.Events.Mode, EtcdClusterSpec: controlplanev1.EtcdClusterSpec{Replicas: in.Spec.Etcd.Events.Replicas}},
		},
	}
	in.Addresses = addresses(in)
}

// addresses are those of the API server's Service and of the etcd members that API servers dial.
// Members that are about to be removed are left out.
func addresses(in *components.Input) map[string]string {
	kept := map[string]string{}
	dialled := []string{names.APIService(in.Cluster.Name)}
	for _, cluster := range etcd.All {
		dialled = append(dialled, cluster.Wanted(in)...)
	}
	for _, service := range dialled {
		if address, ok := in.Addresses[service]; ok {
			kept[service] = address
		}
	}
	return kept
}

func services(in *components.Input) ([]*corev1.Service, error) {
	name := names.APIService(in.Cluster.Name)
	service := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		Spec: corev1.ServiceSpec{
			Type:      corev1.ServiceTypeClusterIP,
			ClusterIP: in.Addresses[name],
			Selector:  names.ComponentLabels(in.Cluster, names.KubeAPIServer),
			Ports: []corev1.ServicePort{{
				Name: "https", Protocol: corev1.ProtocolTCP, Port: in.Network.APIServerPort, TargetPort: intstr.FromInt32(in.Ports.APIServer),
			}},
		},
	}
	expose(service, in)
	components.SetMeta(service, in, names.KubeAPIServer, name)
	return []*corev1.Service{service}, nil
}

func objects(in *components.Input) ([]client.Object, error) {
	config, err := configMap(in)
	if err != nil {
		return nil, err
	}
	template := components.Decode[corev1.PodTemplateSpec](pod)
	adaptPod(template, in)
	objects := append([]client.Object{config}, workload(in, template)...)
	return append(objects, components.NetworkPolicy(in, names.KubeAPIServer, components.Admit(nil, servedPorts(in)...))...), nil
}

// workload is the DaemonSet, or the Deployment with its budget. The budget does not depend on the number of replicas, which may change at
// any time, so it lets a single replica be evicted, too.
func workload(in *components.Input, template *corev1.PodTemplateSpec) []client.Object {
	maxSurge, maxUnavailable := in.Rollout()
	daemonSet := &appsv1.DaemonSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		Spec: appsv1.DaemonSetSpec{
			Selector: components.Selector(in, names.KubeAPIServer),
			Template: *template,
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: maxSurge, MaxUnavailable: maxUnavailable},
			},
		},
	}
	if !in.Spec.KubeAPIServer.IsDeployment() {
		components.SetMeta(daemonSet, in, names.KubeAPIServer, names.Object(in.Cluster.Name, names.KubeAPIServer))
		return []client.Object{daemonSet}
	}
	deployment := &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		Spec: appsv1.DeploymentSpec{
			Selector: daemonSet.Spec.Selector,
			Template: *template,
			Strategy: components.Strategy(in),
		},
	}
	components.SpreadReplicas(&deployment.Spec.Template.Spec, in)
	components.SetMeta(deployment, in, names.KubeAPIServer, names.Object(in.Cluster.Name, names.KubeAPIServer))
	scaled := []client.Object{deployment}
	scale(in, scaled)
	return append(scaled, components.DisruptionBudget(in, names.KubeAPIServer, 2)...)
}

// scale gives a Deployment, also one of an older rendering, the number of replicas that is wanted now.
func scale(in *components.Input, objects []client.Object) {
	for _, object := range objects {
		if deployment, ok := object.(*appsv1.Deployment); ok {
			deployment.Spec.Replicas = ptr.To(in.APIServerReplicas)
		}
	}
}

func adaptPod(template *corev1.PodTemplateSpec, in *components.Input) {
	spec := in.Spec.KubeAPIServer
	container := &template.Spec.Containers[0]
	container.Image = in.Image(names.KubeAPIServer, spec.Image)

	issuer := "https://kubernetes.default.svc." + in.Network.DNSDomain
	args := map[string]string{
		"bind-address":           bindAddress(in),
		"etcd-servers":           strings.Join(etcd.Data.ClientURLs(in), ","),
		"secure-port":            strconv.Itoa(int(in.Ports.APIServer)),
		"service-account-issuer": issuer,
		// By itself the discovery document names the address of the pod's host, which no certificate is for.
		"service-account-jwks-uri": issuer + "/openid/v1/jwks",
		"service-cluster-ip-range": strings.Join(in.Network.ServiceCIDRs, ","),
	}
	if !in.Spec.Etcd.EventsInData() {
		args["etcd-servers-overrides"] = "/events#" + strings.Join(etcd.Events.ClientURLs(in), ";")
	}
	if address := in.Exposure.Address; address != "" {
		args["advertise-address"] = address
		// The controller writes the endpoint of the tenant's Service kubernetes: an API server that stops would
		// take the address of all away.
		args["endpoint-reconciler-type"] = "none"
	}
	if audit := spec.Audit; audit != nil {
		metav1.SetMetaDataAnnotation(&template.ObjectMeta, AuditPolicyAnnotation, auditPolicyHash(audit))
		args["audit-policy-file"] = "/etc/kubernetes/config/" + auditPolicyFile
		args["audit-log-path"] = "/var/log/kubernetes/audit.log"
		args["audit-log-maxsize"] = strconv.Itoa(int(audit.MaxSizeMB))
		args["audit-log-maxbackup"] = strconv.Itoa(int(audit.MaxBackups))
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{
			Name: "kok-audit", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: auditSize(audit)}},
		})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: "kok-audit", MountPath: "/var/log/kubernetes",
		})
	}
	if in.Spec.Addons.Konnectivity.Managed() {
		args["egress-selector-config-file"] = "/etc/kubernetes/config/" + egressSelectorFile
		addKonnectivity(template, in)
	}
	container.Args = components.Args(container.Args, args, spec.ExtraArgs)
	keys.Set(template, in, names.KubeAPIServer)

	components.SetPort(container, HTTPS.Name, in.Ports.APIServer)
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
		components.Probe(probe, in.Ports.APIServer)
	}
	for i := range template.Spec.Volumes {
		switch volume := &template.Spec.Volumes[i]; volume.Name {
		case "kok-key-material":
			volume.Secret.SecretName = names.KeyMaterial(in.Cluster.Name)
		case "kok-certs":
			volume.Secret.SecretName = names.Certs(in.Cluster.Name, names.KubeAPIServer)
		case "kok-config":
			volume.ConfigMap.Name = names.Config(in.Cluster.Name, names.KubeAPIServer)
		}
	}
	components.FinishPod(template, in, names.KubeAPIServer, spec.ComponentSpec)
	components.SetVersion(template, in)
}

// auditSize has room for the file that is written and for those that were rotated, and a tenth more: a
// pod that needs more is evicted, which bounds what a tenant takes of a host's disk.
func auditSize(audit *controlplanev1.AuditSpec) *resource.Quantity {
	const mebibyte = 1 << 20
	files := int64(audit.MaxBackups) + 1
	return resource.NewQuantity(int64(audit.MaxSizeMB)*files*mebibyte*11/10, resource.BinarySI)
}

// bindAddress is the wildcard address of the family of the API server's Service: every listener that
// others reach takes mutual TLS or a token.
func bindAddress(in *components.Input) string {
	if strings.Contains(in.Addresses[names.APIService(in.Cluster.Name)], ":") {
		return "::"
	}
	return "0.0.0.0"
}
