// Command kok-apiserver-lb balances the connections of one machine over the API servers of a tenant.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/program"
)

func main() {
	// A client's connection that breaks while it is written to is an error there, not the end of all.
	signal.Ignore(syscall.SIGPIPE)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(program.GCPercent)
	}
	defer klog.Flush()
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "kok-apiserver-lb: %v\n", err)
		klog.Flush()
		os.Exit(1)
	}
}
