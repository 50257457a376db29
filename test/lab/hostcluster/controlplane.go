package hostcluster

import (
	_ "embed"
	"fmt"
)

//go:embed audit-policy.yaml
var auditPolicy []byte

const kubernetesDir = "/etc/kubernetes/"

// controlPlaneServices are etcd, kube-apiserver, kube-controller-manager and kube-scheduler of the host cluster.
func controlPlaneServices(c *credentials) (etcd, apiserver, rest []service, err error) {
	e, err := etcdService(c)
	if err != nil {
		return nil, nil, nil, err
	}
	a, err := apiserverService(c)
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := controllerManagerService(c)
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := schedulerService(c)
	return []service{e}, []service{a}, []service{m, s}, err
}

func etcdService(c *credentials) (service, error) {
	member, err := c.etcdMember()
	if err != nil {
		return service{}, err
	}
	const dir = "/etc/etcd/"
	address := c.controlPlane.Address
	client := fmt.Sprintf("https://%s:2379", address)
	peer := fmt.Sprintf("https://%s:2380", address)
	return service{
		name: "etcd",
		unit: command{
			description: "etcd of the host cluster", program: "etcd", notify: true,
			args: []string{
				"--name=" + c.controlPlane.Name, "--data-dir=/var/lib/etcd/data",
				"--listen-client-urls=https://127.0.0.1:2379," + client, "--advertise-client-urls=" + client,
				"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
				"--initial-cluster=" + c.controlPlane.Name + "=" + peer,
				"--listen-metrics-urls=http://127.0.0.1:2381",
				"--cert-file=" + dir + "member.crt", "--key-file=" + dir + "member.key",
				"--trusted-ca-file=" + dir + "ca.crt", "--client-cert-auth=true",
				"--peer-cert-file=" + dir + "member.crt", "--peer-key-file=" + dir + "member.key",
				"--peer-trusted-ca-file=" + dir + "ca.crt", "--peer-client-cert-auth=true",
				"--auto-compaction-mode=periodic", "--auto-compaction-retention=10m",
			},
		}.unit(),
		files: append(pairFiles(dir+"member", member), file{dir + "ca.crt", c.etcd.cert, 0o644}),
	}, nil
}

func apiserverService(c *credentials) (service, error) {
	const dir = kubernetesDir + "pki/"
	serving, err := c.apiserver()
	if err != nil {
		return service{}, err
	}
	files := append(pairFiles(dir+"apiserver", serving),
		file{dir + "ca.crt", c.cluster.cert, 0o644},
		file{dir + "etcd-ca.crt", c.etcd.cert, 0o644},
		file{dir + "front-proxy-ca.crt", c.frontProxy.cert, 0o644},
		file{dir + "service-accounts.key", c.tokenKey, 0o600},
		file{dir + "service-accounts.pub", c.tokenPublic, 0o644},
		file{kubernetesDir + "audit-policy.yaml", auditPolicy, 0o644},
	)
	for _, client := range []struct {
		name string
		ca   *pair
		user string
	}{
		{"apiserver-etcd-client", c.etcd, "kube-apiserver"},
		{"apiserver-kubelet-client", c.cluster, kubeletClientUser},
		{"front-proxy-client", c.frontProxy, "front-proxy-client"},
	} {
		issued, err := c.leaf(client.name, client.ca, subject{user: client.user})
		if err != nil {
			return service{}, err
		}
		files = append(files, pairFiles(dir+client.name, issued)...)
	}
	return service{
		name: "kube-apiserver",
		unit: command{
			description: "Kubernetes API of the host cluster", program: "kube-apiserver", notify: true, after: []string{"etcd.service"},
			args: []string{
				"--advertise-address=" + c.controlPlane.Address.String(), fmt.Sprintf("--secure-port=%d", apiPort),
				"--etcd-servers=https://127.0.0.1:2379", "--etcd-cafile=" + dir + "etcd-ca.crt",
				"--etcd-certfile=" + dir + "apiserver-etcd-client.crt", "--etcd-keyfile=" + dir + "apiserver-etcd-client.key",
				"--client-ca-file=" + dir + "ca.crt",
				"--tls-cert-file=" + dir + "apiserver.crt", "--tls-private-key-file=" + dir + "apiserver.key",
				"--kubelet-certificate-authority=" + dir + "ca.crt",
				"--kubelet-client-certificate=" + dir + "apiserver-kubelet-client.crt",
				"--kubelet-client-key=" + dir + "apiserver-kubelet-client.key",
				"--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
				"--service-cluster-ip-range=" + c.network.Services.String(),
				"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
				"--service-account-key-file=" + dir + "service-accounts.pub",
				"--service-account-signing-key-file=" + dir + "service-accounts.key",
				"--requestheader-client-ca-file=" + dir + "front-proxy-ca.crt",
				"--requestheader-allowed-names=front-proxy-client",
				"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
				"--requestheader-extra-headers-prefix=X-Remote-Extra-",
				"--proxy-client-cert-file=" + dir + "front-proxy-client.crt", "--proxy-client-key-file=" + dir + "front-proxy-client.key",
				"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
				"--enable-bootstrap-token-auth=true", "--allow-privileged=true",
				"--audit-policy-file=" + kubernetesDir + "audit-policy.yaml", "--audit-log-path=" + auditLog,
				"--audit-log-maxsize=1024", "--audit-log-maxbackup=1",
			},
		}.unit(),
		files: files,
	}, nil
}

// auditLog is read from outside the host: /var/log is a plain directory of the machine.
const auditLog = "/var/log/kubernetes/audit.log"

func controllerManagerService(c *credentials) (service, error) {
	const dir = kubernetesDir + "controller-manager/"
	kubeconfig, err := c.kubeconfig("kube-controller-manager", "system:kube-controller-manager")
	if err != nil {
		return service{}, err
	}
	files := append(pairFiles(dir+"ca", c.cluster),
		file{dir + "kubeconfig", kubeconfig, 0o600},
		file{dir + "service-accounts.key", c.tokenKey, 0o600},
	)
	args := append(delegated(dir+"kubeconfig"),
		"--root-ca-file="+dir+"ca.crt", "--service-account-private-key-file="+dir+"service-accounts.key",
		"--cluster-signing-cert-file="+dir+"ca.crt", "--cluster-signing-key-file="+dir+"ca.key",
		"--use-service-account-credentials=true", "--controllers=*,bootstrapsigner,tokencleaner",
		// Pod networks are laid out with the hosts.
		"--allocate-node-cidrs=false", "--service-cluster-ip-range="+c.network.Services.String(),
		"--kube-api-qps=100", "--kube-api-burst=200",
	)
	return service{name: "kube-controller-manager", files: files, unit: command{
		description: "Kubernetes controllers of the host cluster", program: "kube-controller-manager",
		after: []string{"kube-apiserver.service"}, args: args,
	}.unit()}, nil
}

func schedulerService(c *credentials) (service, error) {
	const dir = kubernetesDir + "scheduler/"
	kubeconfig, err := c.kubeconfig("kube-scheduler", "system:kube-scheduler")
	if err != nil {
		return service{}, err
	}
	return service{
		name:  "kube-scheduler",
		files: []file{{dir + "kubeconfig", kubeconfig, 0o600}},
		unit: command{
			description: "Kubernetes scheduler of the host cluster", program: "kube-scheduler",
			after: []string{"kube-apiserver.service"},
			args:  append(delegated(dir+"kubeconfig"), "--kube-api-qps=100", "--kube-api-burst=200"),
		}.unit(),
	}, nil
}

// delegated are the arguments of a component that asks the API with one kubeconfig for everything. It runs once, so it
// has no election to wait for after a restart.
func delegated(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--leader-elect=false",
	}
}

// pairFiles are the files of a certificate and its key.
func pairFiles(path string, p *pair) []file {
	return []file{{path + ".crt", p.cert, 0o644}, {path + ".key", p.key, 0o600}}
}
