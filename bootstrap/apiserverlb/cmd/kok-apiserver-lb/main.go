// Command kok-apiserver-lb balances the connections of one machine over the API servers of a tenant.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"
)

func main() {
	// A client's connection that breaks while it is written to is an error there, not the end of all.
	signal.Ignore(syscall.SIGPIPE)
	defer klog.Flush()
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "kok-apiserver-lb: %v\n", err)
		klog.Flush()
		os.Exit(1)
	}
}
