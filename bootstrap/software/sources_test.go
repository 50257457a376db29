package software

import (
	"slices"
	"testing"
)

func TestSourcesOfAFile(t *testing.T) {
	near, far := Endpoint{URL: "https://near.example/k8s/"}, Endpoint{URL: "https://far.example/k8s", Username: "reader", Password: "secret"}
	mirrors := []Mirror{
		{Prefix: "https://dl.k8s.io/private/", Endpoints: []Endpoint{far}, Exclusive: true},
		{Prefix: "https://dl.k8s.io/", Endpoints: []Endpoint{near, far}},
		{Prefix: "registry.example.com", Endpoints: []Endpoint{{URL: "mirror.example.com:5000"}}},
	}
	for _, test := range []struct {
		name, address string
		want          []string
	}{
		{"endpoints come before the server itself", "https://dl.k8s.io/release/v1.36.3/kubelet", []string{
			"https://near.example/k8s/release/v1.36.3/kubelet", "https://far.example/k8s/release/v1.36.3/kubelet", "https://dl.k8s.io/release/v1.36.3/kubelet",
		}},
		{"the first mirror that fits counts, and an exclusive one hides the server", "https://dl.k8s.io/private/a", []string{"https://far.example/k8s/a"}},
		{"an image is asked for at the mirror's registry", "registry.example.com/software/kubelet:v1", []string{
			"mirror.example.com:5000/software/kubelet:v1", "registry.example.com/software/kubelet:v1",
		}},
		{"a server is none whose name begins with that of another", "https://dl.k8s.io.example/a", []string{"https://dl.k8s.io.example/a"}},
		{"without a mirror there is the server alone", "https://github.com/a", []string{"https://github.com/a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, source := range Sources(mirrors, test.address) {
				got = append(got, source.URL)
				if known := source.Endpoint != nil; known != (source.URL != test.address) {
					t.Errorf("%s: the endpoint is known: %t", source.URL, known)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
