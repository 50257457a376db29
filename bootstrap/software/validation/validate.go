package validation

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/kernel"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

var (
	names          = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	digests        = regexp.MustCompile(`^[0-9a-f]{64}$`)
	modes          = regexp.MustCompile(`^0[0-7]{3}$`)
	unitNames      = regexp.MustCompile(`^[A-Za-z0-9:_.@-]+\.(service|socket|timer|mount)$`)
	packageNames   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+._-]*$`)
	packageVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+.~:_-]*$`)
	sources        = regexp.MustCompile(`^deb [ -~]+$`)
	localURLs      = regexp.MustCompile(`^http://(127\.0\.0\.1|localhost|\[::1\]):[0-9]{1,5}/`)
)

// Validate refuses a document that no machine could install.
func Validate(d software.Document) error {
	if len(d.Components) == 0 {
		return errors.New("components: there is none")
	}
	for i, mirror := range d.Mirrors {
		for j, endpoint := range mirror.Endpoints {
			if mirror.Prefix == "" || endpoint.URL == "" {
				return fmt.Errorf("mirrors[%d].endpoints[%d]: prefix and url must be set", i, j)
			}
		}
	}
	owner := map[string]string{}
	seen := map[string]bool{}
	for _, c := range d.Components {
		if !names.MatchString(c.Name) || seen[c.Name] {
			return fmt.Errorf("components: the name %q is there twice, or has other characters than lower case letters, digits and dashes", c.Name)
		}
		seen[c.Name] = true
		if err := component(c); err != nil {
			return software.OfComponent(c.Name, err)
		}
		for _, p := range ownPaths(c) {
			if other, taken := owner[p]; taken {
				return software.OfComponent(c.Name, fmt.Errorf("the path %s belongs to the component %s; choose another", p, other))
			}
			owner[p] = c.Name
		}
	}
	return kernel.Validate(d.Kernel)
}

// ownPaths are the paths that a component has on every machine.
func ownPaths(c bootstrapv1.SoftwareComponent) []string {
	var paths []string
	for _, file := range c.Files {
		paths = append(paths, file.Path)
	}
	if c.Unit.Content != "" {
		paths = append(paths, onworker.UnitDir+c.Unit.Name)
	}
	return paths
}

func component(c bootstrapv1.SoftwareComponent) error {
	if c.Unit.Name != "" && !unitNames.MatchString(c.Unit.Name) {
		return fmt.Errorf("unit.name: %q is no name of a unit, such as containerd.service", c.Unit.Name)
	}
	if c.Unit.Name == "" && c.Unit.Content != "" {
		return errors.New("unit.name must be set")
	}
	for i, file := range c.Files {
		if err := errors.Join(checkPath(file.Path), checkMode(file.Mode)); err != nil {
			return fmt.Errorf("files[%d]: %w", i, err)
		}
		if file.Content == nil {
			return fmt.Errorf("files[%d].content must be set", i)
		}
	}
	for i, v := range c.Variants {
		if err := variant(v); err != nil {
			return fmt.Errorf("variants[%d].%w", i, err)
		}
	}
	return check(c.Check)
}

func check(c bootstrapv1.SoftwareCheck) error {
	switch c.Type {
	case "", bootstrapv1.CheckCRI:
		return nil
	case bootstrapv1.CheckHTTP:
		if !localURLs.MatchString(c.URL) {
			return fmt.Errorf("check.url: %q is none of the machine itself, such as http://127.0.0.1:10248/healthz", c.URL)
		}
	case bootstrapv1.CheckUnit:
		if !unitNames.MatchString(c.Unit) {
			return fmt.Errorf("check.unit: %q is no name of a unit, such as kubelet.service", c.Unit)
		}
	default:
		return fmt.Errorf("check.type: %q is none of CRI, HTTP and Unit", c.Type)
	}
	return nil
}

func variant(v bootstrapv1.SoftwareVariant) error {
	if (v.Archive.SHA256 != "") == (len(v.Packages) > 0) {
		return errors.New("archive: exactly one of archive and packages must be set")
	}
	for i, p := range v.Packages {
		if !packageNames.MatchString(p.Name) || p.Version != "" && !packageVersion.MatchString(p.Version) {
			return fmt.Errorf("packages[%d]: %q and %q must be the name and the version of a package", i, p.Name, p.Version)
		}
	}
	for i, r := range v.Repositories {
		if !names.MatchString(r.Name) || !sources.MatchString(r.Source) {
			return fmt.Errorf("repositories[%d]: name must have lower case letters, digits and dashes, and source be a line that begins with deb", i)
		}
	}
	if len(v.Packages) > 0 {
		return nil
	}
	return archive(v.Archive)
}

func archive(a bootstrapv1.SoftwareArchive) error {
	if !digests.MatchString(a.SHA256) {
		return errors.New("archive.sha256: it must be 64 hexadecimal digits in lower case")
	}
	if (len(a.URLs) > 0) == (a.Image != "") {
		return errors.New("archive: exactly one of urls and image must be set")
	}
	for i, address := range a.URLs {
		parsed, err := url.Parse(address)
		if err != nil || parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Host == "" {
			return fmt.Errorf("archive.urls[%d]: it must begin with https:// or http:// and name a server", i)
		}
	}
	if len(a.Unpack) == 0 {
		return errors.New("archive.unpack: there is none")
	}
	for i, u := range a.Unpack {
		if err := unpack(u); err != nil {
			return fmt.Errorf("archive.unpack[%d]: %w", i, err)
		}
	}
	return nil
}

func unpack(u bootstrapv1.SoftwareUnpack) error {
	folder := strings.HasSuffix(u.To, "/")
	if err := errors.Join(checkPath(strings.TrimSuffix(u.To, "/")), checkMode(u.Mode)); err != nil {
		return fmt.Errorf("to: %w", err)
	}
	if strings.HasSuffix(u.From, "/") && !folder {
		return errors.New("to: it must end with a slash, because from does: it is a folder")
	}
	if u.From == "" && folder {
		return errors.New("to: it must be a file, because the download is one")
	}
	for part := range strings.SplitSeq(u.From, "/") {
		if part == ".." {
			return errors.New("from: it must not leave its folder by two dots")
		}
	}
	return nil
}

func checkMode(mode string) error {
	if mode != "" && !modes.MatchString(mode) {
		return fmt.Errorf("mode: %q must be octal as 0755; setuid, setgid and sticky bits are not given", mode)
	}
	return nil
}

// kept are folders and files of the program, the bootstrap data or the kernel. No component may have them.
var kept = []string{
	onworker.UnitDir + onworker.KubeletUnit, onworker.UnitDir + onworker.KubeletUnit + ".d/", onworker.UnitDir + onworker.LoadBalancerUnit,
	onworker.UnitDir + onworker.LoadBalancerUnit + ".d/", onworker.UnitDir + onworker.BootstrapUnit, software.Dir, onworker.Dir,
	"/proc/", "/sys/", "/dev/", "/run/", kernel.ModulesFile, kernel.SysctlsFile,
}

// Path refuses the path of a file that no component may have.
func Path(p string) error { return checkPath(p) }

func checkPath(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || p == "/" {
		return fmt.Errorf("path: %q must be absolute, without . and .. and double slashes", p)
	}
	for _, r := range p {
		if r <= ' ' || r >= 0x7f {
			return fmt.Errorf("path: %q must have no blanks and characters beyond ASCII", p)
		}
	}
	for _, own := range kept {
		if p == strings.TrimSuffix(own, "/") || strings.HasSuffix(own, "/") && strings.HasPrefix(p, own) {
			return fmt.Errorf("path: %s belongs to others; choose another", p)
		}
	}
	return nil
}
