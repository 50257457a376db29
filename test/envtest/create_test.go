//go:build envtest

package envtest

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

type spec = controlplanev1.KOKControlPlaneSpec

func arg(name, value string) controlplanev1.Arg {
	return controlplanev1.Arg{Name: name, Value: ptr.To(value)}
}

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func mount(name, path string) controlplanev1.ExtraVolume {
	return controlplanev1.ExtraVolume{Name: name, MountPath: path, EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("1Gi"))}}
}

func jwt(text string) []runtime.RawExtension { return []runtime.RawExtension{{Raw: []byte(text)}} }

const goodJWT = `{"issuer":{"url":"https://issuer.example","audiences":["tenant"]},"claimMappings":{"username":{"claim":"sub","prefix":"ex:"}}}`

// otherwise is how the refusal of a minor ends.
const otherwise = `; to support others, list them in the ConfigMap kok-kubernetes-versions in the namespace of the control plane provider`

// unchecked is what the API server adds when a value is so wrong that it does not run CEL.
const unchecked = `<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation`

const togetherOrNot = `spec.hosting: Invalid value: hosting.exposure goes with networkMode PodNetwork, and PodNetwork needs it: set both or neither; on the host network API servers are reached at the addresses of their nodes`

const elsewhere = `spec.controlPlaneEndpoint: Required value: hosting.kubeconfigRef names another host cluster, whose cluster IPs the management cluster cannot reach; set it to where the API will be reached, or hosting.exposure.type to LoadBalancer`

func onPodNetwork(exposure controlplanev1.ExposureType) func(*spec) {
	return func(s *spec) {
		s.Hosting.NetworkMode, s.Hosting.Exposure.Type = controlplanev1.NetworkModePod, exposure
	}
}

func TestCreate(t *testing.T) {
	cases := []struct {
		name string
		edit func(*spec)
		want []string
	}{
		{"minimal", func(*spec) {}, nil},

		{"version of the oldest supported minor", func(s *spec) { s.Version = "v1.34.0" }, nil},
		{"version without v", func(s *spec) { s.Version = "1.36.3" }, nil},
		{"version of an older minor", func(s *spec) { s.Version = "v1.33.5" }, []string{
			`spec.version: Invalid value: "v1.33.5": v1.33 is not supported; supported are v1.34, v1.35 and v1.36` + otherwise}},
		{"version of a newer minor", func(s *spec) { s.Version = "1.37.0" }, []string{
			`spec.version: Invalid value: "v1.37.0": v1.37 is not supported; supported are v1.34, v1.35 and v1.36` + otherwise}},
		{"malformed version", func(s *spec) { s.Version = "latest" }, []string{
			`spec.version: Invalid value: "latest": "latest" is not a Kubernetes version of the form v1.36.3`}},
		{"minor only", func(s *spec) { s.Version = "v1.36" }, []string{
			`spec.version: Invalid value: "v1.36": "v1.36" is not a Kubernetes version of the form v1.36.3`}},

		{"replicas of a DaemonSet", func(s *spec) { s.Replicas = ptr.To[int32](3) }, []string{
			`spec: Invalid value: replicas must not be set: kube-apiserver runs as a DaemonSet, one replica on every host node that hosting.nodeSelector chooses; label more nodes to get more replicas, or create a control plane whose kubeAPIServer.workload is Deployment`}},
		{"replicas of a Deployment", func(s *spec) {
			s.KubeAPIServer.Workload, s.Replicas = controlplanev1.APIServerDeployment, ptr.To[int32](3)
		}, nil},
		{"no replica of a Deployment", func(s *spec) {
			s.KubeAPIServer.Workload, s.Replicas = controlplanev1.APIServerDeployment, ptr.To[int32](0)
		}, []string{
			`spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1`}},
		{"pod network behind a load balancer", onPodNetwork(controlplanev1.ExposureLoadBalancer), nil},
		{"pod network with a pinned port", func(s *spec) {
			onPodNetwork(controlplanev1.ExposureNodePort)(s)
			s.Hosting.Exposure.NodePort = 30500
		}, nil},
		{"pod network without exposure", onPodNetwork(controlplanev1.ExposureNone), nil},
		{"pod network that does not say how it is exposed", func(s *spec) { s.Hosting.NetworkMode = controlplanev1.NetworkModePod }, []string{togetherOrNot}},
		{"host network that is exposed", func(s *spec) { s.Hosting.Exposure.Type = controlplanev1.ExposureNodePort }, []string{togetherOrNot}},
		{"host ports on the pod network", func(s *spec) {
			onPodNetwork(controlplanev1.ExposureNone)(s)
			s.Hosting.Ports.First = 20000
		}, []string{`spec.hosting: Invalid value: hosting.ports is for networkMode HostNetwork: pods on the pod network take no port of a host; remove it`}},
		{"node port of a load balancer", func(s *spec) {
			onPodNetwork(controlplanev1.ExposureLoadBalancer)(s)
			s.Hosting.Exposure.NodePort = 30500
		}, []string{`spec.hosting.exposure: Invalid value: hosting.exposure.nodePort is for type NodePort; remove it, or set type to NodePort`}},
		{"konnectivity behind a load balancer", func(s *spec) {
			onPodNetwork(controlplanev1.ExposureLoadBalancer)(s)
			s.Addons.Konnectivity.Mode = controlplanev1.AddonManaged
		}, nil},
		{"konnectivity at a node port", func(s *spec) {
			onPodNetwork(controlplanev1.ExposureNodePort)(s)
			s.Addons.Konnectivity.Mode = controlplanev1.AddonManaged
		}, []string{`spec.addons.konnectivity.mode: Invalid value: "Managed": must be None with hosting.exposure.type NodePort: agents come to a port that is a fixed step above the API server's, and node ports cannot be had in pairs; choose hosting.exposure.type LoadBalancer or hosting.networkMode HostNetwork`}},
		{"one etcd member", func(s *spec) { s.Etcd.Data.Replicas = ptr.To[int32](1); s.Etcd.Events.Replicas = ptr.To[int32](1) }, nil},
		{"even data etcd", func(s *spec) { s.Etcd.Data.Replicas = ptr.To[int32](2) }, []string{
			`spec.etcd.data.replicas: Invalid value: 2: the number of etcd members must be odd (1, 3, 5 or 7): an even one survives no more failures than one less`}},
		{"even events etcd", func(s *spec) { s.Etcd.Events.Replicas = ptr.To[int32](4) }, []string{
			`spec.etcd.events.replicas: Invalid value: 4: the number of etcd members must be odd (1, 3, 5 or 7): an even one survives no more failures than one less`}},
		{"no etcd member", func(s *spec) { s.Etcd.Data.Replicas = ptr.To[int32](0) }, []string{
			`spec.etcd.data.replicas: Invalid value: 0: spec.etcd.data.replicas in body should be greater than or equal to 1`,
			`spec.etcd.data.replicas: Invalid value: 0: the number of etcd members must be odd (1, 3, 5 or 7): an even one survives no more failures than one less`}},
		{"quota larger than the volume", func(s *spec) { s.Etcd.Data.QuotaBackendSize = ptr.To(resource.MustParse("8Gi")) }, []string{
			`spec.etcd.data.quotaBackendSize: Invalid value: "8Gi": must be less than storage.size, 8Gi: the volume also holds the write-ahead log and snapshots`}},
		{"negative quota", func(s *spec) { s.Etcd.Events.QuotaBackendSize = ptr.To(resource.MustParse("-1Gi")) }, []string{
			`spec.etcd.events.quotaBackendSize: Invalid value: "-1Gi": must be a positive number of bytes, for example 2Gi`}},
		{"no storage", func(s *spec) { s.Etcd.Data.Storage.Size = ptr.To(resource.MustParse("0")) }, []string{
			`spec.etcd.data.storage.size: Invalid value: "0": must be a positive number of bytes, for example 8Gi`}},
		{"storage class of an EmptyDir", func(s *spec) {
			s.Etcd.Data.Storage = controlplanev1.EtcdStorageSpec{Type: controlplanev1.EtcdStorageEmptyDir, StorageClassName: ptr.To("fast")}
		}, []string{`spec.etcd.data.storage.storageClassName: Invalid value: "fast": must be unset when storage.type is EmptyDir`}},
		{"unknown storage type", func(s *spec) { s.Etcd.Data.Storage.Type = "HostPath" }, []string{
			`spec.etcd.data.storage.type: Unsupported value: "HostPath": supported values: "PersistentVolumeClaim", "EmptyDir"`, unchecked}},

		{"an endpoint", func(s *spec) {
			s.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "tenant.example", Port: 6443}
		}, nil},
		{"endpoint without port", func(s *spec) { s.ControlPlaneEndpoint.Host = "tenant.example" }, []string{
			`spec.controlPlaneEndpoint.port: Required value: host is set; set both, or neither to get the address of the API server's Service`}},
		{"endpoint without host", func(s *spec) { s.ControlPlaneEndpoint.Port = 6443 }, []string{
			`spec.controlPlaneEndpoint.host: Required value: port is set; set both, or neither to get the address of the API server's Service`}},
		{"endpoint with a scheme", func(s *spec) {
			s.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "https://tenant.example", Port: 6443}
		}, []string{`spec.controlPlaneEndpoint.host: Invalid value: "https://tenant.example": must be a DNS name or an IP address, without scheme and port`}},

		{"another host cluster", func(s *spec) {
			s.Hosting.KubeconfigRef.Name = "host"
			s.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "tenant.example", Port: 6443}
		}, nil},
		{"another host cluster with a load balancer", func(s *spec) {
			s.Hosting.KubeconfigRef.Name = "host"
			onPodNetwork(controlplanev1.ExposureLoadBalancer)(s)
		}, nil},
		{"another host cluster without an endpoint", func(s *spec) { s.Hosting.KubeconfigRef.Name = "host" }, []string{elsewhere}},
		{"another host cluster with node ports alone", func(s *spec) {
			s.Hosting.KubeconfigRef.Name = "host"
			onPodNetwork(controlplanev1.ExposureNodePort)(s)
		}, []string{elsewhere}},

		{"a port pool", func(s *spec) { s.Hosting.PortPool = "north-2" }, nil},
		{"a port pool that is no name", func(s *spec) { s.Hosting.PortPool = "north.2" }, []string{
			`spec.hosting.portPool: Invalid value: "north.2": spec.hosting.portPool in body should match '^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$'`}},
		{"a port pool with a long name", func(s *spec) { s.Hosting.PortPool = strings.Repeat("a", 41) }, []string{
			`spec.hosting.portPool: Too long: may not be more than 40 bytes`, unchecked}},
		{"a port pool on the pod network", func(s *spec) {
			onPodNetwork(controlplanev1.ExposureNone)(s)
			s.Hosting.PortPool = "north"
		}, []string{`spec.hosting.portPool: Invalid value: "north": is for networkMode HostNetwork: pods on the pod network take no port of a host; remove it`}},
		{"host nodes of a port pool", func(s *spec) {
			s.Hosting.NodeSelector = map[string]string{controlplanev1.HostNodeLabel: "true", controlplanev1.PortPoolLabel: "north"}
		}, []string{
			`spec.hosting.nodeSelector[kok.cluster.x-k8s.io/port-pool]: Invalid value: "north": is the label of the host nodes of a port pool, which hosting.portPool of a new control plane chooses; remove it`}},
		{"a pinned block", func(s *spec) { s.Hosting.Ports.First = 29980 }, nil},
		{"block in the NodePorts", func(s *spec) { s.Hosting.Ports.First = 30000 }, []string{
			`spec.hosting.ports.first: Invalid value: 30000: ports 30000-30019 are not in 20000-29999, the range of control planes (--host-port-range of the manager); choose a block in it, or leave ports out to get a free one`}},
		{"block with kubelet's port", func(s *spec) { s.Hosting.Ports.First = 10240 }, []string{
			`spec.hosting.ports.first: Invalid value: 10240: ports 10240-10259 are not in 20000-29999, the range of control planes (--host-port-range of the manager); choose a block in it, or leave ports out to get a free one`}},
		{"block between two blocks", func(s *spec) { s.Hosting.Ports.First = 20010 }, []string{
			`spec.hosting.ports.first: Invalid value: 20010: spec.hosting.ports.first in body should be a multiple of 20`}},
		{"privileged block", func(s *spec) { s.Hosting.Ports.First = 1000 }, []string{
			`spec.hosting.ports.first: Invalid value: 1000: spec.hosting.ports.first in body should be greater than or equal to 1040`}},

		{"tolerations and a selector", func(s *spec) {
			s.Hosting.NodeSelector = map[string]string{"pool": "control-planes", controlplanev1.HostNodeLabel: "true"}
			s.Hosting.Tolerations = []corev1.Toleration{{Key: "dedicated", Value: "control-planes", Effect: corev1.TaintEffectNoSchedule}, {Key: "gpu", Operator: corev1.TolerationOpExists}}
		}, nil},
		{"nodes that are not for control planes", func(s *spec) { s.Hosting.NodeSelector = map[string]string{"pool": "a"} }, []string{
			`spec.hosting.nodeSelector: Invalid value: {"pool":"a"}: must contain kok.cluster.x-k8s.io/host-node=true, the label of nodes that may carry control planes (--host-node-selector of the manager)`}},
		{"toleration of everything", func(s *spec) {
			s.Hosting.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}, {Operator: corev1.TolerationOpExists}}
		}, []string{`spec.hosting.tolerations[1].key: Invalid value: "": must be set: without it every taint is tolerated, which the manager allows with --allow-any-toleration only; name the taint`}},
		{"toleration of the host cluster's control plane", func(s *spec) {
			s.Hosting.Tolerations = []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
		}, []string{`spec.hosting.tolerations[0].key: Invalid value: "node-role.kubernetes.io/control-plane": is the taint of the host cluster's own control plane, which the manager allows to tolerate with --allow-any-toleration only; remove it`}},
		{"selector with a bad value", func(s *spec) {
			s.Hosting.NodeSelector = map[string]string{"pool": "a b", controlplanev1.HostNodeLabel: "true"}
		}, []string{
			`spec.hosting.nodeSelector: Invalid value: "a b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
		{"toleration that ends", func(s *spec) {
			s.Hosting.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](60)}}
		}, []string{`spec.hosting.tolerations[0].tolerationSeconds: Invalid value: 60: must be unset: a cut link to the host cluster's control plane must not evict a control plane`}},
		{"toleration of nothing", func(s *spec) { s.Hosting.Tolerations = []corev1.Toleration{{Effect: "NoRun"}} }, []string{
			`spec.hosting.tolerations[0].operator: Invalid value: "": must be Exists when key is empty, which means every taint`,
			`spec.hosting.tolerations[0].effect: Unsupported value: "NoRun": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`}},

		{"another registry", func(s *spec) {
			s.ImageRepository = "localhost:5000"
			s.KubeScheduler.Image = "registry.example:5000/k8s/kube-scheduler:v1.36.3"
			s.Etcd.Image = "registry.example/etcd@sha256:" + strings.Repeat("a", 64)
		}, nil},
		{"repository with a slash at the end", func(s *spec) { s.ImageRepository = "registry.example/" }, []string{
			`spec.imageRepository: Invalid value: "registry.example/": must be a registry with an optional path, without a tag and a slash at the end, for example registry.k8s.io`}},
		{"repository with a scheme", func(s *spec) { s.ImageRepository = "https://registry.example" }, []string{
			`spec.imageRepository: Invalid value: "https://registry.example": must be a registry with an optional path, without a tag and a slash at the end, for example registry.k8s.io`}},
		{"image without a tag", func(s *spec) { s.KubeAPIServer.Image = "registry.example/kube-apiserver" }, []string{
			`spec.kubeAPIServer.image: Invalid value: "registry.example/kube-apiserver": must have a tag or a digest, for example registry.example/kube-apiserver:v1.0.0`}},
		{"image in upper case", func(s *spec) { s.Etcd.Image = "registry.example/Etcd:1" }, []string{
			`spec.etcd.image: Invalid value: "registry.example/Etcd:1": must be an image like registry.k8s.io/name:tag or registry.k8s.io/name@sha256:...: invalid reference format: repository name (Etcd) must be lowercase`}},

		{"tuning", func(s *spec) {
			s.KubeAPIServer.ExtraArgs = []controlplanev1.Arg{arg("v", "4"), arg("tls-min-version", "VersionTLS13"), arg("enable-admission-plugins", "NodeRestriction,AlwaysPullImages")}
			s.KubeControllerManager.ExtraArgs = []controlplanev1.Arg{arg("node-monitor-grace-period", "60s")}
			s.KubeScheduler.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "50m", "memory", "64Mi"), Limits: list("memory", "1Gi")}
		}, nil},
		{"owned arguments", func(s *spec) {
			s.KubeAPIServer.ExtraArgs = []controlplanev1.Arg{arg("v", "4"), arg("oidc-issuer-url", "https://issuer.example"), arg("anonymous-auth", "true")}
			s.KubeControllerManager.ExtraArgs = []controlplanev1.Arg{arg("cluster-cidr", "10.0.0.0/16")}
			s.KubeScheduler.ExtraArgs = []controlplanev1.Arg{arg("secure-port", "10259")}
		}, []string{
			`spec.kubeAPIServer.extraArgs[1].name: Invalid value: "oidc-issuer-url": belongs to the controller: set kubeAPIServer.jwt instead, the list of trusted issuers; anonymous requests reach health checks only`,
			`spec.kubeAPIServer.extraArgs[2].name: Invalid value: "anonymous-auth": belongs to the controller: set kubeAPIServer.jwt instead, the list of trusted issuers; anonymous requests reach health checks only`,
			`spec.kubeControllerManager.extraArgs[0].name: Invalid value: "cluster-cidr": belongs to the controller: set clusterNetwork.pods of the Cluster instead`,
			`spec.kubeScheduler.extraArgs[0].name: Invalid value: "secure-port": belongs to the controller: the controller gives every tenant its own port of a host node; pin the block with hosting.ports`}},
		{"argument with dashes", func(s *spec) { s.KubeScheduler.ExtraArgs = []controlplanev1.Arg{arg("--v", "4")} }, []string{
			`spec.kubeScheduler.extraArgs[0].name: Invalid value: "--v": spec.kubeScheduler.extraArgs[0].name in body should match '^[a-z][a-z0-9-]*$'`}},
		{"admission plugins without NodeRestriction", func(s *spec) {
			s.KubeAPIServer.ExtraArgs = []controlplanev1.Arg{arg("enable-admission-plugins", "AlwaysPullImages")}
		}, []string{`spec.kubeAPIServer.extraArgs[0].value: Invalid value: "AlwaysPullImages": must contain NodeRestriction: without it a node could change other nodes`}},
		{"audit log twice", func(s *spec) {
			s.KubeAPIServer.Audit = &controlplanev1.AuditSpec{}
			s.KubeAPIServer.ExtraArgs = []controlplanev1.Arg{arg("audit-log-path", "-")}
		}, []string{`spec.kubeAPIServer.extraArgs[0].name: Invalid value: "audit-log-path": kubeAPIServer.audit sets it; remove one of the two`}},

		{"resources that make no sense", func(s *spec) {
			s.KubeAPIServer.Resources = &corev1.ResourceRequirements{Requests: list("memory", "2Gi", "disk", "1"), Limits: list("cpu", "0", "memory", "1Gi")}
		}, []string{
			`spec.kubeAPIServer.resources.limits[cpu]: Invalid value: "0": must be more than zero; leave it out for no limit`,
			`spec.kubeAPIServer.resources.requests[disk]: Unsupported value: "disk": supported values: "cpu", "memory", "ephemeral-storage"`,
			`spec.kubeAPIServer.resources.requests[memory]: Invalid value: "2Gi": must be at most the limit, 1Gi`}},
		{"thousandths of a byte", func(s *spec) { s.Etcd.Data.Resources = &corev1.ResourceRequirements{Requests: list("memory", "100m")} }, []string{
			`spec.etcd.data.resources.requests[memory]: Invalid value: "100m": must be whole: "m" means thousandths; write Mi for mebibytes`}},

		{"extra volumes", func(s *spec) {
			s.KubeAPIServer.ExtraVolumes = []controlplanev1.ExtraVolume{
				mount("scratch", "/var/scratch"),
				{Name: "webhook", MountPath: "/etc/extra/webhook", Secret: &corev1.SecretVolumeSource{SecretName: "webhook", DefaultMode: ptr.To[int32](0o400)}},
				{Name: "files", MountPath: "/etc/extra/files", ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "files"}, Items: []corev1.KeyToPath{{Key: "a", Path: "b/c"}}}},
			}
		}, nil},
		{"volume without a limit", func(s *spec) {
			s.KubeAPIServer.ExtraVolumes = []controlplanev1.ExtraVolume{{Name: "a", MountPath: "/srv", EmptyDir: &corev1.EmptyDirVolumeSource{}}}
		}, []string{`spec.kubeAPIServer.extraVolumes[0].emptyDir.sizeLimit: Required value: without it one control plane could fill a host node's disk; set it, for example to 1Gi`}},
		{"an audit log that is too large", func(s *spec) {
			s.KubeAPIServer.Audit = &controlplanev1.AuditSpec{MaxSizeMB: 1001, MaxBackups: 21}
		}, []string{
			`spec.kubeAPIServer.audit.maxSizeMB: Invalid value: 1001: spec.kubeAPIServer.audit.maxSizeMB in body should be less than or equal to 1000`,
			`spec.kubeAPIServer.audit.maxBackups: Invalid value: 21: spec.kubeAPIServer.audit.maxBackups in body should be less than or equal to 20`}},
		{"volumes over the controller's", func(s *spec) {
			s.KubeAPIServer.ExtraVolumes = []controlplanev1.ExtraVolume{mount("a", "/etc/kubernetes/pki"), mount("b", "/etc"), mount("c", "/var/lib/etcd")}
		}, []string{
			`spec.kubeAPIServer.extraVolumes[0].mountPath: Invalid value: "/etc/kubernetes/pki": collides with /etc/kubernetes, which the component needs; mount it elsewhere, for example at /etc/extra`,
			`spec.kubeAPIServer.extraVolumes[1].mountPath: Invalid value: "/etc": collides with /etc/kubernetes, which the component needs; mount it elsewhere, for example at /etc/extra`,
			`spec.kubeAPIServer.extraVolumes[1].mountPath: Invalid value: "/etc": collides with /etc/kubernetes/pki, where volume "a" is mounted`,
			`spec.kubeAPIServer.extraVolumes[2].mountPath: Invalid value: "/var/lib/etcd": collides with /var/lib/etcd, which the component needs; mount it elsewhere, for example at /etc/extra`}},
		{"path that leaves its directory", func(s *spec) {
			s.KubeScheduler.ExtraVolumes = []controlplanev1.ExtraVolume{mount("a", "/srv/../etc/kubernetes")}
		}, []string{`spec.kubeScheduler.extraVolumes[0].mountPath: Invalid value: "/srv/../etc/kubernetes": must be an absolute path of a directory below /, without "..", doubled slashes and a slash at the end`}},
		{"volume of the controller's name", func(s *spec) {
			s.KubeScheduler.ExtraVolumes = []controlplanev1.ExtraVolume{mount("kok-certs", "/srv")}
		}, []string{`spec.kubeScheduler.extraVolumes[0].name: Invalid value: "kok-certs": volume names with the prefix kok- belong to the controller; choose another`}},
		{"volume from two sources", func(s *spec) {
			volume := mount("a", "/srv")
			volume.Secret = &corev1.SecretVolumeSource{SecretName: "b"}
			s.KubeScheduler.ExtraVolumes = []controlplanev1.ExtraVolume{volume}
		}, []string{`spec.kubeScheduler.extraVolumes[0]: Invalid value: exactly one of configMap, secret, emptyDir must be set`}},
		{"volume from a Secret without a name", func(s *spec) {
			s.KubeScheduler.ExtraVolumes = []controlplanev1.ExtraVolume{{Name: "a", MountPath: "/srv", Secret: &corev1.SecretVolumeSource{DefaultMode: ptr.To[int32](1000)}}}
		}, []string{
			`spec.kubeScheduler.extraVolumes[0].secret.secretName: Required value: name of a Secret in the control plane's namespace`,
			`spec.kubeScheduler.extraVolumes[0].secret.defaultMode: Invalid value: 1000: must be from 0 to 0777 (511)`}},

		{"names in certificates", func(s *spec) {
			s.KubeAPIServer.CertSANs = []string{"tenant.example", "*.tenant.example", "192.0.2.1", "2001:db8::1"}
		}, nil},
		{"a URL in certificates", func(s *spec) { s.KubeAPIServer.CertSANs = []string{"tenant.example", "https://tenant.example:6443"} }, []string{
			`spec.kubeAPIServer.certSANs[1]: Invalid value: "https://tenant.example:6443": must be a DNS name, a wildcard like *.example.com, or an IP address, without scheme and port`}},

		{"an audit policy", func(s *spec) {
			s.KubeAPIServer.Audit = &controlplanev1.AuditSpec{Policy: "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n"}
		}, nil},
		{"audit policy with an unknown field", func(s *spec) {
			s.KubeAPIServer.Audit = &controlplanev1.AuditSpec{Policy: "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- lvl: Metadata\n"}
		}, []string{`spec.kubeAPIServer.audit.policy: Invalid value: must be an audit.k8s.io/v1 Policy as YAML: unknown field "rules[0].lvl"`}},
		{"audit policy with an unknown level", func(s *spec) {
			s.KubeAPIServer.Audit = &controlplanev1.AuditSpec{Policy: "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: All\n"}
		}, []string{`spec.kubeAPIServer.audit.policy: Invalid value: must be an audit.k8s.io/v1 Policy as YAML: rules[0].level: Unsupported value: "All": supported values: "None", "Metadata", "Request", "RequestResponse"`}},
		{"audit policy without rules", func(s *spec) {
			s.KubeAPIServer.Audit = &controlplanev1.AuditSpec{Policy: "apiVersion: audit.k8s.io/v1\nkind: Policy\n"}
		}, []string{`spec.kubeAPIServer.audit.policy: Invalid value: must be an audit.k8s.io/v1 Policy as YAML: rules must not be empty`}},
		{"audit policy that is something else", func(s *spec) { s.KubeAPIServer.Audit = &controlplanev1.AuditSpec{Policy: "- a\n"} }, []string{
			`spec.kubeAPIServer.audit.policy: Invalid value: must be an audit.k8s.io/v1 Policy as YAML: couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }`}},

		{"a trusted issuer", func(s *spec) { s.KubeAPIServer.JWT = jwt(goodJWT) }, nil},
		{"issuer with an unknown field", func(s *spec) {
			s.KubeAPIServer.JWT = jwt(`{"issuer":{"uri":"https://issuer.example"}}`)
		}, []string{`spec.kubeAPIServer.jwt[0]: Invalid value: "{\"issuer\":{\"uri\":\"https://issuer.example\"}}": must be an element of the jwt list of an apiserver.config.k8s.io/v1 AuthenticationConfiguration: unknown field "issuer.uri"`}},
		{"issuer without TLS", func(s *spec) {
			s.KubeAPIServer.JWT = jwt(strings.Replace(goodJWT, "https", "http", 1))
		}, []string{`spec.kubeAPIServer.jwt[0].issuer.url: Invalid value: "http://issuer.example": URL scheme must be https`}},
		{"issuer with a malformed expression", func(s *spec) {
			s.KubeAPIServer.JWT = jwt(strings.Replace(goodJWT, `"claim":"sub","prefix":"ex:"`, `"expression":"claims.sub +"`, 1))
		}, []string{"spec.kubeAPIServer.jwt[0].claimMappings.username.expression: Invalid value: \"claims.sub +\": compilation failed: ERROR: <input>:1:13: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | claims.sub +\n | ............^"}},
		{"one issuer twice", func(s *spec) { s.KubeAPIServer.JWT = append(jwt(goodJWT), jwt(goodJWT)...) }, []string{
			`spec.kubeAPIServer.jwt[1].issuer.url: Duplicate value: "https://issuer.example"`}},

		{"more encrypted resources", func(s *spec) { s.EncryptionAtRest.Resources = []string{"secrets", "configmaps", "widgets.example.com"} }, nil},
		{"overlapping encrypted resources", func(s *spec) { s.EncryptionAtRest.Resources = []string{"*.", "secrets"} }, []string{
			`spec.encryptionAtRest.resources: Invalid value: ["*.","secrets"]: using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked`}},
		{"patches", func(s *spec) {
			s.Patches = []controlplanev1.Patch{
				{Target: controlplanev1.PatchTarget{Component: "kube-apiserver", Kind: "DaemonSet"}, Patch: "spec: {template: {metadata: {annotations: {a: b}}}}"},
				{Target: controlplanev1.PatchTarget{Component: "coredns", Kind: "Deployment"}, Type: controlplanev1.PatchJSON6902, Patch: "- {op: add, path: /metadata/labels/a, value: b}"},
			}
		}, nil},
		{"patch of what a field says", func(s *spec) {
			s.Patches = []controlplanev1.Patch{{Target: controlplanev1.PatchTarget{Component: "etcd-data", Kind: "StatefulSet"}, Patch: "spec: {replicas: 5}"}}
		}, []string{`spec.patches[0]: Invalid value: StatefulSet of etcd-data: spec.replicas cannot be patched: set spec.etcd.data.replicas`}},
		{"patch of nothing", func(s *spec) {
			s.Patches = []controlplanev1.Patch{{Target: controlplanev1.PatchTarget{Component: "etcd-data", Kind: "Job"}, Patch: "{}"}}
		}, []string{`spec.patches[0]: Invalid value: Job of etcd-data: etcd-data has no Job; set target.kind to one of ConfigMap, NetworkPolicy, PodDisruptionBudget, Service, StatefulSet`}},
		{"patch of another component", func(s *spec) {
			s.Patches = []controlplanev1.Patch{{Target: controlplanev1.PatchTarget{Component: "etcd", Kind: "StatefulSet"}, Type: "Merge", Patch: "{}"}}
		}, []string{
			`spec.patches[0].target.component: Unsupported value: "etcd": supported values: "etcd-data", "etcd-events", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns", "kube-proxy", "konnectivity"`,
			`spec.patches[0].type: Unsupported value: "Merge": supported values: "StrategicMerge", "JSON6902"`, unchecked}},
		{"a rollout", func(s *spec) { s.Rollout.After.Time = s.Rollout.After.AddDate(2030, 0, 0) }, nil},
	}
	namespace := newNamespace(t)
	for i, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := minimal(namespace)
			c.Name = fmt.Sprintf("tenant-%d", i)
			tc.edit(&c.Spec)
			expectRefusal(t, environment.Client.Create(t.Context(), c), tc.want...)
		})
	}
}
