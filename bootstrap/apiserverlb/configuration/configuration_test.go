package configuration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const minimal = `
seedBackends: [10.0.0.1:6443]
certificateAuthorityFile: /etc/kubernetes/pki/ca.crt
`

func TestDefaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(minimal), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.ListenAddress != "127.0.0.1:6443" || c.StatusAddress != "127.0.0.1:6444" || c.ServerName != "kubernetes.default.svc" || c.StopTimeout.Duration != 2*time.Second {
		t.Errorf("defaults %+v", c)
	}
	if _, err := Read(path + ".missing"); err == nil || !strings.Contains(err.Error(), "config.yaml.missing") {
		t.Errorf("of a missing file: %v", err)
	}
}

func TestEveryField(t *testing.T) {
	c, err := Parse([]byte(`
listenAddress: 127.0.0.1:7443
statusAddress: "[::1]:7444"
seedBackends: [10.0.0.1:20001, "[fd00::1]:20001", kubernetes.example:443]
certificateAuthorityFile: /etc/kubernetes/pki/ca.crt
serverName: kubernetes
kubeconfigFile: /etc/kubernetes/kubelet.conf
stateFile: /var/lib/kok-apiserver-lb/backends.json
serviceAddress: 10.96.0.1:443
additionalListeners: [{listenAddress: "127.0.0.1:8132", backendPort: 20007}]
maxConnections: 4000
maxServiceConnections: 8000
maxServiceConnectionsPerSource: 500
stopTimeout: 5s
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.SeedBackends) != 3 || c.AdditionalListeners[0].BackendPort != 20007 || c.StopTimeout.Duration != 5*time.Second ||
		c.MaxConnections != 4000 || c.MaxServiceConnections != 8000 || c.MaxServiceConnectionsPerSource != 500 {
		t.Errorf("read %+v", c)
	}
}

func TestMistakesAreToldWithTheirField(t *testing.T) {
	for name, test := range map[string]struct{ content, message string }{
		"a field that does not exist":   {minimal + "listenAdress: 127.0.0.1:1", `unknown field "listenAdress"`},
		"a field twice":                 {minimal + "stateFile: /a\nstateFile: /b", `"stateFile" already set`},
		"no seeds":                      {"certificateAuthorityFile: /ca.crt", "seedBackends: at least one is needed"},
		"a seed without a port":         {"seedBackends: [10.0.0.1]\ncertificateAuthorityFile: /ca.crt", `seedBackends[0]: "10.0.0.1" is not host:port`},
		"a seed without a host":         {"seedBackends: [':6443']\ncertificateAuthorityFile: /ca.crt", `seedBackends[0]: ":6443" names no host`},
		"a seed with a named port":      {"seedBackends: ['a:https']\ncertificateAuthorityFile: /ca.crt", `seedBackends[0]: "a:https" is not host:port`},
		"a seed that is itself":         {"seedBackends: ['127.0.0.1:6443']\ncertificateAuthorityFile: /ca.crt", "own address"},
		"a seed by another name":        {"seedBackends: ['LocalHost.:6443']\ncertificateAuthorityFile: /ca.crt", "own address"},
		"a seed written otherwise":      {"seedBackends: ['[::ffff:127.0.0.1]:6443']\ncertificateAuthorityFile: /ca.crt", "own address"},
		"a seed that is any address":    {"seedBackends: ['0.0.0.0:6443']\ncertificateAuthorityFile: /ca.crt", "names no host"},
		"a seed that is the status":     {"seedBackends: ['localhost:6444']\ncertificateAuthorityFile: /ca.crt", "own address"},
		"a seed that is the Service":    {"serviceAddress: 10.96.0.1:443\nseedBackends: ['10.96.0.1:443']\ncertificateAuthorityFile: /ca.crt", "own address"},
		"a seed at the Service's port":  {"serviceAddress: 10.96.0.1:443\nseedBackends: ['10.96.0.1:6443']\ncertificateAuthorityFile: /ca.crt", "own address"},
		"a seed that is a listener":     {"additionalListeners: [{listenAddress: '127.0.0.1:8132', backendPort: 1}]\nseedBackends: ['127.0.0.1:8132']\ncertificateAuthorityFile: /ca.crt", "own address"},
		"no CA":                         {"seedBackends: ['a:1']", "certificateAuthorityFile: must be set"},
		"a relative path":               {minimal + "stateFile: backends.json", `stateFile: "backends.json" is not an absolute path`},
		"open to others":                {minimal + "listenAddress: 0.0.0.0:6443", "listenAddress: 0.0.0.0 is not an address of loopback"},
		"status open to others":         {minimal + "statusAddress: 10.0.0.1:1", "statusAddress: 10.0.0.1 is not an address of loopback"},
		"an address used twice":         {minimal + "statusAddress: 127.0.0.1:6443", "statusAddress: 127.0.0.1:6443 is the address of listenAddress too"},
		"a Service on loopback":         {minimal + "serviceAddress: 127.0.0.1:443", "serviceAddress: 127.0.0.1 cannot be the address of a Service"},
		"a Service without a port":      {minimal + "serviceAddress: 10.96.0.1", `serviceAddress: "10.96.0.1" is not IP:port`},
		"a port that does not exist":    {minimal + "additionalListeners: [{listenAddress: '127.0.0.1:1', backendPort: 70000}]", "additionalListeners[0].backendPort: 70000 is not a port"},
		"a stop that takes for ever":    {minimal + "stopTimeout: 1h", "stopTimeout: 1h0m0s is not between"},
		"fewer connections than none":   {minimal + "maxServiceConnections: -1", "maxServiceConnections: -1 is less than 0"},
		"a stop that is not a duration": {minimal + "stopTimeout: soon", "soon"},
		"what is no configuration":      {"[]", "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(test.content))
			if err == nil || !strings.Contains(err.Error(), test.message) {
				t.Errorf("got %v, expected %q", err, test.message)
			}
		})
	}
}

func TestAServerOnThisMachineIsAtAPortOfItsOwn(t *testing.T) {
	for _, seed := range []string{"localhost:443", "127.0.0.2:6443", "10.96.0.1:6444"} {
		content := "serviceAddress: 10.96.0.1:443\ncertificateAuthorityFile: /ca.crt\nseedBackends: ['" + seed + "']"
		if _, err := Parse([]byte(content)); err != nil {
			t.Error(err)
		}
	}
}
