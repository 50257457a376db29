// Command kok-software installs on a machine the software that its document describes.
package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

func main() {
	// Other users run what is installed: they need access to the folders, whatever umask this program was started with.
	unix.Umask(0o022)
	if err := newCommand().Execute(); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "kok-software: %s\n", software.ResultOf(err).Message)
		os.Exit(1)
	}
}
