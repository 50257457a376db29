package kubeconfigs

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

func newCA(t *testing.T) []byte {
	t.Helper()
	ca, _, err := cert.GenerateSelfSignedCertKey("kubernetes", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// storedOf is what the provider keeps of a cluster.
func storedOf(name, server string, ca []byte) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.CurrentContext = name + "-admin@" + name
	config.Contexts[config.CurrentContext] = &clientcmdapi.Context{Cluster: name, AuthInfo: name + "-admin"}
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[name+"-admin"] = &clientcmdapi.AuthInfo{}
	return config
}

// A cluster gets another CA by a rotation, and keeps its name and its API servers.
func TestAKubeconfigIsReplacedByOneOfTheSameClusterAlone(t *testing.T) {
	former, next := newCA(t), newCA(t)
	both := slices.Concat(former, next)
	const endpoint = "https://10.96.0.7:6443"
	before, onHosts := storedOf("blue", endpoint, former), []string{"192.0.2.11:20000", "192.0.2.12:20000"}
	for name, test := range map[string]struct {
		there   *clientcmdapi.Config
		servers []string
		stored  *clientcmdapi.Config
		now     []string
		refused bool
	}{
		"the same CA":                                    {before, onHosts, before, onHosts, false},
		"the same CA, and all API servers moved":         {before, onHosts, before, []string{"192.0.2.13:20000"}, false},
		"amid a rotation":                                {before, onHosts, storedOf("blue", endpoint, both), nil, false},
		"made amid a rotation that is over":              {storedOf("blue", endpoint, both), onHosts, storedOf("blue", endpoint, next), nil, false},
		"from before a rotation":                         {before, onHosts, storedOf("blue", endpoint, next), []string{"192.0.2.12:20000", "192.0.2.13:20000"}, false},
		"from before a rotation, behind one address":     {before, nil, storedOf("blue", endpoint, next), nil, false},
		"another cluster of that name":                   {before, onHosts, storedOf("blue", "https://10.96.0.8:6443", next), []string{"192.0.2.11:20020"}, true},
		"another cluster of that name at one address":    {before, nil, storedOf("blue", "https://10.96.0.8:6443", next), nil, true},
		"another name at the API servers of this one":    {before, onHosts, storedOf("green", endpoint, next), onHosts, true},
		"another CA, and nothing else is known to match": {before, onHosts, storedOf("blue", endpoint, next), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := folder(t.TempDir())
			made, err := local(test.there, 16443, test.servers)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.write("blue", made); err != nil {
				t.Fatal(err)
			}
			port, err := f.port("blue", test.stored, test.now, 0)
			switch {
			case test.refused && (err == nil || !strings.Contains(err.Error(), filepath.Join(string(f), "blue")) || !strings.Contains(err.Error(), "is of another cluster")):
				t.Errorf("got port %d, %v", port, err)
			case !test.refused && (err != nil || port != 16443):
				t.Errorf("got port %d, %v", port, err)
			}
		})
	}
}
