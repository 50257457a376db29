package balancers

import (
	_ "embed"
	"path/filepath"
)

//go:embed nginx.conf
var nginxConfiguration string

// NGINX is Debian's nginx with its stream module. It has no checks of its own in this edition: a backend that a connection
// could not be made to is left out for a while.
func NGINX(c *Config) (*Balancer, error) {
	const address = "127.0.0.1:8443"
	file, err := c.fill("nginx.conf", nginxConfiguration, address)
	if err != nil {
		return nil, err
	}
	return &Balancer{Name: "nginx", Address: address, argv: []string{"/usr/sbin/nginx", "-c", file, "-e", "stderr"}, log: filepath.Join(c.Directory, "nginx.log")}, nil
}
