package hostcluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// service is a systemd service of a host with the files that it reads.
type service struct {
	name string
	// unit is the text of the unit; without it the unit is one of Debian's.
	unit  string
	files []file
}

type file struct {
	path string
	data []byte
	mode fs.FileMode
}

// programs is the folder of a host with the programs of Kubernetes and etcd.
const programs = "/usr/local/bin/"

// command is what a unit runs.
type command struct {
	description, program string
	args                 []string
	// notify says that the program tells systemd when it is ready.
	notify bool
	after  []string
}

// unit returns the text of a service that systemd starts at boot and restarts whenever it ends.
func (c command) unit() string {
	kind := "exec"
	if c.notify {
		kind = "notify"
	}
	after := strings.Join(append([]string{"network.target"}, c.after...), " ")
	exec := append([]string{programs + c.program}, c.args...)
	return fmt.Sprintf(`[Unit]
Description=%s
After=%s
StartLimitIntervalSec=0

[Service]
Type=%s
ExecStart=%s
Restart=always
RestartSec=1
TimeoutStartSec=120
KillMode=process
LimitNOFILE=1048576

[Install]
WantedBy=multi-user.target
`, c.description, after, kind, strings.Join(exec, " \\\n  "))
}

// content is a hash over all that a service reads.
func (s service) content() string {
	h := sha256.New()
	for _, f := range s.all() {
		fmt.Fprintf(h, "%s %o %d\n", f.path, f.mode, len(f.data))
		h.Write(f.data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (s service) unitPath() string {
	if s.unit == "" {
		return "/lib/systemd/system/" + s.name + ".service"
	}
	return "/etc/systemd/system/" + s.name + ".service"
}

// all are the files of the service with its unit.
func (s service) all() []file {
	if s.unit == "" {
		return s.files
	}
	return append(slices.Clone(s.files), file{s.unitPath(), []byte(s.unit), 0o644})
}

// stamp is the file that says with which content the service was last started.
func (s service) stamp() string { return "/etc/lab/started/" + s.name }

// started says whether the service was last started with this content.
func (s service) started(h *host.Host) bool {
	old, err := os.ReadFile(h.DiskPath(s.stamp()))
	return err == nil && string(old) == s.content()
}

// install writes a service's files and enables it.
func (s service) install(h *host.Host) error {
	for _, f := range s.all() {
		if old, err := os.ReadFile(h.DiskPath(f.path)); err == nil && bytes.Equal(old, f.data) {
			continue
		}
		if err := h.WriteFile(f.path, f.data, f.mode); err != nil {
			return fmt.Errorf("install %s on %s: %w", s.name, h.Name, err)
		}
	}
	return h.Symlink(s.unitPath(), "/etc/systemd/system/multi-user.target.wants/"+s.name+".service")
}

// start installs services on a host and starts them, without waiting for them to be ready. One that was last started
// with another configuration is restarted.
func start(ctx context.Context, h *host.Host, services ...service) error {
	var names []string
	var changed []service
	for _, s := range services {
		names = append(names, s.name)
		if s.started(h) {
			continue
		}
		if err := s.install(h); err != nil {
			return err
		}
		changed = append(changed, s)
	}
	if len(changed) > 0 {
		restart := []string{"systemctl", "--no-block", "restart"}
		for _, s := range changed {
			restart = append(restart, s.name)
		}
		for _, argv := range [][]string{{"systemctl", "daemon-reload"}, restart} {
			if _, err := h.Exec(ctx, nil, argv...); err != nil {
				return err
			}
		}
		for _, s := range changed {
			if err := h.WriteFile(s.stamp(), []byte(s.content()), 0o644); err != nil {
				return err
			}
		}
	}
	_, err := h.Exec(ctx, nil, append([]string{"systemctl", "--no-block", "start"}, names...)...)
	return err
}
