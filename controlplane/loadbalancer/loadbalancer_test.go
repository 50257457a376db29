package loadbalancer

import (
	"slices"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

func content(t *testing.T, apiServers ...string) []byte {
	t.Helper()
	content, err := Configuration(apiServers, []string{"10.96.0.0/16"}, ports.Of(20000))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestTheLoadBalancerTakesItsConfiguration(t *testing.T) {
	parsed, err := configuration.Parse(content(t, "192.0.2.1:20000", "[2001:db8::2]:20000"))
	if err != nil {
		t.Fatal(err)
	}
	if parsed.ListenAddress != "127.0.0.1:6443" {
		t.Errorf("kubelet is served at %s", parsed.ListenAddress)
	}
	if want := []string{"192.0.2.1:20000", "[2001:db8::2]:20000"}; !slices.Equal(parsed.SeedBackends, want) {
		t.Errorf("the API servers are %v, want %v", parsed.SeedBackends, want)
	}
	if parsed.ServiceAddress != "10.96.0.1:443" {
		t.Errorf("pods are served at %s", parsed.ServiceAddress)
	}
	if want := []configuration.Listener{{ListenAddress: "127.0.0.1:8132", BackendPort: 20009}}; !slices.Equal(parsed.AdditionalListeners, want) {
		t.Errorf("konnectivity's agents are served at %v, want %v", parsed.AdditionalListeners, want)
	}
}

func TestSeeds(t *testing.T) {
	both := content(t, "192.0.2.1:20000", "192.0.2.2:20000")
	for name, test := range map[string]struct {
		found   []string
		wanted  int
		present []byte
		want    []string
	}{
		"nothing is known yet":                                     {nil, 3, nil, nil},
		"the first of several do":                                  {[]string{"192.0.2.1:20000"}, 3, nil, []string{"192.0.2.1:20000"}},
		"they are sorted, each once":                               {[]string{"192.0.2.2:20000", "192.0.2.1:20000", "192.0.2.2:20000"}, 3, nil, []string{"192.0.2.1:20000", "192.0.2.2:20000"}},
		"one that restarts stays":                                  {[]string{"192.0.2.2:20000"}, 2, both, []string{"192.0.2.1:20000", "192.0.2.2:20000"}},
		"a pod and the next in its place are one":                  {[]string{"192.0.2.2:20000", "192.0.2.2:20000"}, 2, both, []string{"192.0.2.1:20000", "192.0.2.2:20000"}},
		"one that is gone for good goes when the others are there": {[]string{"192.0.2.2:20000", "192.0.2.3:20000"}, 2, both, []string{"192.0.2.2:20000", "192.0.2.3:20000"}},
		"all are away":                                             {nil, 2, both, []string{"192.0.2.1:20000", "192.0.2.2:20000"}},
		"what a person wrote is not kept":                          {[]string{"192.0.2.1:20000"}, 2, []byte("seedBackends: 5"), []string{"192.0.2.1:20000"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Seeds(test.found, test.wanted, test.present); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
