package balancers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// packages are Debian's, by a file that shows that one is there.
var packages = map[string]string{
	"haproxy":             "/usr/sbin/haproxy",
	"nginx":               "/usr/sbin/nginx",
	"libnginx-mod-stream": "/usr/lib/nginx/modules/ngx_stream_module.so",
}

// policy is what Debian's packages ask whether they may start their services (invoke-rc.d(8)).
const policy = "/usr/sbin/policy-rc.d"

// Install installs HAProxy and nginx by apt when they are missing. Their services are not started.
func Install(ctx context.Context) error {
	var missing []string
	for name, file := range packages {
		if _, err := os.Stat(file); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	list := strings.Join(missing, " ")
	if os.Geteuid() != 0 {
		return fmt.Errorf("this machine lacks %s; run as root: apt-get install --no-install-recommends %s", list, list)
	}
	allowed, err := forbidServices()
	if err != nil {
		return err
	}
	fmt.Println("install missing packages:", list)
	for _, args := range [][]string{{"update", "-q"}, append([]string{"install", "-y", "-q", "--no-install-recommends"}, missing...)} {
		install := exec.CommandContext(ctx, "apt-get", args...)
		install.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := install.CombinedOutput(); err != nil {
			return errors.Join(fmt.Errorf("this machine lacks %s: apt-get %s: %w\n%s", list, strings.Join(args, " "), err, out), allowed())
		}
	}
	return errors.Join(disableServices(ctx), allowed())
}

// disableServices keeps the services from starting with the machine.
func disableServices(ctx context.Context) error {
	systemctl, err := exec.LookPath("systemctl")
	if err != nil {
		return nil //nolint:nilerr // Without systemd nobody starts them.
	}
	if out, err := exec.CommandContext(ctx, systemctl, "disable", "haproxy.service", "nginx.service").CombinedOutput(); err != nil {
		return fmt.Errorf("systemctl disable haproxy.service nginx.service: %w\n%s", err, out)
	}
	return nil
}

// forbidServices keeps Debian from starting services until the returned function is called. On machines that have a rule
// of their own that rule stays.
func forbidServices() (allow func() error, err error) {
	file, err := os.OpenFile(policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	allow = func() error { return os.Remove(policy) }
	// 101: the action is forbidden.
	_, err = file.WriteString("#!/bin/sh\nexit 101\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(err, allow())
	}
	return allow, nil
}
