// Command packages makes packages of Linux distributions, .deb and .rpm, of kok-apiserver-lb. It has a module of its own:
// what makes packages must not choose the versions of what the product is made of.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // a format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // a format
)

const name = "kok-apiserver-lb"

type options struct {
	// version has a leading v; architecture is as Go names it.
	version, architecture string
	// program and the units are files, out is a folder.
	program, unit, userUnit, out string
	// made is the time that packages and their files have, in seconds since 1970.
	made int64
}

func main() {
	var o options
	flag.StringVar(&o.version, "version", "", "version of the release, such as v0.2.0")
	flag.StringVar(&o.architecture, "architecture", "", "amd64 or arm64")
	flag.StringVar(&o.program, "program", "", "the program")
	flag.StringVar(&o.unit, "unit", "", "its unit of systemd")
	flag.StringVar(&o.userUnit, "user-unit", "", "its unit of a user's systemd, a template")
	flag.StringVar(&o.out, "out", "", "folder to write to")
	flag.Int64Var(&o.made, "time", 0, "time of the packages, in seconds since 1970")
	flag.Parse()
	if err := errors.Join(o.write("deb"), o.write("rpm")); err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

func (o options) write(format string) error {
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info, err := o.describe(format)
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(o.out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	if err := errors.Join(packager.Package(info, file), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file.Name(), err)
	}
	return nil
}

// describe describes the package. It has nothing that differs from one machine to another.
func (o options) describe(format string) (*nfpm.Info, error) {
	made := time.Unix(o.made, 0).UTC()
	own := func(mode os.FileMode) *files.ContentFileInfo {
		return &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: made}
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: name, Arch: o.architecture, Platform: "linux", Version: o.version, Release: "1", Section: "admin",
		// A maintainer is who answers for a package: the project.
		Maintainer: "kube-on-kube", Vendor: "kube-on-kube", Homepage: "https://github.com/kube-on-kube/cluster-api-provider-kok",
		License: "Apache-2.0", MTime: made, DisableGlobbing: true,
		Description: "Load balancer of the Kubernetes API servers\nRuns on each worker of a cluster, and on machines of its administrators, and finds the API servers by itself.",
		Overridables: nfpm.Overridables{
			Contents: files.Contents{
				{Source: o.program, Destination: "/usr/bin/" + name, FileInfo: own(0o755)},
				{Source: o.unit, Destination: "/usr/lib/systemd/system/" + name + ".service", FileInfo: own(0o644)},
				{Source: o.userUnit, Destination: "/usr/lib/systemd/user/" + name + "@.service", FileInfo: own(0o644)},
				// The unit shows this folder to the program, and kubelet makes it later.
				{Destination: "/var/lib/kubelet/pki", Type: files.TypeDir, FileInfo: own(0o755)},
			},
			RPM: nfpm.RPM{BuildHost: "localhost", Summary: "Load balancer of the Kubernetes API servers"},
		},
	})
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return nil, err
	}
	return info, nfpm.Validate(info)
}
