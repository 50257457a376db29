package balancers

import (
	"bytes"
	_ "embed"
	"path/filepath"
	"text/template"
)

//go:embed haproxy.cfg
var haproxyConfiguration string

// HAProxyName is the name of HAProxy.
const HAProxyName = "haproxy"

// HAProxy is Debian's HAProxy in TCP mode. It asks each backend for /readyz every second, as kubeadm's guide for highly
// available clusters has it, and ends connections to one that failed.
func HAProxy(c *Config) (*Balancer, error) {
	const address = "127.0.0.1:7443"
	file, err := c.fill("haproxy.cfg", haproxyConfiguration, address)
	if err != nil {
		return nil, err
	}
	return &Balancer{Name: HAProxyName, Address: address, argv: []string{"/usr/sbin/haproxy", "-db", "-f", file}, log: filepath.Join(c.Directory, "haproxy.log")}, nil
}

// fill writes a configuration that lists the backends.
func (c *Config) fill(name, text, address string) (string, error) {
	authority, err := c.write("ca.crt", c.Keys.ClusterCA.Bundle)
	if err != nil {
		return "", err
	}
	parsed, err := template.New(name).Parse(text)
	if err != nil {
		return "", err
	}
	content := &bytes.Buffer{}
	if err := parsed.Execute(content, map[string]any{"Address": address, "Backends": c.Backends, "Directory": c.Directory, "CA": authority}); err != nil {
		return "", err
	}
	return c.write(name, content.Bytes())
}
