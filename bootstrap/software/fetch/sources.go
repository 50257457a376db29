// Package fetch downloads files with a known SHA-256 from the first server that gives them. Every server may lie, stall or
// break off.
package fetch

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

// source is one place where a file may be.
type source struct {
	// url is that of the file, or of a registry followed by the rest of a reference; it has no user in it.
	url *url.URL
	// image says that it is an OCI artifact.
	image              bool
	caBundle           string
	username, password string
}

// shown is the source in messages, without secrets.
func (s source) shown() string {
	if s.image && s.url.Scheme == "https" {
		return s.url.Host + s.url.Path
	}
	return (&url.URL{Scheme: s.url.Scheme, Host: s.url.Host, Path: s.url.Path}).String()
}

// newSource makes a source of an address. It takes user and password out of the address.
func newSource(address string, image bool) (source, error) {
	if image && !strings.Contains(address, "://") {
		address = "https://" + address
	}
	parsed, err := url.Parse(address)
	if err != nil {
		// The error has the address in it, with the password.
		return source{}, errors.New("an address in urls, image or mirrors is no URL")
	}
	if parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Host == "" {
		return source{}, fmt.Errorf("%s: an address must begin with https:// or http:// and name a server", software.WithoutSecrets(address))
	}
	s := source{url: parsed, image: image}
	if parsed.User != nil {
		s.username = parsed.User.Username()
		s.password, _ = parsed.User.Password()
		parsed.User = nil
	}
	return s, nil
}

// sourcesOf are the sources of an archive, in the order in which they are tried.
func sourcesOf(archive bootstrapv1.SoftwareArchive, mirrors []software.Mirror) ([]source, error) {
	addresses, image := archive.URLs, false
	if archive.Image != "" {
		addresses, image = []string{archive.Image}, true
	}
	var sources []source
	for _, address := range addresses {
		for _, place := range software.Sources(mirrors, address) {
			s, err := newSource(place.URL, image)
			if err != nil {
				return nil, err
			}
			if endpoint := place.Endpoint; endpoint != nil {
				s.caBundle = endpoint.CABundle
				if endpoint.Username != "" || endpoint.Password != "" {
					s.username, s.password = endpoint.Username, endpoint.Password
				}
			}
			sources = append(sources, s)
		}
	}
	return sources, nil
}
