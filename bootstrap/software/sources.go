package software

import (
	"strings"
)

// Source is one place that a file may come from.
type Source struct {
	// URL of the file, or for an image its reference.
	URL string
	// Endpoint is that of the mirror; nil for the server itself.
	Endpoint *Endpoint
}

// Sources are the places of a file in the order in which they are tried: the endpoints of the first mirror whose prefix
// fits, and then the server itself, unless the mirror is exclusive.
func Sources(mirrors []Mirror, address string) []Source {
	for i := range mirrors {
		mirror := &mirrors[i]
		rest, fits := after(address, mirror.Prefix)
		if !fits {
			continue
		}
		var sources []Source
		for j := range mirror.Endpoints {
			endpoint := &mirror.Endpoints[j]
			sources = append(sources, Source{URL: strings.TrimSuffix(endpoint.URL, "/") + "/" + rest, Endpoint: endpoint})
		}
		if !mirror.Exclusive {
			sources = append(sources, Source{URL: address})
		}
		return sources
	}
	return []Source{{URL: address}}
}

// after is the part of an address after a prefix. The prefix must end at a slash, so that a server's name does not match a
// longer one.
func after(address, prefix string) (rest string, fits bool) {
	rest, fits = strings.CutPrefix(address, strings.TrimSuffix(prefix, "/"))
	if !fits || rest == "" || rest[0] != '/' {
		return "", false
	}
	return rest[1:], true
}
