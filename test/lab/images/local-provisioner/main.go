// Command local-provisioner makes local PersistentVolumes on the node that it runs on: a directory per claim, bound to
// the node, and removed with all that is in it when its claim is deleted. One runs on every node.
//
// The requested size is written on the volume but not enforced.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// provisionerName is what the StorageClass names.
const provisionerName = "lab.kok.cluster.x-k8s.io/local"

func main() {
	node := flag.String("node", os.Getenv("NODE_NAME"), "name of the node that this program runs on")
	root := flag.String("root", "/var/lib/local-volumes", "directory of the node that volumes are made in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *node, *root)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, node, root string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	provisioner, err := newProvisioner(node, root)
	if err != nil {
		return err
	}
	// Every node has its own: there is nothing to be the leader of.
	controller.NewProvisionController(ctx, client, provisionerName, provisioner, controller.LeaderElection(false)).Run(ctx)
	return nil
}
