// Command csi-volumes is a CSI driver whose volumes have a size that the kernel enforces, and that grows while pods use them: a tmpfs for
// each volume, on the node that it was made on. What is in a volume is gone when its node loses power.
//
// One runs on every node, beside the CSI provisioner and resizer of Kubernetes, which make and delete volumes through it. Kubelet mounts
// and grows them.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// driverName is what the StorageClass names.
const driverName = "csi-volumes.lab.kok.cluster.x-k8s.io"

func main() {
	node := flag.String("node", os.Getenv("NODE_NAME"), "name of the node that this program runs on")
	kubelet := flag.String("kubelet", "/var/lib/kubelet", "directory of kubelet, under the same path in this program's pod")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *node, *kubelet)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run serves the driver and its registration until ctx ends.
func run(ctx context.Context, node, kubelet string) error {
	if node == "" {
		return errors.New("no node given: set --node or NODE_NAME")
	}
	own := filepath.Join(kubelet, "plugins", driverName)
	volumes := volumes{directory: filepath.Join(own, "volumes")}
	if err := os.MkdirAll(volumes.directory, 0o755); err != nil {
		return err
	}
	endpoint := filepath.Join(own, "csi.sock")
	driver := grpc.NewServer()
	csi.RegisterIdentityServer(driver, identity{})
	csi.RegisterControllerServer(driver, controller{node: node, volumes: volumes})
	csi.RegisterNodeServer(driver, nodeService{node: node, volumes: volumes})
	registrar := grpc.NewServer()
	registration.RegisterRegistrationServer(registrar, registrationService{endpoint: endpoint})

	// Kubelet calls the driver as soon as it sees the socket of the registration: that comes second.
	calls, err := listen(ctx, endpoint)
	if err != nil {
		return err
	}
	registrations, err := listen(ctx, filepath.Join(kubelet, "plugins_registry", driverName+"-reg.sock"))
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(ctx, driver, calls) })
	group.Go(func() error { return serve(ctx, registrar, registrations) })
	return group.Wait()
}

// listen listens at a socket. What a former process left of it is removed.
func listen(ctx context.Context, socket string) (net.Listener, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return (&net.ListenConfig{}).Listen(ctx, "unix", socket)
}

// serve serves until ctx ends.
func serve(ctx context.Context, server *grpc.Server, listener net.Listener) error {
	stop := context.AfterFunc(ctx, server.GracefulStop)
	defer stop()
	return server.Serve(listener)
}
