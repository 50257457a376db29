package hostcluster

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// object is a configuration file in the making.
type object = map[string]any

// kubeletConfig is the KubeletConfiguration of every node.
func kubeletConfig(h *host.Host) object {
	const dir = kubernetesDir + "kubelet/"
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": h.Address.String(),
		"authentication": object{
			"anonymous": object{"enabled": false},
			"webhook":   object{"enabled": true},
			"x509":      object{"clientCAFile": dir + "ca.crt"},
		},
		"authorization":            object{"mode": "Webhook"},
		"tlsCertFile":              dir + "serving.crt",
		"tlsPrivateKeyFile":        dir + "serving.key",
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		// The machine may have cgroup v1 alone.
		"cgroupDriver": "cgroupfs", "failCgroupV1": false,
		"failSwapOn": false,
		// There is no DNS in the host cluster.
		"clusterDomain": "cluster.local", "resolvConf": "",
		// Images come with the host: none can be had again.
		"imageGCHighThresholdPercent": 100,
		// All hosts share the machine's disk and memory.
		"evictionHard": object{
			"memory.available": "100Mi", "nodefs.available": "500Mi", "nodefs.inodesFree": "1%", "imagefs.available": "500Mi",
		},
		"serializeImagePulls": false,
		"oomScoreAdj":         0,
	}
}

func kubeletService(c *credentials, h *host.Host) (service, error) {
	const dir = kubernetesDir + "kubelet/"
	kubeconfig, err := c.kubeconfig("kubelet-"+h.Name, "system:node:"+h.Name, "system:nodes")
	if err != nil {
		return service{}, err
	}
	serving, err := c.kubelet(h)
	if err != nil {
		return service{}, err
	}
	config, err := yaml.Marshal(kubeletConfig(h))
	if err != nil {
		return service{}, err
	}
	return service{
		name: "kubelet",
		unit: command{
			description: "kubelet", program: "kubelet", after: []string{"containerd.service"}, notify: true,
			args: []string{
				"--config=" + dir + "config.yaml", "--kubeconfig=" + dir + "kubeconfig",
				"--hostname-override=" + h.Name, "--node-ip=" + h.Address.String(),
				"--node-labels=" + zoneLabel + "=" + h.Site,
			},
		}.unit(),
		files: append(pairFiles(dir+"serving", serving),
			file{dir + "kubeconfig", kubeconfig, 0o600},
			file{dir + "config.yaml", config, 0o644},
			file{dir + "ca.crt", c.cluster.cert, 0o644},
		),
	}, nil
}

func proxyService(c *credentials, h *host.Host) (service, error) {
	const dir = kubernetesDir + "kube-proxy/"
	kubeconfig, err := c.kubeconfig("kube-proxy-"+h.Name, "system:kube-proxy")
	if err != nil {
		return service{}, err
	}
	config, err := yaml.Marshal(object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode": "nftables", "hostnameOverride": h.Name, "clusterCIDR": c.network.Pods.String(),
		"clientConnection":   object{"kubeconfig": dir + "kubeconfig"},
		"healthzBindAddress": fmt.Sprintf("%s:%d", h.Address, proxyHealthPort),
		"metricsBindAddress": "127.0.0.1:10249",
		// These parameters are the machine's, not the host's.
		"conntrack": object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
		"nftables":  object{"minSyncPeriod": "100ms", "syncPeriod": "30s"},
	})
	if err != nil {
		return service{}, err
	}
	return service{
		name: "kube-proxy",
		unit: command{description: "kube-proxy", program: "kube-proxy", args: []string{"--config=" + dir + "config.yaml"}}.unit(),
		files: []file{
			{dir + "kubeconfig", kubeconfig, 0o600},
			{dir + "config.yaml", config, 0o644},
		},
	}, nil
}

const proxyHealthPort = 10256

// containerdService is Debian's containerd with the host's pod network: a bridge whose addresses the other hosts
// route to this one.
func containerdService(h *host.Host) (service, error) {
	network, err := json.MarshalIndent(object{
		"cniVersion": "0.4.0", "name": "kok",
		"plugins": []object{
			{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
				"ipam": object{
					"type":   "host-local",
					"ranges": [][]object{{{"subnet": h.PodCIDR.String()}}},
					"routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}, "", "  ")
	if err != nil {
		return service{}, err
	}
	return service{name: "containerd", files: []file{{"/etc/cni/net.d/10-kok.conflist", append(network, '\n'), 0o644}}}, nil
}

// nodeServices make a host a node, in the order of their start.
func nodeServices(c *credentials, h *host.Host) ([]service, error) {
	containerd, err := containerdService(h)
	if err != nil {
		return nil, err
	}
	kubelet, err := kubeletService(c, h)
	if err != nil {
		return nil, err
	}
	proxy, err := proxyService(c, h)
	return []service{containerd, kubelet, proxy}, err
}
