package artifacts

import (
	"strings"
	"testing"
)

const someFlannel = `
  net-conf.json: |
    { "Network": "10.244.0.0/16", "EnableNFTables": false }
        image: ghcr.io/flannel-io/flannel-cni-plugin:v1.0.0-flannel1
        - mountPath: /opt/cni/bin
          path: /opt/cni/bin
`

func TestFlannelsManifestsAreMadeForTheLabsHosts(t *testing.T) {
	got, err := flannelForHosts([]byte(someFlannel), "v0.9.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"EnableNFTables": true`, "flannel-cni-plugin:v0.9.1\n", "mountPath: /opt/cni/bin\n", " path: /usr/lib/cni\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
}

func TestFlannelsManifestsWithoutWhatIsReplacedAreRefused(t *testing.T) {
	for _, lost := range []string{"flannel-cni-plugin", "EnableNFTables", " path: /opt/cni/bin"} {
		if _, err := flannelForHosts([]byte(strings.ReplaceAll(someFlannel, lost, "")), "v0.9.1"); err == nil {
			t.Errorf("without %q it is taken", lost)
		}
	}
	if _, err := flannelForHosts([]byte(someFlannel), "latest"); err == nil {
		t.Error("any version is taken")
	}
}
