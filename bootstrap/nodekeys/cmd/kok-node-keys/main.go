// Command kok-node-keys brings the keys of a node through a rotation of the cluster CA, in a pod on that node.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "kok-node-keys: %v\n", err)
		os.Exit(1)
	}
}
