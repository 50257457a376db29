package balancers

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/probe"
)

// KOKName is the name of KOK.
const KOKName = "kok-apiserver-lb"

// KOK is kok-apiserver-lb, the program at a path, with a configuration as a worker has it. The backends are its seeds.
func KOK(program string, c *Config) (*Balancer, error) {
	config, err := kubeconfig.New("tenant", "https://"+configuration.DefaultListenAddress, c.Keys.ClusterCA.Certificate, c.Keys.ClusterCA.Key)
	if err != nil {
		return nil, err
	}
	user, err := clientcmd.Write(*config)
	if err != nil {
		return nil, err
	}
	userFile, err := c.write("kubeconfig", user)
	if err != nil {
		return nil, err
	}
	authority, err := c.write("ca.crt", c.Keys.ClusterCA.Bundle)
	if err != nil {
		return nil, err
	}
	content, err := yaml.Marshal(map[string]any{
		"seedBackends": c.Backends, "certificateAuthorityFile": authority, "kubeconfigFile": userFile,
		"stateFile": filepath.Join(c.Directory, "backends.json"),
	})
	if err != nil {
		return nil, err
	}
	file, err := c.write("kok-apiserver-lb.yaml", content)
	if err != nil {
		return nil, err
	}
	return &Balancer{
		Name: KOKName, Address: configuration.DefaultListenAddress,
		argv: []string{program, "--config=" + file}, log: filepath.Join(c.Directory, "kok-apiserver-lb.log"),
	}, nil
}

// Report is what kok-apiserver-lb says of itself.
func Report(ctx context.Context) (*status.Report, error) {
	return status.Fetch(ctx, configuration.DefaultStatusAddress)
}

// Knows waits until backends are Known to kok-apiserver-lb.
func Knows(ctx context.Context, backends ...string) error {
	var report *status.Report
	var err error
	waited := wait.PollUntilContextCancel(ctx, probe.Interval, true, func(ctx context.Context) (bool, error) {
		asking, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		report, err = Report(asking)
		return err == nil && Known(report, backends), nil
	})
	if waited != nil {
		return fmt.Errorf("wait until kok-apiserver-lb knows %v as ready; it says %+v (%v): %w", backends, report, err, waited) //nolint:errorlint // Nil most often.
	}
	return nil
}

// Known reports whether kok-apiserver-lb, by the EndpointSlice, knows the given backends as ready and no other as listed.
func Known(report *status.Report, backends []string) bool {
	ready := map[string]bool{}
	for _, backend := range report.Backends {
		if backend.Listed {
			ready[backend.Address] = backend.State == "ready" && !backend.Suspect && backend.Reason == "answers /readyz"
		}
	}
	for _, backend := range backends {
		if !ready[backend] {
			return false
		}
	}
	return report.Discovery.Confirmed && len(ready) == len(backends)
}
