package mirror

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

const (
	installer = "kok-software"
	balancer  = "kok-apiserver-lb"
	sumsFile  = "SHA256SUMS"
)

// releasePath is where a release of this project is published.
func releasePath(version string) string {
	return "github.com/kube-on-kube/cluster-api-provider-kok/releases/download/" + version + "/"
}

// releaseName is the name that a program for Linux has in a release.
func releaseName(program string) string { return program + "-linux-amd64" }

// WriteRelease writes into a folder what a release has for workers, of the programs in another one.
func WriteRelease(folder, programs string) error {
	var sums strings.Builder
	for _, program := range []string{balancer, installer} {
		to := filepath.Join(folder, releaseName(program))
		if err := copyFile(filepath.Join(programs, program), to); err != nil {
			return fmt.Errorf("put %s into a release: %w", program, err)
		}
		sum, err := artifacts.FileDigest(to)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, releaseName(program))
	}
	return os.WriteFile(filepath.Join(folder, sumsFile), []byte(sums.String()), 0o644)
}

func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close() //nolint:errcheck // only read
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
