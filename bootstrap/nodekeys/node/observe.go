package node

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/csr"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/kubelet"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
)

// Pairs of kubelet, as client-go's util/certificate.FileStore has them.
const (
	currentSuffix = "-current.pem"
	clientPair    = "kubelet-client"
	servingPair   = "kubelet-server"
)

// observe reads the files that kubelet's arguments name, and looks for its process again after that: a process that started after
// the last change of a file has read what was observed.
func (n *Node) observe() (Seen, error) {
	running, err := n.Find()
	if err != nil {
		return Seen{}, err
	}
	seen := Seen{}
	o := observation{Paths: n.Paths.of(running), seen: &seen}
	if err := errors.Join(o.order(), o.mark(), o.look(running)); err != nil {
		return Seen{}, err
	}
	now, err := n.Find()
	if err != nil {
		return Seen{}, err
	}
	if now != nil {
		seen.Kubelet, seen.Started = now.ID(), now.Started
	}
	n.kubeconfig = o.Kubeconfig
	return seen, nil
}

// of are the paths that kubelet was started with.
func (p Paths) of(process *kubelet.Process) Paths {
	p.Configuration = cmp.Or(process.Arg("config"), p.Configuration)
	p.Kubeconfig = cmp.Or(process.Arg("kubeconfig"), p.Kubeconfig)
	p.BootstrapKubeconfig = cmp.Or(process.Arg("bootstrap-kubeconfig"), p.BootstrapKubeconfig)
	return p
}

type observation struct {
	Paths
	seen *Seen
}

// order fails for a file that cannot be read: without it nobody knows how far the node has come.
func (o *observation) order() error {
	content, err := os.ReadFile(o.Order)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		o.seen.Order, err = wanted.ParseOrder(string(content))
	}
	if err != nil {
		return fmt.Errorf("read how far this node has come, %s: %w", o.Order, err)
	}
	return nil
}

func (o *observation) mark() error {
	content, err := os.ReadFile(o.Mark)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what was done: %w", err)
	}
	// One that cannot be read is of no goal: kubelet is restarted once more.
	_ = json.Unmarshal(content, &o.seen.Mark)
	return nil
}

func (o *observation) look(process *kubelet.Process) error {
	config, err := o.configuration()
	if err != nil {
		return err
	}
	if file := cmp.Or(process.Arg("client-ca-file"), config.Authentication.X509.ClientCAFile); file != "" {
		err = o.caFile(file, false)
	} else {
		err = optional(o.caFile(o.CAFile, false))
	}
	if err != nil {
		return err
	}
	if err := o.loadBalancer(); err != nil {
		return err
	}
	user, err := o.kubeconfig(o.Kubeconfig, true)
	if err != nil {
		return err
	}
	if _, err := o.kubeconfig(o.BootstrapKubeconfig, false); optional(err) != nil {
		return err
	}
	return o.pairs(process, config, user)
}

// optional passes over a file that need not be there.
func optional(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (o *observation) configuration() (*kubeletv1beta1.KubeletConfiguration, error) {
	config := &kubeletv1beta1.KubeletConfiguration{}
	content, err := os.ReadFile(o.Configuration)
	if err == nil {
		err = yaml.Unmarshal(content, config)
	}
	if err != nil {
		return nil, fmt.Errorf("read kubelet's configuration %s: %w", o.Configuration, err)
	}
	return config, nil
}

// loadBalancer adds the file by which kok-apiserver-lb verifies API servers.
func (o *observation) loadBalancer() error {
	content, err := os.ReadFile(o.LoadBalancer)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	config := configuration.Configuration{}
	if err == nil {
		err = yaml.Unmarshal(content, &config) // Another version may have other fields.
	}
	if err != nil {
		return fmt.Errorf("read the load balancer's configuration %s: %w", o.LoadBalancer, err)
	}
	return o.caFile(config.CertificateAuthorityFile, false)
}

// caFile adds a file with CAs. Two programs may read the same one.
func (o *observation) caFile(path string, atStart bool) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("look for a file with CAs: %w", err)
	}
	for i := range o.seen.Trust {
		if o.seen.Trust[i].Path == path {
			o.seen.Trust[i].AtStart = o.seen.Trust[i].AtStart || atStart
			return o.changed(path, atStart)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read a file with CAs: %w", err)
	}
	cas, _ := certutil.ParseCertsPEM(content) // One without a certificate is written.
	o.seen.Trust = append(o.seen.Trust, Trust{Path: path, AtStart: atStart, CAs: cas})
	return o.changed(path, atStart)
}

// kubeconfig adds the CAs of the kubeconfig's cluster, in itself or in a file, and returns its user.
func (o *observation) kubeconfig(path string, atStart bool) (*clientcmdapi.AuthInfo, error) {
	config, cluster, err := load(path)
	if err != nil {
		return nil, err
	}
	user := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo]
	if user == nil {
		return nil, fmt.Errorf("kubeconfig %s has no user", path)
	}
	switch {
	case cluster.InsecureSkipTLSVerify:
		return nil, fmt.Errorf("kubeconfig %s has insecure-skip-tls-verify: its client verifies no API server, whatever CAs there are", path)
	case len(cluster.CertificateAuthorityData) == 0 && cluster.CertificateAuthority != "":
		return user, o.caFile(beside(path, cluster.CertificateAuthority), atStart)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	cas, _ := certutil.ParseCertsPEM(cluster.CertificateAuthorityData)
	o.seen.Trust = append(o.seen.Trust, Trust{Path: path, Kubeconfig: true, AtStart: atStart, CAs: cas})
	return user, o.changed(path, atStart)
}

// load reads a kubeconfig, and the cluster that its client uses.
func load(path string) (*clientcmdapi.Config, *clientcmdapi.Cluster, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	used := config.Contexts[config.CurrentContext]
	if used == nil || config.Clusters[used.Cluster] == nil {
		return nil, nil, fmt.Errorf("kubeconfig %s has no current context with a cluster", path)
	}
	return config, config.Clusters[used.Cluster], nil
}

// beside is a path in a kubeconfig: it is relative to that.
func beside(kubeconfig, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(kubeconfig), path)
}

// pairs adds kubelet's certificates: that of its user, and the one that it serves with, if the cluster CA signs it.
func (o *observation) pairs(process *kubelet.Process, config *kubeletv1beta1.KubeletConfiguration, user *clientcmdapi.AuthInfo) error {
	if user.ClientCertificate == "" {
		o.seen.Pairs = append(o.seen.Pairs, Pair{Purpose: csr.Client, Problem: fmt.Sprintf("kubeconfig %s names no file with kubelet's client certificate: "+
			"give kubelet another one yourself", o.Kubeconfig)})
		return nil
	}
	current := beside(o.Kubeconfig, user.ClientCertificate)
	if err := o.pair(csr.Client, clientPair, current); err != nil {
		return err
	}
	asks := config.ServerTLSBootstrap || process.Arg("rotate-server-certificates") == "true"
	if !asks || config.TLSCertFile != "" || process.Arg("tls-cert-file") != "" {
		return nil
	}
	// Kubelet may wait for its first one.
	return optional(o.pair(csr.Serving, servingPair, filepath.Join(filepath.Dir(current), servingPair+currentSuffix)))
}

func (o *observation) pair(purpose csr.Purpose, name, current string) error {
	content, err := os.ReadFile(current)
	if err != nil {
		return fmt.Errorf("read a certificate of kubelet: %w", err)
	}
	certificates, err := certutil.ParseCertsPEM(content)
	if err != nil {
		return fmt.Errorf("read a certificate of kubelet, %s: %w", current, err)
	}
	pair := Pair{Purpose: purpose, Current: current, Leaf: certificates[0]}
	target, err := os.Readlink(current)
	if err != nil || filepath.Base(current) != name+currentSuffix {
		pair.Problem = fmt.Sprintf("%s is not where kubelet keeps certificates that it renews: give kubelet another one yourself", pair)
		target = current
	}
	o.seen.Pairs = append(o.seen.Pairs, pair)
	return errors.Join(o.changed(current, true), o.changed(beside(current, target), true))
}

// changed takes the time of a file into account that kubelet reads when it starts: that of the last change of its content or its name.
func (o *observation) changed(path string, atStart bool) error {
	if !atStart {
		return nil
	}
	info := unix.Stat_t{}
	if err := unix.Lstat(path, &info); err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	if at := time.Unix(info.Ctim.Unix()); at.After(o.seen.Changed) {
		o.seen.Changed = at
	}
	return nil
}
