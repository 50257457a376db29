package probe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
)

func TestProbe(t *testing.T) {
	for name, test := range map[string]struct {
		edit    func(*hosttest.Simulated)
		reason  string
		message string
	}{
		"a good host": {func(*hosttest.Simulated) {}, "", ""},
		"no sudo": {func(s *hosttest.Simulated) { s.NoSudo = true }, SudoMissing,
			`the user may not run commands as root without a password (sudo: a password is required); allow it`},
		"no cloud-init": {func(s *hosttest.Simulated) { s.Remove("/usr/bin/cloud-init") }, SoftwareMissing,
			"cloud-init is not in /usr/bin, /usr/sbin or below /usr/local; install it, for example with apt-get install cloud-init"},
		"no iproute2":             {func(s *hosttest.Simulated) { s.Remove("/usr/bin/ip") }, SoftwareMissing, "install it, for example with apt-get install iproute2"},
		"no nftables":             {func(s *hosttest.Simulated) { s.Remove("/usr/bin/nft") }, SoftwareMissing, "install it, for example with apt-get install nftables"},
		"cloud-init switched off": {func(s *hosttest.Simulated) { s.Files[disabledFile] = "" }, SoftwareMissing, "is switched off by " + disabledFile},
		"a full disk": {func(s *hosttest.Simulated) { s.Disks = map[string]string{"/var/lib": "100000 4096 500000 1000000"} },
			DiskFull, "the file system of /var/lib has 390 MiB free, 1024 MiB are needed; make room on it"},
		"a full disk for images": {func(s *hosttest.Simulated) {
			s.Disks = map[string]string{"/var/lib/containerd": "0 4096 500000 1000000"}
		},
			DiskFull, "the file system of /var/lib/containerd has 0 MiB free, 1024 MiB are needed; make room on it"},
		"no folders of a node yet": {func(s *hosttest.Simulated) {
			s.Disks = map[string]string{"/var/lib/containerd": "", "/var/lib/kubelet": ""}
		}, "", ""},
		"no inodes": {func(s *hosttest.Simulated) { s.Disks = map[string]string{"/": "1000000 4096 9 1000000"} },
			DiskFull, "the file system of / has 9 inodes free, 10000 are needed"},
		"a node's folder that is a link": {func(s *hosttest.Simulated) { s.Symlinks = map[string]string{"/var/lib/kubelet": "/data/kubelet"} },
			FolderIsLink, "/var/lib/kubelet is /data/kubelet because of a symbolic link, and a clean-up would leave a machine's keys and volumes there; mount the disk at /var/lib/kubelet instead of the link"},
		"a node's folders below a link": {func(s *hosttest.Simulated) { s.Symlinks = map[string]string{"/var/lib": "/data/lib"} },
			FolderIsLink, "mount the disk at /var/lib/kubelet instead of the link"},
		"links that systemd and a distribution make": {func(s *hosttest.Simulated) {
			s.Symlinks = map[string]string{"/var/lib/kok-apiserver-lb": "/var/lib/private/kok-apiserver-lb", "/var/run": "/run", "/lib": "/usr/lib", "/opt": "/var/opt"}
		}, "", ""},
		"a file system without inodes": {func(s *hosttest.Simulated) { s.Disks = map[string]string{"/": "1000000 4096 0 0"} }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := hosttest.New(t)
			test.edit(s)
			facts, problem, err := Run(t.Context(), hosts.New(s, "admin"))
			if err != nil {
				t.Fatal(err)
			}
			if problem == nil {
				problem = &Problem{}
			}
			if problem.Reason != test.reason || !strings.Contains(problem.Message, test.message) {
				t.Errorf("%+v", problem)
			}
			if !s.NoSudo && (facts == nil || facts.Architecture != "amd64" || facts.OSImage != "Debian GNU/Linux 12" || facts.CPUs != 4 || facts.Memory != 8032000<<10 || fmt.Sprint(facts.Programs) != "[containerd ctr]") {
				t.Errorf("%+v", facts)
			}
		})
	}
}
