// Package version says which build of the project a program is.
package version

import (
	"fmt"
	"runtime"
)

// Set by the linker, see LDFLAGS in the Makefile.
var (
	gitVersion = "v0.0.0-unknown"
	gitCommit  = "unknown"
)

// Info names a build.
type Info struct {
	// GitVersion is the release, for example "v0.1.0".
	GitVersion string
	// GitCommit is the full commit hash.
	GitCommit string
	// GoVersion is the toolchain that built it.
	GoVersion string
	// Platform is the operating system and the architecture, for example "linux/amd64".
	Platform string
}

// Get returns what this program was built from.
func Get() Info {
	return Info{
		GitVersion: gitVersion,
		GitCommit:  gitCommit,
		GoVersion:  runtime.Version(),
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// String is one line for people and logs.
func (i Info) String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s)", i.GitVersion, i.GitCommit, i.GoVersion, i.Platform)
}
