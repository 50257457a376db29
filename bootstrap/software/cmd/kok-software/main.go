// Command kok-software makes a machine have the software that its document describes.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

func main() {
	if err := newCommand().Execute(); err != nil {
		line := strings.ReplaceAll(software.ResultOf(err).Message, "\n", "; ")
		_, _ = fmt.Fprintf(os.Stderr, "kok-software: %s\n", line)
		os.Exit(1)
	}
}
