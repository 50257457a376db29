package components_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// variants are the inputs that golden files exist for.
var variants = map[string]func() *components.Input{
	"default":    func() *components.Input { return input(defaulted(), ipv4, "10.250.0.") },
	"customised": func() *components.Input { return input(customised(), ipv4, "10.250.0.") },
	"trial": func() *components.Input {
		return input(trial(), components.Network{ServiceCIDRs: []string{"10.96.0.0/12"}, DNSDomain: "cluster.local", APIServerPort: 6443}, "10.250.0.")
	},
	"dual-stack": func() *components.Input {
		return input(defaulted(), components.Network{
			PodCIDRs:     []string{"10.244.0.0/16", "fd00:10:244::/56"},
			ServiceCIDRs: []string{"10.96.0.0/16", "fd00:10:96::/112"},
			DNSDomain:    "cluster.local", APIServerPort: 6443,
		}, "10.250.0.")
	},
	"ipv6": func() *components.Input {
		return input(defaulted(), components.Network{
			PodCIDRs: []string{"fd00:10:244::/56"}, ServiceCIDRs: []string{"fd00:10:96::/112"}, DNSDomain: "cluster.local", APIServerPort: 6443,
		}, "fd00:250::")
	},
	"deployment": func() *components.Input {
		spec := defaulted()
		spec.KubeAPIServer.Workload = controlplanev1.APIServerDeployment
		return input(spec, ipv4, "10.250.0.")
	},
	"load-balancer": func() *components.Input {
		spec := onPodNetwork(controlplanev1.ExposureLoadBalancer)
		spec.KubeAPIServer.Workload = controlplanev1.APIServerDeployment
		spec.Addons.Konnectivity.Mode = controlplanev1.AddonManaged
		return exposed(spec, components.Exposure{Address: "192.0.2.80", Port: 6443})
	},
	"node-port": func() *components.Input {
		return exposed(onPodNetwork(controlplanev1.ExposureNodePort), components.Exposure{Port: 31234})
	},
	"not-exposed": func() *components.Input {
		spec := onPodNetwork(controlplanev1.ExposureNone)
		spec.KubeAPIServer.Workload = controlplanev1.APIServerDeployment
		return exposed(spec, components.Exposure{Address: "10.250.0.17", Port: 6443})
	},
	"backup-s3": func() *components.Input {
		spec := defaulted()
		spec.Etcd.Backup = backupToS3()
		return input(spec, ipv4, "10.250.0.")
	},
	"backup-claim-restore": func() *components.Input {
		spec := onPodNetwork(controlplanev1.ExposureNone)
		spec.KubeAPIServer.Workload = controlplanev1.APIServerDeployment
		spec.Etcd.Backup = backupToS3()
		spec.Etcd.Backup.Store = controlplanev1.EtcdSnapshotStore{ClaimName: "snapshots"}
		spec.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{Snapshot: "blue-20300102t030000z"}
		return exposed(spec, components.Exposure{Address: "10.250.0.17", Port: 6443})
	},
	"backup-per-member": func() *components.Input {
		spec := onPodNetwork(controlplanev1.ExposureNone)
		spec.KubeAPIServer.Workload = controlplanev1.APIServerDeployment
		spec.Etcd.Backup = backupToS3()
		spec.Etcd.Backup.Store = perMember("local", "4Gi")
		spec.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{Snapshot: "blue-20300102t030000z"}
		return exposed(spec, components.Exposure{Address: "10.250.0.17", Port: 6443})
	},
}

// perMember is a store on volumes of members.
func perMember(class, size string) controlplanev1.EtcdSnapshotStore {
	return controlplanev1.EtcdSnapshotStore{PerMember: &controlplanev1.PerMemberStoreSpec{StorageClassName: &class, Size: ptr.To(resource.MustParse(size))}}
}

// backupToS3 has every field of a backup into a bucket.
func backupToS3() *controlplanev1.EtcdBackupSpec {
	return &controlplanev1.EtcdBackupSpec{
		Every: &metav1.Duration{Duration: time.Hour}, MaxAge: &metav1.Duration{Duration: 4 * time.Hour},
		Keep:       controlplanev1.EtcdSnapshotRetention{Last: ptr.To[int32](24), Daily: ptr.To[int32](7), Weekly: ptr.To[int32](4)},
		Recipients: []string{"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"},
		Store: controlplanev1.EtcdSnapshotStore{S3: &controlplanev1.S3StoreSpec{
			Endpoint: "https://s3.example", Bucket: "snapshots", Prefix: "team/blue", Region: "us-east-1",
			CredentialsRef: controlplanev1.SecretReference{Name: "s3"}, CARef: controlplanev1.SecretReference{Name: "s3-ca"},
		}},
	}
}

// onPodNetwork is the smallest spec of that mode.
func onPodNetwork(exposure controlplanev1.ExposureType) controlplanev1.KOKControlPlaneSpec {
	spec := defaulted()
	spec.Hosting.Ports = controlplanev1.PortBlock{}
	spec.Hosting.NetworkMode = controlplanev1.NetworkModePod
	spec.Hosting.Exposure.Type = exposure
	return spec
}

// exposed is what the controller gathers for a spec on the pod network.
func exposed(spec controlplanev1.KOKControlPlaneSpec, exposure components.Exposure) *components.Input {
	in := input(spec, ipv4, "10.250.0.")
	in.Exposure, in.Ports = exposure, ports.OnPodNetwork(exposure.Port)
	return in
}

var ipv4 = components.Network{
	PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/12"}, DNSDomain: "cluster.local", APIServerPort: 6443,
}

// input is what the controller gathers for a spec: its Services have addresses with the prefix.
func input(spec controlplanev1.KOKControlPlaneSpec, network components.Network, prefix string) *components.Input {
	in := &components.Input{
		Cluster:   client.ObjectKey{Namespace: "team", Name: "blue"},
		Version:   spec.Version,
		Spec:      components.Reduce(spec),
		Network:   network,
		Ports:     ports.Of(spec.Hosting.Ports.First),
		Addresses: map[string]string{},

		EtcdImageTag:         "3.6.16-0",
		EtcdAgentImage:       "registry.example/kok/kok-etcd-agent@sha256:" + strings.Repeat("b", 64),
		KonnectivityImageTag: "v0.34.0",

		APIServerReplicas: 2,
	}
	for _, service := range services(in) {
		in.Addresses[service.Name] = fmt.Sprintf("%s%d", prefix, len(in.Addresses)+11)
	}
	return in
}

func services(in *components.Input) []*corev1.Service {
	var found []*corev1.Service
	for _, component := range registry.Components {
		if component.Services == nil {
			continue
		}
		of, err := component.Services(in)
		if err != nil {
			panic(err)
		}
		found = append(found, of...)
	}
	return found
}

// defaulted is what the API server makes of the smallest spec, with the ports that were claimed.
func defaulted() controlplanev1.KOKControlPlaneSpec {
	etcdCluster := controlplanev1.EtcdClusterSpec{
		Replicas:         ptr.To[int32](3),
		QuotaBackendSize: ptr.To(resource.MustParse("2Gi")),
		Storage: controlplanev1.EtcdStorageSpec{
			Type: controlplanev1.EtcdStoragePersistentVolumeClaim, Size: ptr.To(resource.MustParse("8Gi")),
		},
	}
	return controlplanev1.KOKControlPlaneSpec{
		Version:         "v1.36.3",
		ImageRepository: "registry.k8s.io",
		Hosting: controlplanev1.HostingSpec{
			NodeSelector: map[string]string{controlplanev1.HostNodeLabel: "true"},
			Ports:        controlplanev1.PortBlock{First: 20000},
		},
		KubeControllerManager: controlplanev1.ReplicatedComponentSpec{Replicas: ptr.To[int32](2)},
		KubeScheduler:         controlplanev1.ReplicatedComponentSpec{Replicas: ptr.To[int32](2)},
		Etcd:                  controlplanev1.EtcdSpec{Data: etcdCluster, Events: controlplanev1.EtcdEventsSpec{EtcdClusterSpec: *etcdCluster.DeepCopy()}},
		EncryptionAtRest:      controlplanev1.EncryptionAtRestSpec{Mode: controlplanev1.EncryptionSecretBox, Resources: []string{"secrets"}},
	}
}

// trial is the smallest control plane: one of each, data as long as its pods.
func trial() controlplanev1.KOKControlPlaneSpec {
	spec := defaulted()
	spec.KubeControllerManager.Replicas, spec.KubeScheduler.Replicas = ptr.To[int32](1), ptr.To[int32](1)
	for _, cluster := range []*controlplanev1.EtcdClusterSpec{&spec.Etcd.Data, &spec.Etcd.Events.EtcdClusterSpec} {
		cluster.Replicas = ptr.To[int32](1)
		cluster.Storage = controlplanev1.EtcdStorageSpec{Type: controlplanev1.EtcdStorageEmptyDir, Size: ptr.To(resource.MustParse("8Gi"))}
	}
	return spec
}

// customised sets every field that renderings depend on.
func customised() controlplanev1.KOKControlPlaneSpec {
	spec := defaulted()
	spec.Version = "v1.35.4"
	spec.ImageRepository = "registry.example/kubernetes"
	spec.ImagePullSecret = "registry"
	spec.Hosting = controlplanev1.HostingSpec{
		NodeSelector: map[string]string{"pool": "control-planes", "tier": "gold"},
		PortPool:     "north",
		Ports:        controlplanev1.PortBlock{First: 20040},
		Tolerations: []corev1.Toleration{
			{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "control-planes", Effect: corev1.TaintEffectNoSchedule},
			{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)},
		},
	}
	spec.KubeAPIServer = controlplanev1.KubeAPIServerSpec{
		ComponentSpec: component("kube-apiserver", "enable-admission-plugins", "NodeRestriction,AlwaysPullImages", "max-requests-inflight", "800"),
		CertSANs:      []string{"api.example"},
		Audit:         &controlplanev1.AuditSpec{Policy: "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Request\n", MaxSizeMB: 20, MaxBackups: 3},
		JWT: []runtime.RawExtension{{Raw: []byte(
			`{"claimMappings":{"username":{"claim":"sub","prefix":"ex:"}},"issuer":{"audiences":["tenant"],"url":"https://issuer.example"}}`)}},
	}
	spec.Addons.Konnectivity = controlplanev1.KonnectivitySpec{
		Mode: controlplanev1.AddonManaged, ServerImage: "registry.example/proxy-server:patched",
	}
	spec.KubeControllerManager = controlplanev1.ReplicatedComponentSpec{
		ComponentSpec: component("kube-controller-manager", "controllers", "*,bootstrapsigner,tokencleaner,-ttl", "v", "4"), Replicas: ptr.To[int32](3),
	}
	spec.KubeScheduler = controlplanev1.ReplicatedComponentSpec{
		ComponentSpec: component("kube-scheduler", "config", "/extra/config-map/scheduler.yaml"), Replicas: ptr.To[int32](3),
	}
	spec.Etcd = controlplanev1.EtcdSpec{
		Image: "registry.example/etcd@sha256:" + strings.Repeat("a", 64),
		Data: controlplanev1.EtcdClusterSpec{
			Replicas: ptr.To[int32](5), Resources: resources("2", "4Gi"), QuotaBackendSize: ptr.To(resource.MustParse("6Gi")),
			Storage: controlplanev1.EtcdStorageSpec{
				Type: controlplanev1.EtcdStoragePersistentVolumeClaim, Size: ptr.To(resource.MustParse("32Gi")), StorageClassName: ptr.To("fast"),
			},
		},
		Events: controlplanev1.EtcdEventsSpec{EtcdClusterSpec: controlplanev1.EtcdClusterSpec{
			Replicas: ptr.To[int32](1), Resources: resources("1", "1Gi"), QuotaBackendSize: ptr.To(resource.MustParse("1Gi")),
			Storage: controlplanev1.EtcdStorageSpec{
				Type: controlplanev1.EtcdStoragePersistentVolumeClaim, Size: ptr.To(resource.MustParse("4Gi")), StorageClassName: ptr.To("slow"),
			},
		}},
	}
	return spec
}

func component(name string, args ...string) controlplanev1.ComponentSpec {
	spec := controlplanev1.ComponentSpec{
		Image:     "registry.example/" + name + ":patched",
		Resources: resources("1", "2Gi"),
		ExtraVolumes: []controlplanev1.ExtraVolume{
			{Name: "config-map", MountPath: "/extra/config-map", ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "files"}}},
			{Name: "secret", MountPath: "/extra/secret", Secret: &corev1.SecretVolumeSource{SecretName: "token", Optional: ptr.To(true)}},
			{Name: "scratch", MountPath: "/extra/scratch", EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("16Mi"))}},
		},
	}
	for pair := range slices.Chunk(args, 2) {
		spec.ExtraArgs = append(spec.ExtraArgs, controlplanev1.Arg{Name: pair[0], Value: ptr.To(pair[1])})
	}
	return spec
}

func resources(cpu, memory string) *corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return &corev1.ResourceRequirements{Requests: list, Limits: list}
}
