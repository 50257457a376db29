package cloudinit

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

var (
	packageNames    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+._-]*$`)
	packageVersions = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+.~:_-]*$`)
	sourceNames     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
)

func addUsers(d *document, in *Input) error {
	for i, u := range in.Spec.Users {
		field := fmt.Sprintf("users[%d]", i)
		for _, name := range append([]string{u.Name}, u.Groups...) {
			if !account.MatchString(name) {
				return invalid(field, name, fmt.Errorf("must be the name of a user or a group"))
			}
		}
		for _, line := range append([]string{u.Shell, u.Sudo}, u.SSHAuthorizedKeys...) {
			if err := checkLine(line); err != nil {
				return invalid(field, line, err)
			}
		}
		d.Users = append(d.Users, user{
			Name: u.Name, Groups: u.Groups, Shell: u.Shell, Sudo: u.Sudo, LockPasswd: true, SSHAuthorizedKeys: u.SSHAuthorizedKeys,
		})
	}
	return nil
}

func addNTP(d *document, in *Input) error {
	spec := in.Spec.NTP
	if spec.Enabled == nil && len(spec.Servers) == 0 {
		return nil
	}
	for i, server := range spec.Servers {
		if err := checkWord(server); err != nil {
			return invalid(fmt.Sprintf("ntp.servers[%d]", i), server, err)
		}
	}
	d.NTP = &ntp{Enabled: ptr.Deref(spec.Enabled, true), Servers: spec.Servers}
	return nil
}

// addSoftware adds packages; downloads are steps of the bootstrap.
func addSoftware(d *document, in *Input) error {
	spec := in.Spec.Software
	if spec.Mode != bootstrapv1.SoftwarePackages {
		return nil
	}
	for i, p := range spec.Packages {
		if !packageNames.MatchString(p.Name) {
			return invalid(fmt.Sprintf("software.packages[%d].name", i), p.Name, fmt.Errorf("must be the name of a package"))
		}
		if p.Version != "" && !packageVersions.MatchString(p.Version) {
			return invalid(fmt.Sprintf("software.packages[%d].version", i), p.Version, fmt.Errorf("must be the version of a package"))
		}
		d.Packages = append(d.Packages, packageName{p.Name, p.Version})
	}
	d.PackageUpdate = true
	settings := apt{HTTPProxy: in.Spec.Proxy.HTTP, HTTPSProxy: in.Spec.Proxy.HTTPS, Sources: map[string]aptSource{}}
	for i, repository := range spec.Repositories {
		field := fmt.Sprintf("software.repositories[%d]", i)
		if !sourceNames.MatchString(repository.Name) {
			return invalid(field+".name", repository.Name, fmt.Errorf("must have lower case letters, digits and dashes only"))
		}
		if err := checkLine(repository.Source); err != nil {
			return invalid(field+".source", repository.Source, err)
		}
		for line := range strings.SplitSeq(repository.Key, "\n") {
			if err := checkLine(line); err != nil {
				return fmt.Errorf("spec.%s.key: %w", field, err)
			}
		}
		settings.Sources[repository.Name] = aptSource{Source: repository.Source, Key: repository.Key}
	}
	if len(settings.Sources) > 0 || settings.HTTPProxy != "" || settings.HTTPSProxy != "" {
		d.APT = &settings
	}
	return nil
}
