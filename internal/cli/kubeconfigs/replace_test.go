package kubeconfigs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// handedOver is what --output writes of a cluster.
func handedOver(stored *clientcmdapi.Config) *clientcmdapi.Config {
	made := stored.DeepCopy()
	made.Contexts[made.CurrentContext].AuthInfo = userPrefix + "somebody"
	made.AuthInfos = map[string]*clientcmdapi.AuthInfo{userPrefix + "somebody": {}}
	return made
}

// merged is a kubeconfig to which a person added another cluster.
func merged(config, other *clientcmdapi.Config) *clientcmdapi.Config {
	both := config.DeepCopy()
	both.Contexts[other.CurrentContext] = other.Contexts[other.CurrentContext]
	for name, cluster := range other.Clusters {
		both.Clusters[name] = cluster
	}
	for name, user := range other.AuthInfos {
		both.AuthInfos[name] = user
	}
	return both
}

func TestOutputReplacesNoOtherFile(t *testing.T) {
	const endpoint, others = "https://10.96.0.7:6443", "https://10.96.0.8:6443"
	former := newCA(t)
	blue, rotated, green := storedOf("blue", endpoint, former), storedOf("blue", endpoint, newCA(t)), storedOf("green", others, newCA(t))
	written := func(config *clientcmdapi.Config) []byte {
		content, err := clientcmd.Write(*config)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	for name, test := range map[string]struct {
		there  []byte
		stored *clientcmdapi.Config
		says   string // Empty where the file is replaced.
	}{
		"an empty file":                                   {nil, blue, ""},
		"an earlier one":                                  {written(handedOver(blue)), blue, ""},
		"an earlier one, from before a rotation":          {written(handedOver(blue)), rotated, ""},
		"one of another cluster":                          {written(handedOver(green)), blue, "is of another cluster"},
		"one of another cluster of that name":             {written(handedOver(storedOf("blue", others, newCA(t)))), blue, "is of another cluster"},
		"the administrator's":                             {written(blue), blue, "did not write it"},
		"a person's own, of other clusters":               {written(green), blue, "did not write it"},
		"an earlier one, to which a person added another": {written(merged(handedOver(blue), green)), blue, "did not write it"},
		"no kubeconfig":                                   {[]byte("a diary\n"), blue, "cannot be read as a kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(file, test.there, 0o600); err != nil {
				t.Fatal(err)
			}
			expectReplaceable(t, file, test.stored, test.says)
		})
	}
	folder := t.TempDir()
	expectReplaceable(t, folder, blue, "is not a file")
	expectReplaceable(t, filepath.Join(folder, "new"), blue, "")
	expectReplaceable(t, "-", blue, "")
}

func expectReplaceable(t *testing.T, file string, stored *clientcmdapi.Config, says string) {
	t.Helper()
	err := replaceable(file, stored, nil)
	switch {
	case says == "" && err != nil:
		t.Errorf("it is refused: %v", err)
	case says != "" && (err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "--output "+file)):
		t.Errorf("want %q, got %v", says, err)
	}
}
