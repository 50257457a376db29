package tenant

import (
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
	kubeadmv1beta4 "sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types/upstreamv1beta4"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/services"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/sparse"
)

const (
	kubeadmConfigName = "kubeadm-config"
	kubeletConfigName = "kubelet-config"
	certificatesDir   = "/etc/kubernetes/pki"
)

func configMap(namespace, name, key, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: objectMeta(namespace, name),
		Data:       map[string]string{key: value},
	}
}

// clusterInfo is what a machine reads before it trusts anyone: kube-controller-manager's
// bootstrapsigner signs it with every bootstrap token.
func clusterInfo(settings Settings) (*corev1.ConfigMap, error) {
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"": {
			Server:                   (&url.URL{Scheme: "https", Host: settings.Server}).String(),
			CertificateAuthorityData: settings.CABundle,
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("marshal the kubeconfig of %s: %w", bootstrapapi.ConfigMapClusterInfo, err)
	}
	return configMap(metav1.NamespacePublic, bootstrapapi.ConfigMapClusterInfo, bootstrapapi.KubeConfigKey, string(content)), nil
}

// kubeadmConfig is the ClusterConfiguration that "kubeadm join" reads.
func kubeadmConfig(settings Settings) (*corev1.ConfigMap, error) {
	content, err := sparse.YAML(&kubeadmv1beta4.ClusterConfiguration{
		TypeMeta:             metav1.TypeMeta{APIVersion: kubeadmv1beta4.GroupVersion.String(), Kind: "ClusterConfiguration"},
		ClusterName:          settings.ClusterName,
		KubernetesVersion:    settings.Version,
		ControlPlaneEndpoint: settings.Server,
		CertificatesDir:      certificatesDir,
		ImageRepository:      settings.ImageRepository,
		Networking: kubeadmv1beta4.Networking{
			PodSubnet:     strings.Join(settings.PodCIDRs, ","),
			ServiceSubnet: strings.Join(settings.ServiceCIDRs, ","),
			DNSDomain:     settings.DNSDomain,
		},
	}, &kubeadmv1beta4.ClusterConfiguration{})
	if err != nil {
		return nil, fmt.Errorf("marshal ClusterConfiguration: %w", err)
	}
	return configMap(metav1.NamespaceSystem, kubeadmConfigName, "ClusterConfiguration", string(content)), nil
}

// kubeletConfig holds what kubeadm sets by default; the cgroup driver is left to each node.
func kubeletConfig(settings Settings) (*corev1.ConfigMap, error) {
	dns, err := services.DNS(settings.ServiceCIDRs)
	if err != nil {
		return nil, err
	}
	content, err := sparse.YAML(&kubeletv1beta1.KubeletConfiguration{
		TypeMeta:      metav1.TypeMeta{APIVersion: kubeletv1beta1.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},
		StaticPodPath: "/etc/kubernetes/manifests",
		ClusterDNS:    []string{dns},
		ClusterDomain: settings.DNSDomain,
		Authentication: kubeletv1beta1.KubeletAuthentication{
			X509:      kubeletv1beta1.KubeletX509Authentication{ClientCAFile: certificatesDir + "/ca.crt"},
			Anonymous: kubeletv1beta1.KubeletAnonymousAuthentication{Enabled: ptr.To(false)},
			Webhook:   kubeletv1beta1.KubeletWebhookAuthentication{Enabled: ptr.To(true)},
		},
		Authorization:      kubeletv1beta1.KubeletAuthorization{Mode: kubeletv1beta1.KubeletAuthorizationModeWebhook},
		HealthzBindAddress: "127.0.0.1",
		HealthzPort:        ptr.To[int32](10248),
		RotateCertificates: true,
		ServerTLSBootstrap: settings.KubeletServerTLSBootstrap,
	}, &kubeletv1beta1.KubeletConfiguration{})
	if err != nil {
		return nil, fmt.Errorf("marshal KubeletConfiguration: %w", err)
	}
	return configMap(metav1.NamespaceSystem, kubeletConfigName, "kubelet", string(content)), nil
}
