// Package plain runs the tests of a package beside a real etcd and kube-apiserver that have nothing of the project.
package plain

import (
	"fmt"
	"os"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
)

// Main is a TestMain: it starts an environment, lets connect make clients of it, runs the tests, and stops it. A signal
// that ends the program stops it, too.
func Main(m *testing.M, environment *envtest.Environment, connect func(*rest.Config) error) {
	os.Exit(run(m, environment, connect))
}

func run(m *testing.M, environment *envtest.Environment, connect func(*rest.Config) error) int {
	stop, err := interrupt.Guard(func() error {
		config, err := environment.Start()
		if err != nil {
			return err
		}
		return connect(config)
	}, environment.Stop)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start etcd and kube-apiserver (KUBEBUILDER_ASSETS names the folder with both):", err)
		return 1
	}
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop etcd and kube-apiserver:", err)
		return 1
	}
	return code
}
