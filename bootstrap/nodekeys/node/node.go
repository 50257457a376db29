package node

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/csr"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/kubelet"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// Paths are where the files of a node are, unless kubelet's arguments name other places.
type Paths struct {
	Configuration, Kubeconfig, BootstrapKubeconfig, CAFile string
	// LoadBalancer is the configuration of kok-apiserver-lb.
	LoadBalancer string
	// Mark is kept by this program. It is gone when the machine boots, and so is the kubelet that it is about.
	Mark string
	// Order is kept by this program, as long as kubelet's certificates are there.
	Order string
}

// DefaultPaths are those of kubeadm and of the bootstrap provider.
func DefaultPaths() Paths {
	return Paths{
		Configuration: onworker.KubeletConfiguration, Kubeconfig: onworker.Kubeconfig, BootstrapKubeconfig: onworker.BootstrapKubeconfig,
		CAFile: onworker.CAFile, LoadBalancer: configuration.DefaultPath, Mark: onworker.NodeKeysDir + "mark.json", Order: onworker.NodeKeysOrder,
	}
}

// Node is the node that this program runs on. One goroutine uses it.
type Node struct {
	Paths Paths
	// Disk writes files.
	Disk *disk.Disk
	// Find finds kubelet's process.
	Find func() (*kubelet.Process, error)
	// Requests asks for certificates, by the kubeconfig that Kubeconfig names.
	Requests *csr.Requests
	Log      logr.Logger

	kubeconfig string
}

// Kubeconfig is the path of kubelet's kubeconfig, as it was last observed.
func (n *Node) Kubeconfig() string { return n.kubeconfig }

// mostSteps bounds the steps of one run: each place is written once.
const mostSteps = 50

// Bring takes steps until the node is as wanted, or has to wait, and says for what; empty when it is as wanted.
func (n *Node) Bring(ctx context.Context, w wanted.Wanted) (waits string, err error) {
	trusted, signer, err := w.Certificates()
	if err != nil {
		return "", err
	}
	goal := Goal{Hash: w.Hash(), Trusted: trusted, Signer: signer, Order: w.Order}
	for range mostSteps {
		seen, err := n.observe()
		if err != nil {
			return "", err
		}
		step := Decide(goal, seen)
		switch step.Do {
		case Nothing:
			return "", nil
		case Wait:
			return step.Why, nil
		}
		if waits, err := n.take(ctx, step, w, signer); waits != "" || err != nil {
			return waits, err
		}
	}
	return "", errors.New("something else changes the same files again and again")
}

// take takes a step.
func (n *Node) take(ctx context.Context, step Step, w wanted.Wanted, signer *x509.Certificate) (waits string, err error) {
	switch step.Do {
	case WriteOrder:
		n.Log.Info("Beginning a step of a rotation of the cluster CA", "Order", step.Order)
		return "", n.Disk.Write(n.Paths.Order, []byte(step.Order.String()+"\n"), 0o600)
	case WriteTrust:
		n.Log.Info("Writing the CAs to trust", "Path", step.Trust.Path, "CAs", len(step.Trust.CAs))
		return "", n.writeTrust(step.Trust, w.Trusted)
	case Renew:
		return n.renew(ctx, step.Pair, signer)
	case WriteMark:
		return "", n.writeMark(step.Mark)
	case Restart:
		running, err := n.Find()
		if err != nil || running.ID() != step.Mark.Before {
			return "", err
		}
		n.Log.Info("Telling kubelet to end: it has not read its files since they changed", "PID", running.PID)
		return "kubelet restarts", running.Terminate()
	}
	return "", fmt.Errorf("no such step: %s", step.Do)
}

func (n *Node) writeTrust(trust Trust, bundle []byte) error {
	if !trust.Kubeconfig {
		return n.Disk.Replace(trust.Path, bundle)
	}
	config, cluster, err := load(trust.Path)
	if err != nil {
		return err
	}
	cluster.CertificateAuthorityData = bundle
	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", trust.Path, err)
	}
	return n.Disk.Replace(trust.Path, content)
}

func (n *Node) writeMark(mark Mark) error {
	content, err := json.Marshal(mark)
	if err != nil {
		return err
	}
	return n.Disk.Write(n.Paths.Mark, content, 0o600)
}

// renew asks for another pair, and puts it where kubelet looks for it.
func (n *Node) renew(ctx context.Context, pair Pair, signer *x509.Certificate) (waits string, err error) {
	issued, waits, err := n.Requests.Ask(ctx, csr.Order{
		Purpose: pair.Purpose, Subject: pair.Leaf.Subject, DNSNames: pair.Leaf.DNSNames, IPAddresses: pair.Leaf.IPAddresses, By: signer,
	})
	if waits != "" || err != nil {
		return waits, err
	}
	n.Log.Info("Putting a certificate by the new CA in place", "Path", pair.Current)
	return "", n.put(pair.Current, issued)
}

// put does what client-go's util/certificate.FileStore does: each pair has a file of its own, and a link names the present one. The
// FileStore takes the link away before it makes another one, and syncs nothing: a power cut could leave kubelet without a certificate.
func (n *Node) put(current string, pair *csr.Pair) error {
	name, err := n.free(current)
	if err != nil {
		return err
	}
	if err := n.Disk.Write(name, append(append([]byte{}, pair.Certificate...), pair.Key...), 0o600); err != nil {
		return err
	}
	if info, err := os.Lstat(current); err != nil || info.Mode()&os.ModeSymlink == 0 {
		return errors.Join(err, fmt.Errorf("%s is no link any more", current))
	}
	return n.Disk.SwitchLink(name, current)
}

// free is a path for another pair. Kubelet names pairs after the second, too, and none is replaced.
func (n *Node) free(current string) (string, error) {
	current, err := filepath.Abs(current) // The link must lead there from anywhere.
	if err != nil {
		return "", err
	}
	for at := time.Now(); ; at = at.Add(time.Second) {
		name := strings.TrimSuffix(current, currentSuffix) + at.Format("-2006-01-02-15-04-05") + ".pem"
		if there, err := n.Disk.Exists(name); err != nil || !there {
			return name, err
		}
	}
}
