// Command kok-apiserver-lb balances the connections of one machine over the API servers of a tenant.
package main

import (
	"fmt"
	"os"

	"k8s.io/klog/v2"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/program"
)

func main() {
	program.Economize()
	err := newCommand().Execute()
	klog.Flush()
	if err != nil {
		fmt.Fprintf(os.Stderr, "kok-apiserver-lb: %v\n", err)
		os.Exit(1)
	}
}
