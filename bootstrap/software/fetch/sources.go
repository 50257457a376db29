// Package fetch downloads files that are known by their SHA-256, from the first server that gives them. It takes every
// server for one that may lie, stall or break off.
package fetch

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

// source is one place of a file.
type source struct {
	// url is that of the file, or of a registry followed by the rest of a reference; it has no user in it.
	url *url.URL
	// image says that it is an OCI artifact.
	image              bool
	caBundle           string
	username, password string
}

// shown is the source for people.
func (s source) shown() string {
	if s.image && s.url.Scheme == "https" {
		return s.url.Host + s.url.Path
	}
	return (&url.URL{Scheme: s.url.Scheme, Host: s.url.Host, Path: s.url.Path}).String()
}

// newSource takes the user out of an address.
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

// sourcesOf are the sources of an archive, in the order in which they are asked.
func sourcesOf(archive bootstrapv1.SoftwareArchive, mirrors []software.Mirror) ([]source, error) {
	addresses, image := archive.URLs, false
	if archive.Image != "" {
		addresses, image = []string{archive.Image}, true
	}
	var sources []source
	for _, address := range addresses {
		found, err := mirrored(address, image, mirrors)
		if err != nil {
			return nil, err
		}
		sources = append(sources, found...)
	}
	return sources, nil
}

// mirrored are the endpoints of the first mirror whose prefix fits, and the server itself unless the mirror is exclusive.
func mirrored(address string, image bool, mirrors []software.Mirror) ([]source, error) {
	var sources []source
	for _, mirror := range mirrors {
		rest, ok := after(address, mirror.Prefix)
		if !ok {
			continue
		}
		for _, endpoint := range mirror.Endpoints {
			s, err := newSource(strings.TrimSuffix(endpoint.URL, "/")+"/"+rest, image)
			if err != nil {
				return nil, err
			}
			s.caBundle = endpoint.CABundle
			if endpoint.Username != "" || endpoint.Password != "" {
				s.username, s.password = endpoint.Username, endpoint.Password
			}
			sources = append(sources, s)
		}
		if mirror.Exclusive {
			return sources, nil
		}
		break
	}
	original, err := newSource(address, image)
	return append(sources, original), err
}

// after is what of an address comes after a prefix, which ends at a slash: a server's name does not fit a longer one.
func after(address, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(address, strings.TrimSuffix(prefix, "/"))
	if !ok || rest == "" || rest[0] != '/' {
		return "", false
	}
	return rest[1:], true
}
