// Command kok-software makes a machine have the software that its document describes.
package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

func main() {
	// Others run what is installed: folders are for them, too, whatever started this program.
	unix.Umask(0o022)
	if err := newCommand().Execute(); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "kok-software: %s\n", software.ResultOf(err).Message)
		os.Exit(1)
	}
}
