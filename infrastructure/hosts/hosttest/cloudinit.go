package hosttest

import (
	"maps"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// Restart restarts the host. The units in /run are gone, and the cloud-init of the boot does what a new seed says.
func (s *Simulated) Restart() {
	s.Remove(cloudinit.UnitFile)
	if seed := s.Files[cloudinit.SeedDir+"/user-data"]; seed != "" && seed != s.Files["/var/lib/cloud/instance/user-data.txt"] {
		s.runCloudInit()
	}
	delete(s.Units, cloudinit.Unit)
}

// runCloudInit does what UserData say.
func (s *Simulated) runCloudInit() {
	s.Units[cloudinit.Unit] = &hosts.UnitState{Loaded: true, Active: "active"}
	s.cloudInit([]string{"clean"})
	s.Files["/var/lib/cloud/instance/user-data.txt"] = s.Files[cloudinit.SeedDir+"/user-data"]
	s.Files["/run/cloud-init/status.json"] = "{}"
	s.Files["/etc/systemd/system/kubelet.service"], s.Files["/etc/motd"] = "kubelet", "changed"
	s.Files["/etc/systemd/system/watch@.service"] = "watch"
	s.Files["/usr/local/bin/kubelet"], s.Files["/usr/local/bin/kubelet.part"] = "theirs", "the"
	if s.Bring != nil {
		s.Bring(s)
	} else {
		s.Files["/usr/bin/ctr"] = "theirs"
	}
	s.Files["/etc/systemd/system/containerd.service.d/90-kok-proxy.conf"] = "EnvironmentFile=/etc/kok/proxy.env"
	s.Files["/etc/hostname"], s.Files["/etc/hosts"], s.name = "worker-1\n", "127.0.1.1 worker-1\n", "worker-1"
	s.Users["deploy"], s.Locked["deploy"], s.Locked["admin"] = true, true, true
	s.Files["/home/admin/.ssh/authorized_keys"] += "ssh-ed25519 " + TenantKey + " tenant\n"
	s.Files["/home/deploy/.ssh/authorized_keys"] = "ssh-ed25519 " + TenantKey + " tenant\n"
	s.Files["/etc/ssh/keys/deploy"] = "ssh-ed25519 " + TenantKey + " tenant\n"
	s.Files["/etc/sudoers.d/90-cloud-init-users"] = "deploy ALL=(ALL) NOPASSWD:ALL\n"
	s.Files["/etc/chrony/chrony.conf.dist"], s.Files["/etc/chrony/chrony.conf"] = s.Files["/etc/chrony/chrony.conf"], "server theirs\n"
	s.Files["/etc/apt/sources.list.d/theirs.list"], s.Files["/etc/apt/trusted.gpg.d/theirs.gpg"] = "deb https://theirs.example.com ./", "key"
	s.Files["/etc/apt/apt.conf.d/90cloud-init-aptproxy"] = "Acquire::http::Proxy \"http://theirs.example.com\";"
	if !s.Succeed {
		return
	}
	s.Units["watch@disk.service"] = &hosts.UnitState{Loaded: true, Active: "active", Enabled: true}
	s.Units["kubelet.service"] = &hosts.UnitState{Loaded: true, Active: "active", Enabled: true}
	s.Files["/var/lib/kubelet/config.yaml"], s.Files["/etc/kubernetes/kubelet.conf"] = "", ""
	s.Files["/etc/cni/net.d/10-flannel.conflist"], s.Files[onworker.SentinelFile] = "", "success"
	s.Tasks = []string{"0123abc", "4567def"}
	s.Images = append(s.Images, "registry.example.com/private/app:1", "sha256:0123")
	s.Units[onworker.ContainerdUnit].Active, s.containerd = "active", s.containerdSettings()
	s.Links = append(s.Links, "cni0", "flannel.1")
	s.Routes = append(s.Routes, "10.244.2.0/24 via 192.0.2.8 dev eth0", "blackhole 10.244.1.0/26", "fd00:10:244:2::/64 metric 1024 via 2001:db8::8 dev eth0")
	s.Tables = append(s.Tables, "ip kube-proxy", "ip6 kube-proxy", "ip flannel-ipv4")
	s.iptables = "*filter\n:KUBE-FIREWALL - [0:0]\nCOMMIT\n"
	s.Mounts = append(s.Mounts, "/var/lib/kubelet/pods/1/volumes/a b", "/data")
}

func (s *Simulated) cloudInit(args []string) (string, int) {
	switch args[0] {
	case "status":
		if s.Succeed {
			return `{"status": "done", "detail": "DataSourceNoCloud", "errors": []}`, 0
		}
		return `{"status": "error", "detail": "x", "errors": ["('scripts-user', RuntimeError('Runparts: 1 failures'))"]}`, 1
	case "clean":
		for name := range maps.Clone(s.Files) {
			if strings.HasPrefix(name, cloudinit.Dir+"/") && !strings.HasPrefix(name, cloudinit.Dir+"/seed/") {
				delete(s.Files, name)
			}
		}
	}
	return "", 0
}
