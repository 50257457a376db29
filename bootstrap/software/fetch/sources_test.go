package fetch

import (
	"slices"
	"strings"
	"testing"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

func mirror(prefix string, exclusive bool, urls ...string) software.Mirror {
	m := software.Mirror{Prefix: prefix, Exclusive: exclusive}
	for _, u := range urls {
		m.Endpoints = append(m.Endpoints, software.Endpoint{URL: u})
	}
	return m
}

func TestSources(t *testing.T) {
	const file = "https://dl.k8s.io/v1/kubelet"
	for name, c := range map[string]struct {
		mirrors []software.Mirror
		urls    []string
		image   string
		want    string
	}{
		"are the URLs without a mirror":            {nil, []string{file, "http://b/c"}, "", "https://dl.k8s.io/v1/kubelet http://b/c"},
		"begin with the endpoints of the mirror":   {[]software.Mirror{mirror("https://dl.k8s.io/", false, "https://a/k8s/", "http://b")}, []string{file}, "", "https://a/k8s/v1/kubelet http://b/v1/kubelet https://dl.k8s.io/v1/kubelet"},
		"end with them when it is exclusive":       {[]software.Mirror{mirror("https://dl.k8s.io/", true, "https://a/")}, []string{file}, "", "https://a/v1/kubelet"},
		"are those of the first mirror that fits":  {[]software.Mirror{mirror("https://x/", true, "https://x1/"), mirror("https://dl.k8s.io/v1", true, "https://a"), mirror("https://dl.k8s.io/", true, "https://b")}, []string{file}, "", "https://a/kubelet"},
		"do not take one server for another":       {[]software.Mirror{mirror("https://dl.k8s.io", true, "https://a")}, []string{"https://dl.k8s.io.example.com/kubelet"}, "", "https://dl.k8s.io.example.com/kubelet"},
		"are in the order of the URLs":             {[]software.Mirror{mirror("https://dl.k8s.io/", true, "https://a")}, []string{"https://b/k", file}, "", "https://b/k https://a/v1/kubelet"},
		"of an image are registries":               {[]software.Mirror{mirror("registry.example.com/", false, "http://mirror:5000/cache", "other.example.com")}, nil, "registry.example.com/software/kubelet:v1", "http://mirror:5000/cache/software/kubelet:v1 other.example.com/software/kubelet:v1 registry.example.com/software/kubelet:v1"},
		"have no user and no query that is shown":  {nil, []string{"https://u:p@a/b?token=x"}, "", "https://a/b"},
		"of a URL with another scheme are refused": {nil, []string{"ftp://u:p@a/b"}, "", "error ftp://a/b: an address must begin with https:// or http:// and name a server"},
		"of a URL that is none are refused":        {nil, []string{"https://u:p@a/%zz"}, "", "error an address in urls, image or mirrors is no URL"},
	} {
		t.Run(name, func(t *testing.T) {
			var shown []string
			sources, err := sourcesOf(bootstrapv1.SoftwareArchive{URLs: c.urls, Image: c.image}, c.mirrors)
			if err != nil {
				shown = []string{"error", err.Error()}
			}
			for _, s := range sources {
				shown = append(shown, s.shown())
				if s.image != (c.image != "") {
					t.Errorf("%s is an image: %t", s.shown(), s.image)
				}
			}
			if got := strings.Join(shown, " "); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

func TestAUserInAURLIsThePasswordOfItsServer(t *testing.T) {
	sources, err := sourcesOf(bootstrapv1.SoftwareArchive{URLs: []string{"https://u:p@a/b"}}, nil)
	if err != nil || len(sources) != 1 || sources[0].username != "u" || sources[0].password != "p" || sources[0].url.User != nil {
		t.Errorf("%+v: %v", sources, err)
	}
	if !slices.ContainsFunc(sources, func(s source) bool { return s.url.Host == "a" }) {
		t.Error("another server")
	}
}
