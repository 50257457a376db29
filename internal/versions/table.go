package versions

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

//go:embed versions.yaml
var embedded []byte

// Release is what goes with one minor of Kubernetes.
type Release struct {
	// Minor is the minor, for example "v1.36".
	Minor string `json:"minor"`
	// Etcd is the tag of the etcd image.
	Etcd string `json:"etcd"`
	// CoreDNS is the tag of the CoreDNS image.
	CoreDNS string `json:"coreDNS"`
	// Konnectivity is the tag of the images of konnectivity's server and agent.
	Konnectivity string `json:"konnectivity"`
}

// Table holds the supported minors, from oldest to newest.
type Table struct {
	releases []Release
}

// BuiltIn returns the table that is built into the program. It is in force where no ConfigMap is.
var BuiltIn = sync.OnceValue(func() *Table {
	table, err := Load(embedded)
	if err != nil {
		panic(fmt.Sprintf("versions.yaml of this program: %v", err))
	}
	return table
})

var imageTag = regexp.MustCompile(`^\w[\w.-]{0,127}$`)

// Load reads a table. Unknown keys, minors that are out of order or leave a gap, and missing values
// are errors.
func Load(data []byte) (*Table, error) {
	var file struct {
		Releases []Release `json:"releases"`
	}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, fmt.Errorf("read the table of versions: %w", err)
	}
	if len(file.Releases) == 0 {
		return nil, errors.New("the table of versions has no releases")
	}
	var previous Version
	for i, release := range file.Releases {
		parsed, err := Parse(release.Minor + ".0")
		if err != nil || parsed.MinorString() != release.Minor {
			return nil, fmt.Errorf("releases[%d].minor: %q is not of the form v1.36", i, release.Minor)
		}
		if !imageTag.MatchString(release.Etcd) {
			return nil, fmt.Errorf("releases[%d].etcd: %q is not an image tag", i, release.Etcd)
		}
		if !imageTag.MatchString(release.CoreDNS) {
			return nil, fmt.Errorf("releases[%d].coreDNS: %q is not an image tag", i, release.CoreDNS)
		}
		if !imageTag.MatchString(release.Konnectivity) {
			return nil, fmt.Errorf("releases[%d].konnectivity: %q is not an image tag", i, release.Konnectivity)
		}
		if i > 0 && (parsed.Major != previous.Major || parsed.Minor != previous.Minor+1) {
			return nil, fmt.Errorf("releases[%d].minor: %s does not follow %s", i, release.Minor, previous.MinorString())
		}
		previous = parsed
	}
	return &Table{releases: file.Releases}, nil
}

// Minors are the supported minors, from oldest to newest.
func (t *Table) Minors() []string {
	minors := make([]string, 0, len(t.releases))
	for _, release := range t.releases {
		minors = append(minors, release.Minor)
	}
	return minors
}

// Newest returns what goes with the newest minor.
func (t *Table) Newest() Release { return t.releases[len(t.releases)-1] }

// Release returns what goes with a version, for example "v1.36.3". The error says what is wrong with
// it and lists what is supported.
func (t *Table) Release(version string) (Release, error) {
	parsed, err := Parse(version)
	if err != nil {
		return Release{}, err
	}
	i := slices.IndexFunc(t.releases, func(r Release) bool { return r.Minor == parsed.MinorString() })
	if i < 0 {
		return Release{}, fmt.Errorf("%s is not supported; supported are %s; to support others, list them in the ConfigMap %s in the namespace of the control plane provider",
			parsed.MinorString(), t, ConfigMapName)
	}
	return t.releases[i], nil
}

// Validate refuses a version that is malformed or of an unsupported minor.
func (t *Table) Validate(version string) error {
	_, err := t.Release(version)
	return err
}

// ValidateUpgrade refuses a change of version that Kubernetes' version skew policy does not allow for
// a control plane: an older minor, or one that is not the next
// (https://kubernetes.io/releases/version-skew-policy). Patch versions can go up and down. The target
// must be supported; the version that is left need not be any more.
func (t *Table) ValidateUpgrade(from, to string) error {
	target, err := Parse(to)
	if err != nil {
		return err
	}
	current, err := Parse(from)
	if err != nil {
		return fmt.Errorf("the current version: %w", err)
	}
	next := Version{}
	next.Major, next.Minor = current.Major, current.Minor+1
	switch {
	case target.Major != current.Major:
		return fmt.Errorf("cannot go from %s to another major version", current)
	case target.Minor < current.Minor:
		return fmt.Errorf("cannot go back from %s to an older minor, which Kubernetes does not support; keep %s",
			current, current.MinorString())
	case target.Minor > next.Minor:
		return fmt.Errorf("cannot skip minors from %s; go to %s first", current, next.MinorString())
	}
	return t.Validate(to)
}

// Equal reports whether two tables say the same.
func (t *Table) Equal(other *Table) bool { return slices.Equal(t.releases, other.releases) }

// String lists the supported minors, for example "v1.35 and v1.36".
func (t *Table) String() string {
	minors := t.Minors()
	if len(minors) == 1 {
		return minors[0]
	}
	last := len(minors) - 1
	return strings.Join(minors[:last], ", ") + " and " + minors[last]
}
