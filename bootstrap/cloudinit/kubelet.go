package cloudinit

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/services"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/sparse"
)

const kubeletDropIn = onworker.UnitDir + onworker.KubeletUnit + ".d/90-kok.conf"

// addCluster adds the CA that kubelet trusts, and the token with which it requests a certificate. It adds no administrator's
// credential.
func addCluster(d *document, in *Input) error {
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{bootstrapCluster: {
			Server: (&url.URL{Scheme: "https", Host: LocalServer}).String(), CertificateAuthorityData: in.Cluster.CABundle,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{bootstrapUser: {Token: in.Token}},
		Contexts:       map[string]*clientcmdapi.Context{bootstrapUser: {Cluster: bootstrapCluster, AuthInfo: bootstrapUser}},
		CurrentContext: bootstrapUser,
	})
	if err != nil {
		return fmt.Errorf("marshal the bootstrap kubeconfig: %w", err)
	}
	d.WriteFiles = append(d.WriteFiles, joiningFiles(in.Cluster.CABundle, kubeconfig)...)
	return nil
}

// Names in the bootstrap kubeconfig.
const (
	bootstrapCluster = "tenant"
	bootstrapUser    = "kubelet-bootstrap"
)

// joiningFiles are the files with which a machine joins.
func joiningFiles(caBundle, kubeconfig []byte) []writeFile {
	return []writeFile{ownFile(CAFile, "0644", caBundle), ownFile(BootstrapKubeconfig, "0600", kubeconfig)}
}

func addKubelet(d *document, in *Input) error {
	configuration, err := kubeletConfiguration(in)
	if err != nil {
		return err
	}
	content, err := sparse.YAML(configuration, &kubeletv1beta1.KubeletConfiguration{})
	if err != nil {
		return fmt.Errorf("marshal kubelet's configuration: %w", err)
	}
	args, err := kubeletArgs(in)
	if err != nil {
		return err
	}
	line, err := commandLine("kubelet", args...)
	if err != nil {
		return fmt.Errorf("spec.kubelet: %w", err)
	}
	dropIn := "[Service]\nEnvironmentFile=-" + onworker.KubeletEnvironment + "\nExecStart=\nExecStart=" + line + " $KUBELET_EXTRA_ARGS\n"
	d.WriteFiles = append(d.WriteFiles,
		ownFile(KubeletConfiguration, "0644", content),
		ownFile(onworker.UnitDir+onworker.KubeletUnit, "0644", asset(onworker.KubeletUnit)),
		ownFile(kubeletDropIn, "0644", []byte(dropIn)))
	return nil
}

// kubeletConfiguration is the KubeletConfiguration of the machine. Its fields are known to kubelets of
// every supported version.
func kubeletConfiguration(in *Input) (*kubeletv1beta1.KubeletConfiguration, error) {
	dns, err := services.DNS(in.Cluster.ServiceCIDRs)
	if err != nil {
		return nil, err
	}
	set := in.Spec.Kubelet.Configuration
	if err := checkKubelet(in.Spec.Kubelet); err != nil {
		return nil, err
	}
	return &kubeletv1beta1.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeletv1beta1.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},
		Authentication: kubeletv1beta1.KubeletAuthentication{
			X509:      kubeletv1beta1.KubeletX509Authentication{ClientCAFile: CAFile},
			Anonymous: kubeletv1beta1.KubeletAnonymousAuthentication{Enabled: ptr.To(false)},
			Webhook:   kubeletv1beta1.KubeletWebhookAuthentication{Enabled: ptr.To(true)},
		},
		Authorization:            kubeletv1beta1.KubeletAuthorization{Mode: kubeletv1beta1.KubeletAuthorizationModeWebhook},
		ClusterDNS:               []string{dns},
		ClusterDomain:            in.Cluster.DNSDomain,
		ContainerRuntimeEndpoint: onworker.ContainerdSocket,
		HealthzBindAddress:       "127.0.0.1",
		RotateCertificates:       true,
		ServerTLSBootstrap:       true,
		// A machine may have only cgroup v1, where kubelet from v1.35 on ends by default.
		FailCgroupV1:       ptr.To(false),
		RegisterWithTaints: Taints(in.Spec.Kubelet.Taints),

		CgroupDriver:                    string(set.CgroupDriver),
		MaxPods:                         set.MaxPods,
		PodPidsLimit:                    set.PodPidsLimit,
		EvictionHard:                    set.EvictionHard,
		KubeReserved:                    set.KubeReserved,
		SystemReserved:                  set.SystemReserved,
		ImageGCHighThresholdPercent:     set.ImageGCHighThresholdPercent,
		ImageGCLowThresholdPercent:      set.ImageGCLowThresholdPercent,
		SerializeImagePulls:             set.SerializeImagePulls,
		MaxParallelImagePulls:           set.MaxParallelImagePulls,
		ContainerLogMaxSize:             set.ContainerLogMaxSize,
		ContainerLogMaxFiles:            set.ContainerLogMaxFiles,
		FailSwapOn:                      set.FailSwapOn,
		ResolverConfig:                  set.ResolvConf,
		OOMScoreAdj:                     set.OOMScoreAdj,
		CPUManagerPolicy:                string(set.CPUManagerPolicy),
		TopologyManagerPolicy:           string(set.TopologyManagerPolicy),
		ShutdownGracePeriod:             ptr.Deref(set.ShutdownGracePeriod, metav1.Duration{}),
		ShutdownGracePeriodCriticalPods: ptr.Deref(set.ShutdownGracePeriodCriticalPods, metav1.Duration{}),
		FeatureGates:                    set.FeatureGates,
	}, nil
}

// Taints are those of a new Node. Cluster API removes its own taint when it has set the Machine's labels. Users may have set
// that taint themselves, as with KubeadmConfig, and a Node cannot have a key and effect twice.
func Taints(set []corev1.Taint) []corev1.Taint {
	first := clusterv1.NodeUninitializedTaint
	if slices.ContainsFunc(set, func(taint corev1.Taint) bool { return taint.MatchTaint(&first) }) {
		return set
	}
	return append([]corev1.Taint{first}, set...)
}

// checkKubelet refuses unprintable text in fields where the API has free text, because YAML would change it.
func checkKubelet(spec bootstrapv1.KubeletSpec) error {
	set := spec.Configuration
	lines := []string{string(set.CgroupDriver), string(set.CPUManagerPolicy), string(set.TopologyManagerPolicy), set.ContainerLogMaxSize, ptr.Deref(set.ResolvConf, "")}
	for _, taint := range spec.Taints {
		lines = append(lines, taint.Key, taint.Value, string(taint.Effect))
	}
	for _, values := range []map[string]string{set.EvictionHard, set.KubeReserved, set.SystemReserved} {
		for key, value := range values {
			lines = append(lines, key, value)
		}
	}
	for gate := range set.FeatureGates {
		lines = append(lines, gate)
	}
	for _, line := range lines {
		if err := checkLine(line); err != nil {
			return invalid("kubelet", line, err)
		}
	}
	return nil
}

func kubeletArgs(in *Input) ([]string, error) {
	args := []string{"--config=" + KubeletConfiguration, "--kubeconfig=" + onworker.Kubeconfig, "--bootstrap-kubeconfig=" + BootstrapKubeconfig}
	spec := in.Spec.Kubelet
	if len(spec.NodeLabels) > 0 {
		labels := make([]string, 0, len(spec.NodeLabels))
		for key, value := range spec.NodeLabels {
			if strings.ContainsAny(key+value, ",=\"") {
				return nil, invalid("kubelet.nodeLabels", key+"="+value, errors.New("must be a label"))
			}
			labels = append(labels, key+"="+value)
		}
		slices.Sort(labels)
		args = append(args, "--node-labels="+strings.Join(labels, ","))
	}
	for i, arg := range spec.ExtraArgs {
		field := fmt.Sprintf("kubelet.extraArgs[%d].name", i)
		if !argNames.MatchString(arg.Name) {
			return nil, invalid(field, arg.Name, errors.New("must be an argument without leading dashes"))
		}
		if reason, owned := OwnedArg(arg.Name); owned {
			return nil, invalid(field, arg.Name, fmt.Errorf("belongs to the controller: %s", reason))
		}
		args = append(args, "--"+arg.Name+"="+ptr.Deref(arg.Value, ""))
	}
	return args, nil
}
