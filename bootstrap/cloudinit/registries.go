package cloudinit

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"regexp"

	"github.com/pelletier/go-toml/v2"
	"k8s.io/utils/ptr"
)

// registryNames are hosts with an optional port; containerd reads "_default" for all others.
var registryNames = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?|_default)$`)

// registryHost is a host in containerd's hosts.toml
// (https://github.com/containerd/containerd/blob/main/docs/hosts.md).
type registryHost struct {
	Server       string   `toml:"server,omitempty"`
	Capabilities []string `toml:"capabilities,omitempty"`
	CA           string   `toml:"ca,omitempty"`
	OverridePath bool     `toml:"override_path,omitempty"`
}

var pull = []string{"pull", "resolve"}

func addRegistries(d *document, in *Input) error {
	for i, mirror := range in.Spec.RegistryMirrors {
		field := fmt.Sprintf("registryMirrors[%d]", i)
		if err := CheckRegistry(mirror.Registry); err != nil {
			return invalid(field+".registry", mirror.Registry, err)
		}
		dir := registryDir + mirror.Registry + "/"
		var hosts []byte
		for j, endpoint := range mirror.Endpoints {
			if err := CheckURL(endpoint.URL); err != nil {
				return invalid(fmt.Sprintf("%s.endpoints[%d].url", field, j), endpoint.URL, err)
			}
			host := registryHost{Capabilities: pull, OverridePath: ptr.Deref(endpoint.OverridePath, false)}
			if endpoint.CABundle != "" {
				host.CA = fmt.Sprintf("%sca-%d.crt", dir, j)
				d.WriteFiles = append(d.WriteFiles, ownFile(host.CA, "0644", []byte(endpoint.CABundle)))
			}
			// containerd tries the hosts in the order of the file, so each is marshalled by itself.
			section, err := toml.Marshal(map[string]map[string]registryHost{"host": {endpoint.URL: host}})
			if err != nil {
				return fmt.Errorf("spec.%s.endpoints[%d]: marshal hosts.toml: %w", field, j, err)
			}
			hosts = append(hosts, bytes.TrimPrefix(section, []byte("[host]\n"))...)
			if j == 0 && ptr.Deref(mirror.Exclusive, false) {
				// containerd tries the server last. With exclusive that is the mirror again.
				host.Server = endpoint.URL
				top, err := toml.Marshal(host)
				if err != nil {
					return fmt.Errorf("spec.%s: marshal hosts.toml: %w", field, err)
				}
				hosts = append(append(top, '\n'), hosts...)
			}
		}
		d.WriteFiles = append(d.WriteFiles, ownFile(dir+"hosts.toml", "0644", hosts))
	}
	return nil
}

// CheckRegistry refuses a registry that cannot be in the name of an image.
func CheckRegistry(registry string) error {
	if !registryNames.MatchString(registry) {
		return errors.New("must be a host with an optional port, for example registry.k8s.io, or _default")
	}
	return nil
}

// CheckURL refuses a URL that curl or containerd does not understand.
func CheckURL(value string) error {
	if err := checkWord(value); err != nil {
		return err
	}
	parsed, err := url.Parse(value)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Hostname() == "" {
		return errors.New("must be a URL that starts with https:// or http://")
	}
	return nil
}
